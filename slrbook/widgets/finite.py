"""The learning curves of the finite-sample chapter: theory, simulation and the Bayes limit."""

from __future__ import annotations

import traitlets

from ..store import Table
from ._figure import Figure, bundle

ACTIVATIONS = ("softmax", "linear")
QUANTITIES = ("risk", "m_k", "q_k", "m_v", "q_v")


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


class LearningCurves(Figure):
    r"""Risk or overlaps against alpha, with choices of task, quantity and ridge.

    Parameters
    ----------
    limits, fits, bayes : Table
        The published results ``erm_limits``, ``erm_fits`` and ``bayes_limits``.
    task : str
        One of the names in the column ``task``.
    quantity : str
        One of ``QUANTITIES``.
    ridge, alpha : float
        The ridge shown, and where the marker stands: values that ``limits`` holds.

    Raises
    ------
    ValueError
        If an argument is none of these.
    """

    _module = "finite.js"
    _esm = bundle("finite.js")

    task = traitlets.Unicode().tag(sync=True)
    quantity = traitlets.Unicode().tag(sync=True)
    ridge = traitlets.Int().tag(sync=True)
    alpha = traitlets.Int().tag(sync=True)
    ridges = traitlets.List().tag(sync=True)
    alphas = traitlets.List().tag(sync=True)
    theory = traitlets.Dict().tag(sync=True)
    simulation = traitlets.Dict().tag(sync=True)
    bayes = traitlets.Dict().tag(sync=True)

    def __init__(self, limits: Table, fits: Table, bayes: Table, task: str = "spiked-2",
                 quantity: str = "risk", ridge: float = 1.0, alpha: float = 4.0) -> None:
        ridges = sorted(set(limits["ridge_k"].tolist()))
        alphas = sorted(set(limits["alpha"].tolist()))
        tasks = list(dict.fromkeys(limits["task"].tolist()))
        for name, value, allowed in (("task", task, tasks), ("quantity", quantity, QUANTITIES),
                                     ("ridge", ridge, ridges), ("alpha", alpha, alphas)):
            if value not in allowed:
                raise ValueError(f"{name} must be one of {allowed}; got {value!r}")
        super().__init__(
            task=task, quantity=quantity, ridge=ridges.index(ridge), alpha=alphas.index(alpha),
            ridges=ridges, alphas=alphas,
            theory={t: {a: {q: [self._curve(limits.where(task=t, activation=a, ridge_k=r), q)
                                for r in ridges] for q in QUANTITIES} for a in ACTIVATIONS}
                    for t in tasks},
            simulation={t: {a: {q: {str(ridges.index(r)): self._points(
                fits.where(task=t, activation=a, ridge=r), q)
                for r in sorted(set(fits["ridge"].tolist()))} for q in QUANTITIES}
                for a in ACTIVATIONS} for t in tasks},
            bayes={t: self._curve(bayes.where(task=t, start="uninformed"), "risk")
                   for t in tasks})

    @staticmethod
    def _curve(rows: Table, quantity: str) -> list[float | None]:
        """The values in the order of alpha; None where the solver did not converge."""
        points = sorted(zip(rows["alpha"], rows["converged"], rows[quantity]))
        return [_rounded(value) if converged else None for _, converged, value in points]

    @staticmethod
    def _points(rows: Table, quantity: str) -> list[list[float]]:
        """Alpha, mean and standard error of the simulated points."""
        return [[_rounded(number) for number in point]
                for point in zip(*rows.average("alpha", quantity))]

    def fallback(self) -> str:
        """Return a table of the risks at the chosen task and ridge."""
        columns = [self.theory[self.task][name]["risk"][self.ridge] for name in ACTIVATIONS]
        columns.append(self.bayes[self.task])
        head = "".join(f'<th scope="col">{name}</th>' for name in (*ACTIVATIONS, "Bayes-optimal"))
        body = "".join(
            f'<tr><th scope="row">{alpha:g}</th>'
            + "".join(f"<td>{'-' if value is None else f'{value:.3f}'}</td>" for value in values)
            + "</tr>" for alpha, *values in zip(self.alphas, *columns))
        return (f"<table><caption>Risk against alpha: {self.task}, ridge "
                f"{self.ridges[self.ridge]:g}.</caption>"
                f'<tr><th scope="col">alpha</th>{head}</tr>{body}</table>')
