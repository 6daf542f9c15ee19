"""The population risk of softmax and linear attention, with sliders."""

from __future__ import annotations

import traitlets

from ..population import bayes_risk, population_risk, risk_at
from ..tasks import MaxSLR, SpikedSLR
from ._figure import Figure, bundle

#: The lengths of the slider.
LENGTHS = (2, 3, 5, 10, 20, 50, 100, 200, 500, 10**3, 10**4, 10**5, 10**6)

_TASKS = {"spiked": SpikedSLR, "max": MaxSLR}


def _check_length(length: int) -> int:
    if length not in LENGTHS:
        raise ValueError(f"length must be one of {LENGTHS}, got {length}")
    return int(length)


def _table(caption: str, head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    top = "".join(f'<th scope="col">{name}</th>' for name in head)
    body = "".join(f'<tr><th scope="row">{row[0]}</th>'
                   + "".join(f"<td>{cell}</td>" for cell in row[1:]) + "</tr>" for row in rows)
    return f"<table><caption>{caption}</caption><tr>{top}</tr>{body}</table>"


class RiskCurves(Figure):
    r"""Noiseless population risk against nu, with choices of the task and the length.

    Parameters
    ----------
    task : str
        "spiked" or "max".
    length : int
        One of ``LENGTHS``.
    index : int
        Position of the marker on the grid :math:`\nu = 10^{i/20 - 1}`, from 0 to 60.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Examples
    --------
    >>> figure = RiskCurves(task="spiked", length=10, index=20)
    >>> figure.nu
    1.0
    >>> [round(risk, 6) for risk in figure.risks()]
    [0.790332, 0.825688]
    """

    _module = "population.js"
    _esm = bundle("population.js")

    view = traitlets.Unicode("risk").tag(sync=True)
    task = traitlets.Unicode().tag(sync=True)
    length = traitlets.Int().tag(sync=True)
    index = traitlets.Int().tag(sync=True)

    def __init__(self, task: str = "spiked", length: int = 10, index: int = 34) -> None:
        if task not in _TASKS:
            raise ValueError(f"task must be one of {', '.join(_TASKS)}; got {task!r}")
        if not 0 <= index <= 60:
            raise ValueError(f"index must lie between 0 and 60, got {index}")
        super().__init__(task=task, length=_check_length(length), index=int(index))

    @property
    def nu(self) -> float:
        """The signal strength at the marker."""
        return 10 ** (self.index / 20 - 1)

    def risks(self, nu: float | None = None) -> tuple[float, float]:
        """Return the risks of softmax and linear attention, at the marker or at ``nu``."""
        task = _TASKS[self.task](self.nu if nu is None else nu, self.length)
        return bayes_risk(task), population_risk(task, "linear").risk

    def fallback(self) -> str:
        """Return a table of both risks."""
        rows = [(f"{nu:g}", *(f"{risk:.3g}" for risk in self.risks(nu)))
                for nu in (0.1, 1, 3, 10, 30)]
        return _table(f"Risk without noise, {self.task} task, L = {self.length}",
                      ("ν", "softmax", "linear"), rows)


class Temperature(Figure):
    r"""Risk of softmax against its key scale in the spiked task, in units of :math:`\sqrt\nu`.

    Parameters
    ----------
    nu : float
        Signal strength, a multiple of 0.5 from 0.5 to 30.
    length : int
        One of ``LENGTHS``.
    index : int
        Position of the marker on the grid of scales :math:`2^{(i - 36)/12}`, from 0 to 72.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Examples
    --------
    >>> figure = Temperature(nu=4.0, length=3, index=24)
    >>> figure.ratio, round(figure.risk(), 4)
    (0.5, 0.2178)
    """

    _module = "population.js"
    _esm = bundle("population.js")

    view = traitlets.Unicode("temperature").tag(sync=True)
    nu = traitlets.Float().tag(sync=True)
    length = traitlets.Int().tag(sync=True)
    index = traitlets.Int().tag(sync=True)

    def __init__(self, nu: float = 5.0, length: int = 10, index: int = 24) -> None:
        if not 0.5 <= nu <= 30 or 2 * nu != round(2 * nu):
            raise ValueError(f"nu must be a multiple of 0.5 from 0.5 to 30, got {nu}")
        if not 0 <= index <= 72:
            raise ValueError(f"index must lie between 0 and 72, got {index}")
        super().__init__(nu=float(nu), length=_check_length(length), index=int(index))

    @property
    def ratio(self) -> float:
        r"""The key scale at the marker, in units of :math:`\sqrt\nu`."""
        return 2 ** ((self.index - 36) / 12)

    def risk(self, ratio: float | None = None) -> float:
        """Return the risk of softmax at the marker, or at another ratio."""
        task = SpikedSLR(self.nu, self.length)
        return risk_at(task, "softmax", (self.ratio if ratio is None else ratio) * task.key_scale)

    def fallback(self) -> str:
        """Return a table of the risk at a few key scales."""
        rows = [(f"{ratio:g}", f"{self.risk(ratio):.3g}") for ratio in (0.25, 0.5, 1, 2, 4)]
        return _table(f"Risk of softmax without noise, spiked task, ν = {self.nu:g}, "
                      f"L = {self.length}", ("key scale / √ν", "risk"), rows)
