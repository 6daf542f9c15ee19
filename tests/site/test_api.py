"""The reference of the package, written from its docstrings."""

from __future__ import annotations

import sys

import pytest
from sphinx.util.inventory import InventoryFile

from conftest import SITE

ROOT = SITE.parents[1]
sys.path.append(str(ROOT / "book" / "_ext"))

from slrapi import exported, full_name, public_names  # noqa: E402


def test_every_public_name_has_an_entry():
    with open(SITE / "objects.inv", "rb") as file:
        known = InventoryFile.load(file, "", lambda base, uri: uri)
    entries = {name for kind, names in known.items() if kind.startswith("py:") for name in names}
    wanted = {full_name(module, name, exported()) for module, names in public_names().items()
              for name in names}
    assert {"slrbook.solve_erm", "slrbook.store.read", "slrbook.widgets.Attention"} <= wanted
    assert wanted - entries == set()


def test_docstrings_are_rendered_whole(visit):
    text = visit.go("book/api.html").locator("article").inner_text()
    for residue in (":math:", ":func:", ":class:", "``", "Parameters\n---", "{math}"):
        assert residue not in text
    assert "\nSource\n" in text and "Source –" not in text


@pytest.mark.parametrize("chapter, name", [("finite", "solve_erm"), ("finite", "fit_erm"),
                                           ("population", "overlap_risk"), ("model", "bayes_risk")])
def test_a_chapter_links_to_what_it_uses(visit, chapter, name):
    page = visit.go(f"book/{chapter}.html")
    page.locator(f"article a[href='api.html#slrbook.{name}']").first.click()
    page.wait_for_url(f"**/api.html#slrbook.{name}")
