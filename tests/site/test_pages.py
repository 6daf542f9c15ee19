"""Every page of the site, read in a browser."""

from __future__ import annotations

import re

import pytest

from conftest import built_pages

PAGES = [page for page in built_pages() if page not in ("genindex.html", "search.html")]


def test_the_site_is_built():
    assert PAGES, "The site is not built: run `make book` first."


def test_the_root_leads_to_the_first_page(visit):
    visit.page.goto(f"{visit.site}/index.html")
    visit.page.wait_for_url("**/book/intro.html")


@pytest.mark.parametrize("path", built_pages())
def test_page_is_self_contained_and_without_errors(visit, path):
    visit.go(path)
    foreign = [url for url in visit.requests if not url.startswith((visit.site, "data:", "blob:"))]
    assert foreign == []
    assert visit.errors == []


@pytest.mark.parametrize("path", PAGES)
def test_formulas_are_typeset(visit, path):
    page = visit.go(path)
    sources = page.locator(".math").count()
    assert page.locator("mjx-container").count() >= sources
    assert page.locator("mjx-merror").count() == 0
    text = page.locator("article").inner_text()
    assert not re.search(r"\$\$|\\\(|\\begin\{", text)
