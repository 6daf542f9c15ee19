"""The interactive figure of the chapter "The model", against the package."""

from __future__ import annotations

import json

import numpy as np
import pytest

from slrbook.widgets import Posterior


def drawn(page, what: str) -> np.ndarray:
    marks = page.locator(f"[data-{what}]").all()
    assert [int(mark.get_attribute("data-token")) for mark in marks] == list(range(1, len(marks) + 1))
    return np.array([float(mark.get_attribute(f"data-{what}")) for mark in marks])


def twin(page) -> Posterior:
    """A Python figure with the numbers stored in the page."""
    state = json.loads(page.locator("[data-module='posterior.js']").get_attribute("data-state"))
    figure = Posterior(task=state["task"], nu=state["nu"], length=state["length"])
    for name in ("normals", "gumbels", "uniforms"):
        setattr(figure, name, state[name])
    return figure


@pytest.mark.parametrize("task", ["spiked", "max"])
def test_every_setting_draws_what_the_package_computes(visit, task):
    page = visit.go("book/model.html")
    figure = twin(page)
    place = page.locator("[data-module='posterior.js']")
    figure.task = task
    place.get_by_label("task").select_option(task)
    for nu, length in ((0.0, 1), (0.7, 3), (4.0, 8), (25.0, 20)):
        figure.nu, figure.length = nu, length
        place.get_by_label("\u03bd").fill(str(nu))
        place.get_by_label("L", exact=True).fill(str(length))
        for sequence in range(len(figure.normals)):
            figure.sequence = sequence
            np.testing.assert_allclose(drawn(place, "score"), figure.scores(), rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(drawn(place, "posterior"), figure.posterior(), rtol=1e-9,
                                       atol=1e-15)
            chosen = place.locator(".slr-bar-relevant")
            assert int(chosen.get_attribute("data-token")) == figure.location() + 1
            place.get_by_role("button", name="next sequence").click()
    assert visit.errors == []


def test_the_summary_says_what_is_drawn_and_reset_returns(visit):
    page = visit.go("book/model.html")
    place = page.locator("[data-module='posterior.js']")
    figure = twin(page)
    start = place.locator(".slr-summary").inner_text()
    p = np.array(figure.posterior())
    assert f"token {figure.location() + 1}, posterior" in start
    assert f"{1 - (p**2).sum():.3f}".rstrip("0") in start
    assert ("(the highest)" in start) == (p.argmax() == figure.location())
    place.get_by_label("task").select_option("max")
    place.get_by_role("button", name="next sequence").click()
    assert place.locator(".slr-summary").inner_text() != start
    place.get_by_role("button", name="reset").click()
    assert place.locator(".slr-summary").inner_text() == start
    np.testing.assert_allclose(drawn(place, "posterior"), p, rtol=1e-9)
