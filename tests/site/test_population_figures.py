"""The interactive figures of the chapters on the population risk, operated as a reader would."""

from __future__ import annotations

import math

import pytest

from slrbook import MaxSLR, SpikedSLR, bayes_risk, population_risk, risk_at
from slrbook.widgets.population import LENGTHS

KINDS = {"spiked": SpikedSLR, "max": MaxSLR}


def data(page, name: str) -> float:
    return float(page.locator(".slr-widget svg.slr-plot").get_attribute(f"data-{name}"))


def move(page, label: str, value: float) -> None:
    page.locator(".slr-widget").get_by_label(label).fill(str(value))


@pytest.mark.parametrize("kind", KINDS)
def test_risk_curves_are_those_of_the_package(visit, kind):
    page = visit.go("book/population.html")
    page.locator(".slr-widget").get_by_label("task").select_option(kind)
    for length, index in ((2, 0), (3, 60), (10, 34), (1000, 52), (10**6, 50)):
        move(page, "length L", LENGTHS.index(length))
        move(page, "signal ν", index)
        task = KINDS[kind](10 ** (index / 20 - 1), length)
        assert data(page, "nu") == pytest.approx(task.nu, rel=1e-12)
        assert data(page, "softmax") == pytest.approx(bayes_risk(task), rel=1e-6)
        assert data(page, "linear") == pytest.approx(population_risk(task, "linear").risk, rel=1e-6)
    assert visit.errors == []


def test_risk_curves_answer_the_keyboard(visit):
    page = visit.go("book/population.html")
    before = data(page, "softmax")
    page.locator(".slr-widget").get_by_label("signal ν").focus()
    page.keyboard.press("ArrowRight")
    assert data(page, "softmax") < before
    summary = page.locator(".slr-widget .slr-summary").inner_text()
    assert f"{data(page, 'softmax'):.4g}"[:5] in summary


def test_temperature_curve_is_that_of_the_package(visit):
    page = visit.go("book/nishimori.html")
    for nu, length, index in ((5, 10, 24), (0.5, 2, 0), (30, 2, 72), (20, 1000, 48),
                              (30, 10**6, 12)):
        move(page, "signal ν", nu)
        move(page, "length L", LENGTHS.index(length))
        move(page, "key scale / √ν", index)
        task = SpikedSLR(nu, length)
        ratio = 2 ** ((index - 36) / 12)
        assert data(page, "ratio") == pytest.approx(ratio, rel=1e-12)
        assert data(page, "best") == pytest.approx(bayes_risk(task), rel=1e-6)
        assert data(page, "linear") == pytest.approx(population_risk(task, "linear").risk, rel=1e-6)
        expected = risk_at(task, "softmax", ratio * math.sqrt(nu))
        assert data(page, "risk") == pytest.approx(expected, rel=1e-6)
    assert visit.errors == []


def test_temperature_says_when_linear_attention_is_better(visit):
    page = visit.go("book/nishimori.html")
    summary = page.locator(".slr-widget .slr-summary")
    move(page, "key scale / √ν", 36)
    assert "0.0 % above" in summary.inner_text() and "better than linear" in summary.inner_text()
    move(page, "signal ν", 1)
    move(page, "key scale / √ν", 0)
    assert "worse than linear" in summary.inner_text()
