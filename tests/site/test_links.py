"""Every link of the built site, followed without a browser."""

from __future__ import annotations

from functools import lru_cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml

from conftest import SITE, built_pages

ROOT = SITE.parents[1]


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect what the page points to and what can be pointed to."""
        values = dict(attrs)
        self.links += [values[key] for key in ("href", "src") if values.get(key)]
        self.anchors |= {values[key] for key in ("id", "name") if values.get(key)}


@lru_cache(maxsize=None)
def read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf8"))
    return page


@pytest.mark.parametrize("path", ["index.html", *built_pages()])
def test_internal_links_and_anchors_resolve(path):
    here = SITE / path
    broken = []
    for link in read(here).links:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = (here.parent / unquote(parts.path)).resolve() if parts.path else here
        if not target.is_file():
            broken.append(link)
        elif (target.suffix == ".html" and parts.fragment
                and unquote(parts.fragment) not in read(target).anchors):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("path", built_pages())
def test_links_to_elsewhere_are_encrypted_and_load_nothing(path):
    text = (SITE / path).read_text(encoding="utf8")
    assert "http://" not in text.replace("http://www.w3.org/", "")
    for link in read(SITE / path).links:
        assert urlsplit(link).scheme in ("", "https", "mailto", "data"), link


def test_every_page_of_the_table_of_contents_exists_and_no_other():
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf8"))
    listed: set[str] = {toc["root"]}
    waiting: list[object] = [toc.get("chapters", []), toc.get("parts", [])]
    while waiting:
        entry = waiting.pop()
        if isinstance(entry, dict):
            listed |= {entry["file"]} if "file" in entry else set()
            waiting += entry.values()
        elif isinstance(entry, list):
            waiting += entry
    built = {page.removesuffix(".html") for page in built_pages()}
    assert built - {"search"} == listed


def test_every_chapter_is_in_the_table_of_contents():
    toc = (ROOT / "_toc.yml").read_text(encoding="utf8")
    for chapter in (ROOT / "book").glob("*.ipynb"):
        assert f"book/{chapter.stem}" in toc
