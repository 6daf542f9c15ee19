"""Every page of the site, read in a browser."""

from __future__ import annotations

import json
from pathlib import Path
import re

import pytest

from conftest import SITE, built_pages

ROOT = SITE.parents[1]
PAGES = [page for page in built_pages() if page != "search.html"]
CHAPTERS = sorted(path.stem for path in (ROOT / "book").glob("*.ipynb"))

#: What is wider than a box that neither scrolls nor lets it out, so that its end cannot be read.
CUT_OFF = """() => [...document.querySelectorAll('article *')].filter((node) =>
    ['hidden', 'clip'].includes(getComputedStyle(node).overflowX) && node.checkVisibility()
    && node.clientWidth > 2 && node.scrollWidth > node.clientWidth + 1
    && !node.closest('.math, svg')).concat(
    [...document.querySelectorAll('article mjx-container:not([display]) mjx-math')].filter((node) =>
      node.checkVisibility() && node.getBoundingClientRect().right > innerWidth
      && getComputedStyle(node.parentElement).overflowX !== 'auto'))
  .map((node) => node.outerHTML.slice(0, 200))"""


def test_the_root_leads_to_the_first_page(visit):
    visit.page.goto(f"{visit.site}/index.html")
    visit.page.wait_for_url("**/book/intro.html")


@pytest.mark.parametrize("path", built_pages())
def test_page_is_self_contained_and_without_errors(visit, path):
    visit.go(path).wait_for_load_state("networkidle")
    foreign = [url for url in visit.requests if not url.startswith((visit.site, "data:", "blob:"))]
    assert foreign == []
    assert visit.errors == []


@pytest.mark.parametrize("path", PAGES)
def test_formulas_are_typeset(visit, path):
    page = visit.go(path)
    assert page.locator("mjx-container").count() >= page.locator(".math").count()
    assert page.locator("mjx-merror").count() == 0
    text = page.locator("article").inner_text()
    assert not re.search(r"\$\$|\\\(|\\begin\{", text)


def test_the_book_has_formulas_at_all(visit):
    assert visit.go("book/needle.html").locator("mjx-container").count() > 0


@pytest.mark.parametrize("path", built_pages())
def test_nothing_overflows_a_telephone(visitor, path):
    page = visitor(width=390).go(path)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate(CUT_OFF) == []


@pytest.mark.parametrize("path", PAGES)
def test_images_have_alternative_text_and_are_loaded(visit, path):
    page = visit.go(path)
    for image in page.locator("article img").all():
        assert len((image.get_attribute("alt") or "").strip()) >= 15, image.get_attribute("src")
        assert image.evaluate("node => node.complete && node.naturalWidth > 0")


@pytest.mark.parametrize("path", PAGES)
def test_figures_of_cells_have_captions(visit, path):
    page = visit.go(path)
    for image in page.locator("article .cell_output img").all():
        caption = image.locator("xpath=ancestor::figure//figcaption")
        assert caption.count() == 1, image.get_attribute("alt")
        assert len(caption.inner_text().strip()) >= 20


@pytest.mark.parametrize("word, page_found", [("haystack", "needle.html"), ("Duranthon", "bibliography.html")])
def test_search_finds_a_word(visit, word, page_found):
    page = visit.page
    visit.go("book/intro.html")
    page.locator("button.search-button-field").click()
    page.locator("input[type=search]:visible").fill(word)
    page.keyboard.press("Enter")
    page.wait_for_url("**/search.html?q=*")
    page.locator(f"#search-results li a[href*='{page_found}']").first.wait_for()
    assert visit.errors == []


def test_search_for_nonsense_finds_nothing(visit):
    page = visit.go("search.html?q=qzxqzxqzx")
    page.locator("#search-results p.search-summary", has_text="did not match").wait_for()
    assert page.locator("#search-results li").count() == 0


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_download_button_gives_the_notebook(visit, chapter):
    page = visit.go(f"book/{chapter}.html")
    page.locator(".dropdown-download-buttons > button").click()
    with page.expect_download() as started:
        page.locator(".btn-download-source-button").click()
    given = json.loads(Path(started.value.path()).read_text(encoding="utf8"))
    stored = json.loads((ROOT / "book" / f"{chapter}.ipynb").read_text(encoding="utf8"))
    assert given == stored
    assert started.value.suggested_filename == f"{chapter}.ipynb"


@pytest.mark.parametrize("path", PAGES)
def test_page_reads_from_a_file(browser, path):
    page = browser.new_page()
    page.goto((SITE / path).as_uri(), wait_until="load")
    page.evaluate("() => window.MathJax?.startup?.promise")
    assert page.locator("mjx-container").count() >= page.locator(".math").count()
    assert page.locator("article h1").first.is_visible()
    for figure in page.locator(".slr-widget").all():
        figure.get_by_text("make serve").wait_for()
        assert figure.locator("table, svg").count() > 0
    page.close()
