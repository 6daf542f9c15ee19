"""What the published site needs, checked on a site of two pages built with the book's extension."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urljoin
from xml.etree import ElementTree

import pytest
from sphinx.application import Sphinx
from sphinx.errors import ConfigError
from sphinx.util.docutils import docutils_namespace
import yaml

ROOT = Path(__file__).resolve().parents[1]
BASE = "https://book.example/attention/"


def build(folder: Path, **settings) -> Path:
    """Build two pages and return the folder of the site."""
    source = folder / "source"
    (source / "book").mkdir(parents=True, exist_ok=True)
    (source / "conf.py").write_text(
        f"import sys\nsys.path.insert(0, {str(ROOT / 'book' / '_ext')!r})\n"
        "extensions = ['slrpublish']\n", encoding="utf8")
    (source / "index.rst").write_text("Home\n====\n\n.. toctree::\n\n   book/one\n", encoding="utf8")
    (source / "book" / "one.rst").write_text("One\n===\n", encoding="utf8")
    site = folder / "site"
    with docutils_namespace():
        Sphinx(source, source, site, folder / "trees", "html", confoverrides=settings, status=None,
               warningiserror=True, freshenv=True).build(force_all=True)
    return site


def test_with_an_address_pages_sitemap_and_robots_name_it(tmp_path):
    site = build(tmp_path, html_baseurl=BASE)
    for page in ("index", "book/one"):
        assert f'<link rel="canonical" href="{BASE}{page}.html"' in (site / f"{page}.html").read_text("utf8")
    tree = ElementTree.parse(site / "sitemap.xml").getroot()
    assert [entry.text for entry in tree.iter("{http://www.sitemaps.org/schemas/sitemap/0.9}loc")] == [
        f"{BASE}book/one.html", f"{BASE}index.html"]
    assert f"Sitemap: {BASE}sitemap.xml" in (site / "robots.txt").read_text("utf8").splitlines()


def test_without_an_address_none_is_named_and_old_files_go(tmp_path):
    build(tmp_path, html_baseurl=BASE)
    site = build(tmp_path)
    assert not (site / "sitemap.xml").exists() and not (site / "robots.txt").exists()
    assert "canonical" not in (site / "index.html").read_text("utf8")


def test_the_old_address_of_a_page_leads_to_the_new_one(tmp_path):
    site = build(tmp_path, slr_moved={"old/deep/first": "book/one"})
    text = (site / "old" / "deep" / "first.html").read_text("utf8")
    target, = {part.split('"')[0] for part in text.split("url=")[1:]}
    assert f'<a href="{target}">' in text
    assert urljoin(f"{BASE}old/deep/first.html", target) == f"{BASE}book/one.html"


@pytest.mark.parametrize("settings", [
    {"html_baseurl": "https://book.example/attention"}, {"html_baseurl": "book.example/"},
    {"slr_moved": {"book/one": "index"}}, {"slr_moved": {"old": "nowhere"}},
    {"slr_moved": {"../old": "index"}}])
def test_a_setting_that_cannot_work_is_refused(tmp_path, settings):
    with pytest.raises(ConfigError, match="allowed is"):
        build(tmp_path, **settings)


def test_the_book_has_these_settings_in_one_place():
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf8"))
    assert "baseurl" in config["html"] and "url" in config["repository"]
    assert "slrpublish" in config["sphinx"]["config"]["extensions"]
    assert config["sphinx"]["local_extensions"]["slrpublish"] == "book/_ext"
    assert isinstance(config["sphinx"]["config"]["slr_moved"], dict)
