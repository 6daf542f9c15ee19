"""The proximal step of the finite-sample theory for two tokens."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize_scalar
import traitlets

from ._figure import Figure, bundle

#: Lowest and highest value of each slider.
RANGES = {"omega": (-8.0, 8.0), "v_k": (0.2, 12.0), "y": (-3.0, 3.0), "v_v": (0.0, 3.0)}


class Proximal(Figure):
    r"""Softmax with two tokens: the bracket of the proximal step, and its global minimum.

    .. math:: M = \min_\delta \frac{(\delta - \omega)^2}{4 V_k}
              + \frac{(y - s + (1 - s))^2}{2 (1 + V_v (s^2 + (1 - s)^2))},
              \qquad s = \frac{1}{1 + e^{-\delta}},

    with :math:`\delta = \chi_1 - \chi_2` the difference of the scores, :math:`\omega` its value
    before the step, and values :math:`w = (1, -1)`.

    Parameters
    ----------
    omega : float
        :math:`\omega`, from -8 to 8.
    v_k : float
        :math:`V_k`, from 0.2 to 12.
    y : float
        The label, from -3 to 3.
    v_v : float
        :math:`V_v`, from 0 to 3.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Examples
    --------
    >>> figure = Proximal(omega=0.0, v_k=1.0, y=0.0, v_v=0.5)
    >>> abs(round(figure.minimum()[0], 6))  # equal weights explain y = 0
    0.0
    """

    _module = "proximal.js"
    _esm = bundle("proximal.js")

    omega = traitlets.Float().tag(sync=True)
    v_k = traitlets.Float().tag(sync=True)
    y = traitlets.Float().tag(sync=True)
    v_v = traitlets.Float().tag(sync=True)

    def __init__(self, omega: float = -4.0, v_k: float = 6.0, y: float = 2.0,
                 v_v: float = 0.2) -> None:
        given = {"omega": omega, "v_k": v_k, "y": y, "v_v": v_v}
        for name, value in given.items():
            low, high = RANGES[name]
            if not low <= value <= high:
                raise ValueError(f"{name} must lie between {low:g} and {high:g}; got {value!r}")
        super().__init__(**{name: float(value) for name, value in given.items()})

    def minimum(self, omega: float | None = None) -> tuple[float, float]:
        r"""Return the minimiser :math:`\hat\delta` and the minimum M, here or at another omega."""
        centre = self.omega if omega is None else omega

        def bracket(delta):
            s = 1 / (1 + np.exp(-delta))
            return ((delta - centre)**2 / (4 * self.v_k)
                    + (self.y - 2 * s + 1)**2 / (2 * (1 + self.v_v * (s**2 + (1 - s)**2))))

        # beyond this distance the first term alone exceeds the value at the centre
        reach = 2 * math.sqrt(self.v_k * bracket(centre)) + 1e-3
        grid = centre + np.linspace(-reach, reach, 1201)
        near = grid[bracket(grid).argmin()]
        step = grid[1] - grid[0]
        best = minimize_scalar(bracket, bounds=(near - step, near + step), method="bounded",
                               options={"xatol": 1e-10})
        return float(best.x), float(best.fun)

    def fallback(self) -> str:
        """Return a table of the minimiser and the minimum."""
        rows = "".join(
            '<tr><th scope="row">{}</th><td>{:.2f}</td><td>{:.3f}</td></tr>'.format(
                omega, *self.minimum(omega)) for omega in (-8, -6, -4, -2, 0, 2, 4))
        return (f"<table><caption>Proximal step of two tokens, V_k = {self.v_k:g}, "
                f"y = {self.y:g}, V_v = {self.v_v:g}</caption><tr>"
                '<th scope="col">difference of scores before</th><th scope="col">after</th>'
                f'<th scope="col">minimum</th></tr>{rows}</table>')
