"""The home page: what it is, one figure that moves, where to start."""

from __future__ import annotations

import json

import pytest

from conftest import SITE

ROOT = SITE.parents[1]
HOME = "book/intro.html"


@pytest.mark.parametrize("width", [1280, 390])
def test_the_first_screen_says_what_it_is_and_shows_the_figure(visitor, width):
    visit = visitor(width=width)
    page = visit.go(HOME)
    assert page.locator("article p").first.bounding_box()["y"] < 450
    figure, = page.locator(".slr-widget").all()
    assert figure.bounding_box()["y"] < 900
    before = figure.locator("svg.slr-plot").first.inner_html()
    figure.locator("select").select_option("linear")
    assert figure.locator("svg.slr-plot").first.inner_html() != before
    assert visit.errors == []


def test_the_figure_is_that_of_the_first_chapter(visit):
    shown = visit.go(HOME).locator(".slr-widget").get_attribute("data-state")
    chapter = json.loads((ROOT / "book" / "needle.ipynb").read_text(encoding="utf8"))
    cell, = [cell for cell in chapter["cells"] if cell["id"] == "needle-interactive"]
    stored = "".join(cell["outputs"][0]["data"]["text/html"])
    assert json.loads(shown)["scores"] and all(
        str(score) in stored for score in json.loads(shown)["scores"])


def test_three_paths_lead_into_the_book(visit):
    page = visit.go(HOME)
    paths = page.locator(".sd-card").all()
    assert [path.locator(".sd-card-header, .sd-card-title").first.inner_text().split("\n")[0]
            for path in paths] == ["Curious", "Student", "Researcher"]
    for path in paths:
        links = path.locator("ol > li a")
        assert 3 <= links.count() <= 9 and path.locator("ol > li").count() == links.count()
