"""The interactive figure of the chapter "The replica derivation", against the package."""

from __future__ import annotations

import json

import numpy as np
import pytest

from slrbook.activations import Softmax
from slrbook.proximal import encode, proximal_points
from slrbook.widgets import Proximal

LABELS = {"omega": "ω", "v_k": "Vₖ", "y": "label y", "v_v": "Vᵥ"}
STATES = [(-8.0, 6.0, 2.0, 0.2), (-7.1, 6.0, 2.0, 0.2), (-7.0, 6.0, 2.0, 0.2),
          (0.0, 0.2, 0.0, 0.0), (3.0, 2.0, -1.5, 1.0), (8.0, 12.0, -3.0, 3.0)]


@pytest.mark.parametrize("state", STATES)
def test_the_figure_draws_the_minimum_of_the_package(visit, state):
    place = visit.go("book/replica.html").locator("[data-module='proximal.js']")
    for name, value in zip(LABELS, state):
        place.get_by_label(LABELS[name], exact=True).fill(str(value))
    plot = place.locator("svg.slr-plot").first
    drawn = [float(plot.get_attribute(f"data-{name}")) for name in ("delta", "value")]
    assert drawn == pytest.approx(Proximal(*state).minimum(), abs=1e-6)
    # the solver, started there, stays there
    omega, v_k, y, v_v = state
    shift = np.array([[1.0, -1.0]]) * (drawn[0] - omega) / 2
    pair = np.array([[omega / 2, -omega / 2]])
    found = proximal_points(encode(Softmax()), pair, np.array([[1.0, -1.0]]), np.array([y]), v_k,
                            v_v, shift, False, 0.0)
    assert found[0] == pytest.approx(drawn[1], abs=1e-9)
    assert visit.errors == []


def test_the_figure_opens_with_the_state_of_its_cell(visit):
    place = visit.go("book/replica.html").locator("[data-module='proximal.js']")
    state = json.loads(place.get_attribute("data-state"))
    plot = place.locator("svg.slr-plot").first
    assert float(plot.get_attribute("data-delta")) == pytest.approx(
        Proximal(**state).minimum()[0], abs=1e-6)
    assert int(plot.get_attribute("data-minima")) == 2
