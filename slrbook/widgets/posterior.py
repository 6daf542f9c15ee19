"""The posterior of the relevant token's location in one sequence."""

from __future__ import annotations

import math

import numpy as np
import traitlets

from ..tasks import MaxSLR, SpikedSLR
from ._figure import Figure, bundle

_TASKS = {"spiked": SpikedSLR, "max": MaxSLR}

#: The longest sequence and the largest nu of the sliders; the number of stored sequences.
LONGEST, LARGEST_NU, SEQUENCES = 20, 25.0, 8


class Posterior(Figure):
    r"""Scores and location posterior of one sequence, with controls for the task, nu and L.

    The randomness is drawn once and stored: normals :math:`b_\ell`, Gumbel variables
    :math:`\gamma_\ell` and a uniform u for each of eight sequences. Every setting of the controls
    transforms the same numbers:

    .. math:: \text{spiked:}\quad \epsilon = \lceil u L \rceil, \quad
              \chi^*_\ell = b_\ell + 1\{\ell = \epsilon\}\sqrt\nu; \qquad
              \text{max:}\quad \chi^* = b, \quad
              \epsilon = \mathrm{argmax}_\ell\, (\nu b_\ell + \gamma_\ell).

    Parameters
    ----------
    rng : int
        Seed of the stored numbers, which are rounded to six decimals so that the stored page and
        a running kernel show the same.
    task : str
        The task shown first: "spiked" or "max".
    nu : float
        The value of nu shown first, between 0 and 25.
    length : int
        The length shown first, between 1 and 20.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Examples
    --------
    >>> figure = Posterior(rng=0, task="max", nu=0.0, length=4)
    >>> figure.posterior()
    [0.25, 0.25, 0.25, 0.25]
    """

    _module = "posterior.js"
    _esm = bundle("posterior.js")

    normals = traitlets.List().tag(sync=True)
    gumbels = traitlets.List().tag(sync=True)
    uniforms = traitlets.List().tag(sync=True)
    sequence = traitlets.Int(0).tag(sync=True)
    task = traitlets.Unicode().tag(sync=True)
    nu = traitlets.Float().tag(sync=True)
    length = traitlets.Int().tag(sync=True)

    def __init__(self, *, rng: int = 0, task: str = "spiked", nu: float = 4.0,
                 length: int = 8) -> None:
        if task not in _TASKS:
            raise ValueError(f"task must be one of {', '.join(_TASKS)}; got {task!r}")
        if not 0 <= nu <= LARGEST_NU:
            raise ValueError(f"nu must lie between 0 and {LARGEST_NU:g}; got {nu!r}")
        if not 1 <= length <= LONGEST:
            raise ValueError(f"length must lie between 1 and {LONGEST}; got {length!r}")
        draw = np.random.default_rng(rng)
        shape = (SEQUENCES, LONGEST)
        super().__init__(normals=draw.standard_normal(shape).round(6).tolist(),
                         gumbels=draw.gumbel(size=shape).round(6).tolist(),
                         # rounded down: u = 1 would lie outside the sequence
                         uniforms=(np.floor(1e6 * draw.random(SEQUENCES)) / 1e6).tolist(),
                         task=task, nu=float(nu), length=int(length))

    def location(self) -> int:
        """Return the index of the relevant token, from 0."""
        if self.task == "spiked":
            return math.floor(self.uniforms[self.sequence] * self.length)
        shown = slice(self.length)
        tilted = (self.nu * np.array(self.normals[self.sequence][shown])
                  + np.array(self.gumbels[self.sequence][shown]))
        return int(tilted.argmax())

    def scores(self) -> list[float]:
        r"""Return the scores :math:`\chi^*_\ell` that are drawn."""
        scores = self.normals[self.sequence][:self.length]
        if self.task == "spiked":
            scores[self.location()] += math.sqrt(self.nu)
        return scores

    def posterior(self) -> list[float]:
        """Return the posterior of the location that is drawn."""
        task = _TASKS[self.task](self.nu, self.length)
        return task.location_posterior(self.scores()).tolist()

    def fallback(self) -> str:
        """Return a table of the scores and the posterior."""
        rows = "".join(
            f"<tr><th scope=\"row\">{number}{' (relevant)' if number == self.location() + 1 else ''}"
            f"</th><td>{score:.2f}</td><td>{probability:.3f}</td></tr>"
            for number, (score, probability)
            in enumerate(zip(self.scores(), self.posterior()), start=1))
        return (f"<table><caption>Location posterior ({self.task} task, nu = {self.nu:g}, "
                f"L = {self.length})</caption><tr><th scope=\"col\">token</th>"
                f"<th scope=\"col\">score</th><th scope=\"col\">posterior</th></tr>{rows}</table>")
