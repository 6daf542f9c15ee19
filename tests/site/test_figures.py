"""The interactive figures, operated as a reader would."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from conftest import SITE, built_pages
from slrbook import Erf, Linear, Softmax, Softplus, widgets
from slrbook.widgets._figure import Figure

KERNELS = {"softmax": Softmax(), "linear": Linear(), "erf": Erf(0.0), "softplus": Softplus()}
WITH_FIGURE = [page for page in built_pages()
               if 'class="slr-widget"' in (SITE / page).read_text(encoding="utf8")]
FIGURES = [item for item in vars(widgets).values() if isinstance(item, type)]

#: Mounts the one-piece module that JupyterLab is given, as anywidget does: from a blob.
MOUNT = """async ([source, state]) => {
  const url = URL.createObjectURL(new Blob([source], {type: 'text/javascript'}));
  const module = await import(url);
  const values = {...state};
  const model = {get: (name) => values[name], set(name, value) { values[name] = value; },
                 on() {}, off() {}, save_changes() {}};
  const el = document.createElement('div');
  document.body.replaceChildren(el);
  module.default.render({model, el});
}"""


def drawn(page) -> np.ndarray:
    bars = page.locator("rect[data-weight]")
    return np.array([float(bar.get_attribute("data-weight")) for bar in bars.all()])


def test_the_book_has_interactive_figures():
    assert "book/needle.html" in WITH_FIGURE
    assert FIGURES and all(issubclass(figure, Figure) for figure in FIGURES)


@pytest.mark.parametrize("activation", KERNELS)
def test_attention_draws_the_weights_of_the_package(visit, activation):
    page = visit.go("book/needle.html")
    state = json.loads(page.locator("[data-module='attention.js']").get_attribute("data-state"))
    page.get_by_label("activation").select_option(activation)
    for scale in ("0", "0.7", "6"):
        page.get_by_label("key scale").fill(scale)
        expected = KERNELS[activation](float(scale) * np.array(state["scores"]))
        np.testing.assert_allclose(drawn(page), expected, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("path", WITH_FIGURE)
def test_the_module_given_to_jupyterlab_draws_the_same(visitor, path):
    def picture(place) -> list[str]:
        return [re.sub(r' (id|aria-labelledby)="[^"]*"', "", plot.inner_html())
                for plot in place.locator("svg.slr-plot").all()]

    site, lab = visitor(), visitor()
    lab.page.goto(f"{lab.site}/book/intro.html")
    for place in site.go(path).locator(".slr-widget").all():
        figure = next(figure for figure in FIGURES
                      if figure._module == place.get_attribute("data-module"))
        lab.page.evaluate(MOUNT, [figure._esm, json.loads(place.get_attribute("data-state"))])
        assert picture(lab.page.locator("body")) == picture(place) != []
    assert lab.errors == []


@pytest.mark.parametrize("path", WITH_FIGURE)
def test_every_slider_answers_the_keyboard_and_the_mouse_and_resets(visit, path):
    page = visit.go(path)
    for figure in page.locator(".slr-widget").all():
        plots = figure.locator("svg.slr-plot")

        def picture() -> list[str]:
            return [plot.inner_html() for plot in plots.all()]

        start = picture()
        assert start and figure.locator("input[type=range]").count() > 0
        for slider in figure.locator("input[type=range]").all():
            before = picture()
            slider.focus()
            key = "ArrowRight" if slider.input_value() != slider.get_attribute("max") else "ArrowLeft"
            page.keyboard.press(key)
            moved = picture()
            assert moved != before
            box = slider.bounding_box()
            left = float(slider.input_value()) > (
                float(slider.get_attribute("max")) + float(slider.get_attribute("min"))) / 2
            slider.click(position={"x": box["width"] * (0.15 if left else 0.85),
                                   "y": box["height"] / 2})
            assert picture() != moved
            value = slider.locator("xpath=following-sibling::output")
            assert value.inner_text() == slider.get_attribute("aria-valuetext") != ""
        figure.get_by_role("button", name="reset").click()
        assert picture() == start
    assert visit.errors == []


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("path", WITH_FIGURE)
def test_figures_keep_their_place_while_they_are_operated(visitor, path, width):
    page = visitor(width=width).go(path)
    for figure in page.locator(".slr-widget").all():
        height = figure.bounding_box()["height"]
        for slider in figure.locator("input[type=range]").all():
            for end in ("min", "max"):
                slider.fill(slider.get_attribute(end))
                assert figure.bounding_box()["height"] == height


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("path", WITH_FIGURE)
def test_the_stored_state_is_what_the_module_reads_and_a_table_says_it_too(visitor, path, theme):
    script_off = visitor(theme)
    script_off.page.route("**/mount.js*", lambda route: route.abort())
    script_off.page.goto(f"{script_off.site}/{path}")
    for figure in script_off.page.locator(".slr-widget").all():
        assert json.loads(figure.get_attribute("data-state"))
        assert len(figure.inner_text().strip()) > 40
