"""The interactive figures, operated as a reader would."""

from __future__ import annotations

import json

import numpy as np
import pytest

from slrbook import Erf, Linear, Softmax, Softplus

KERNELS = {"softmax": Softmax(), "linear": Linear(), "erf": Erf(0.0), "softplus": Softplus()}


def drawn(page) -> np.ndarray:
    bars = page.locator(".slr-widget rect[data-weight]")
    return np.array([float(bar.get_attribute("data-weight")) for bar in bars.all()])


@pytest.mark.parametrize("activation", KERNELS)
def test_attention_draws_the_weights_of_the_package(visit, activation):
    page = visit.go("book/needle.html")
    state = json.loads(page.locator(".slr-widget").get_attribute("data-state"))
    page.get_by_label("activation").select_option(activation)
    for scale in ("0", "0.7", "6"):
        page.get_by_label("key scale").fill(scale)
        expected = KERNELS[activation](float(scale) * np.array(state["scores"]))
        np.testing.assert_allclose(drawn(page), expected, rtol=1e-6, atol=1e-12)


def test_attention_answers_keyboard_and_mouse_and_resets(visit):
    page = visit.go("book/needle.html")
    slider = page.get_by_label("key scale")
    first = drawn(page)
    slider.focus()
    page.keyboard.press("ArrowRight")
    second = drawn(page)
    assert not np.allclose(first, second)
    box = slider.bounding_box()
    slider.click(position={"x": 0.9 * box["width"], "y": box["height"] / 2})
    third = drawn(page)
    assert third.max() > second.max()
    page.get_by_role("button", name="reset").click()
    np.testing.assert_array_equal(drawn(page), first)
