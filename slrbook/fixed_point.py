r"""What both finite-sample limits share: draws of the teacher, and the accelerated iteration.

The equations have the form :math:`x = F(x)`, where F is an average over teachers, sequences and
labels. The draws are held fixed over the iteration, so F is a deterministic map.
"""

from __future__ import annotations

from collections.abc import Callable
import math
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, softmax

from . import _checks
from .gaussian import sobol_normals
from .tasks import MaxSLR, SpikedSLR

Task = SpikedSLR | MaxSLR

#: Previous iterates that an accelerated step combines.
_DEPTH = 6
#: Steps are plain until the residual is below the first, for at most the second.
_NEAR, _PLAIN = 0.1, 30
#: Points whose step is longer than the last by this factor would only bring their rounding.
_FAR = 1e6
#: Less damping than this is no progress.
_LEAST_DAMPING = 1e-4
#: Above this residual every evaluation looks for lower minima of the proximal step.
_ROUGH = 1e-3
#: Sobol dimensions that scipy offers allow this length and no more.
LONGEST = 7000


class ConvergenceError(RuntimeError):
    """The iteration stopped away from a solution.

    Attributes
    ----------
    reason : str
        Why it stopped.
    state : object
        The result as it stood (``converged`` is False), or None if there is none.
    """

    def __init__(self, message: str, *, reason: str, state: object = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.state = state


class Draws(NamedTuple):
    r"""Fixed standard normals from which sequences of one length L are made.

    With token 0 the relevant one, projections and labels at given overlaps are

    .. math:: \omega_\ell = m_k t_\ell + s_k b_\ell, \qquad
              w_0 = \frac{m_v}{1 + \Delta^2}\, y + s_0 b_{v,0}, \qquad
              w_\ell = \sqrt{q_v}\, b_{v,\ell},

    :math:`s_0^2 = q_v - m_v^2/(1 + \Delta^2)`. For ``SpikedSLR`` ``t`` is the mean of
    :math:`\chi^*` (one row) and :math:`s_k^2 = q_k`; for ``MaxSLR`` it is :math:`\chi^*` itself
    and :math:`s_k^2 = q_k - m_k^2`. So :math:`z^*`, and :math:`\chi^*` of the spiked task, are
    integrated out exactly.
    """

    probability: float
    t: np.ndarray
    b: np.ndarray
    y: np.ndarray
    b_v: np.ndarray


class Scales(NamedTuple):
    """The coefficients of ``Draws`` at given overlaps."""

    s_k: float
    slope_v: float
    s_0: float
    s_v: float


def check_task(task: Task) -> Task:
    """Return the task, or raise a ``ValueError``."""
    if not isinstance(task, (SpikedSLR, MaxSLR)):
        raise ValueError(f"task must be a SpikedSLR or a MaxSLR; got {task!r}")
    return task


def check_numerics(samples: int, scrambles: int, seed: int, tolerance: float,
                   max_iterations: int) -> tuple[int, int, int, float, int]:
    """Return the numerical parameters of a solver, or raise a ``ValueError``."""
    samples = _checks.integer("samples", samples, low=64)
    if samples & (samples - 1):
        raise ValueError(f"samples must be a power of two; got {samples}")
    return (samples, _checks.integer("scrambles", scrambles, low=2),
            _checks.integer("seed", seed, low=0),
            _checks.real("tolerance", tolerance, low=0.0, strict=True),
            _checks.integer("max_iterations", max_iterations, low=1))


def draw(task: Task, noise: float, samples: int, seed: int) -> list[Draws]:
    """Scrambled Sobol draws for every length, about ``samples`` in all, a power of two each."""
    if task.length.max > LONGEST:
        raise ValueError(f"length must be at most {LONGEST} here; got {task.length.max}")
    spiked = isinstance(task, SpikedSLR)
    parts = []
    for length, probability in zip(task.length.values, task.length.probabilities):
        n = 2 ** max(4, round(math.log2(samples * probability)))
        dims = 2 * length + 1 if spiked else 3 * length + 2
        normals = sobol_normals(n, dims, seed)
        y = math.hypot(1.0, noise) * normals[:, 0]
        b, b_v, rest = np.split(normals[:, 1:], [length, 2 * length], axis=1)
        if spiked:
            t = np.zeros((1, length))
            t[0, 0] = math.sqrt(task.nu)
        else:
            t = _relevant_first(task, rest[:, 1:], ndtr(rest[:, 0]))
        parts.append(Draws(probability, t, np.ascontiguousarray(b), y,
                           np.ascontiguousarray(b_v)))
    return parts


def _relevant_first(task: MaxSLR, chi: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """Draw the location by inversion of its posterior, and swap that token to the front."""
    if math.isinf(task.nu):
        location = chi.argmax(axis=1)
    else:
        levels = np.cumsum(softmax(task.nu * chi, axis=1), axis=1)
        location = np.minimum((levels < uniform[:, None]).sum(axis=1), chi.shape[1] - 1)
    rows = np.arange(len(chi))
    chi = chi.copy()
    chi[rows, location], chi[:, 0] = chi[:, 0].copy(), chi[rows, location].copy()
    return chi


def scales(task: Task, noise: float, m_k: float, q_k: float, m_v: float, q_v: float) -> Scales:
    """The coefficients of ``Draws`` at given overlaps; q < m**2 is an error beyond rounding."""
    label = 1 + noise**2
    square_k = q_k if isinstance(task, SpikedSLR) else q_k - m_k**2
    square_v = q_v - m_v**2 / label
    for square, q in ((square_k, q_k), (square_v, q_v)):
        if square < -1e-14 * q:
            raise ValueError("q must be at least m**2; got (m_k, q_k, m_v, q_v) = "
                             f"{(m_k, q_k, m_v, q_v)}")
    return Scales(math.sqrt(max(square_k, 0.0)), m_v / label, math.sqrt(max(square_v, 0.0)),
                  math.sqrt(q_v))


class Iteration(NamedTuple):
    """How an iteration ended: where, how far from a solution, after how many updates, and why."""

    x: np.ndarray
    residual: float
    iterations: int
    reason: str  # empty if converged


def solve(update: Callable[[np.ndarray, bool], tuple[np.ndarray, float]], x: np.ndarray,
          physical: Callable[[np.ndarray], bool], *, tolerance: float, max_iterations: int,
          jumped: Callable[[], None] = lambda: None) -> Iteration:
    r"""Solve :math:`x = F(x)` by Anderson acceleration, falling back on damped steps.

    The first steps are plain. Then each combines the last points so that their combined step :math:`F(x) - x` is smallest,
    and moves on by that step times a damping. Where the residual grows tenfold, the next step
    starts from the best point with half the damping; after three such failures in a row, without
    memory. The domain is convex, so that a damped step from inside can stay inside.

    Parameters
    ----------
    update : callable
        ``update(x, search)`` returns F(x) and the residual at x, a finite number. With ``search``
        False it may follow the minima of the proximal step that it found before; a solution is
        tested with ``search`` True.
    x : (d,) array
        The start.
    physical : callable
        Whether a point is inside the domain.
    tolerance : float
        Residual of a solution.
    max_iterations : int
        Updates at most.
    jumped : callable
        Called where a point that looked like a solution is none after a search.

    Returns
    -------
    Iteration

    Examples
    --------
    >>> end = solve(lambda x, search: (np.cos(x), float(abs(np.cos(x) - x)[0])), np.array([1.0]),
    ...             lambda x: True, tolerance=1e-12, max_iterations=20)
    >>> round(float(end.x[0]), 10), end.reason
    (0.7390851332, '')
    """
    history = []  # points, and their steps F(x) - x
    best, best_residual = None, math.inf
    damping, failures, search, testing = 1.0, 0, True, False
    reason = "the limit on iterations was reached"
    for iteration in range(1, max_iterations + 1):
        ahead, residual = update(x, search)
        if not (math.isfinite(residual) and np.isfinite(ahead).all()):
            raise ArithmeticError(f"the update at {x} is not finite: {ahead}")
        if residual <= tolerance:
            if search:
                return Iteration(x, residual, iteration, "")
            search, testing = True, True  # the same point, without memory
            history, best_residual = [], math.inf
            continue
        if testing:
            testing = False
            jumped()
        history = [*history[-_DEPTH:], (x, ahead - x)]
        if residual > 10 * best_residual:
            failures += 1
            damping /= 2
            if damping < _LEAST_DAMPING:
                reason = "no damped step lowers the residual"
                break
            others = [pair for pair in history if pair is not best]
            history = [best] if failures % 3 == 0 else [*others, best]
        else:
            failures = 0
            damping = min(1.0, 1.5 * damping)
            if residual < best_residual:
                best, best_residual = history[-1], residual
        search = residual > _ROUGH
        anchor, step = history[-1]
        if residual > _NEAR and iteration < _PLAIN:
            history = history[-1:]  # plain steps stay in the basin of the start
        x = _accelerate(history, damping)
        length = damping
        while not physical(x):
            x = anchor + length * step
            length /= 2
    return Iteration(best[0], best_residual, iteration, reason)


def mean_and_error(rows: list[list[float]]) -> tuple[list[float], list[float]]:
    """The mean of the rows, and its standard error from their spread."""
    rows = np.array(rows)
    error = rows.std(axis=0, ddof=1) / math.sqrt(len(rows))
    return rows.mean(axis=0).tolist(), error.tolist()


def summary(ends: list[Iteration], tolerance: float) -> tuple[str, float, str]:
    """The reason of the first failure (or ""), the largest residual, and a message."""
    reason = next((end.reason for end in ends if end.reason), "")
    residual = max(end.residual for end in ends)
    if not reason:
        return reason, residual, f"converged to a residual of {residual:.1e}"
    return reason, residual, (
        f"did not converge: {reason}; residual {residual:.1e}, tolerance {tolerance:.1e}. "
        "Start from a nearby solution (a larger ridge or alpha), take more samples, "
        "or raise max_iterations or the tolerance.")


def _accelerate(history: list[tuple[np.ndarray, np.ndarray]], damping: float) -> np.ndarray:
    """The combination of points whose combined step is smallest, moved by that step."""
    x, step = history[-1]
    if len(history) == 1:
        return x + damping * step
    moves = np.array([x - point for point, _ in history[:-1]]).T
    turns = np.array([step - other for _, other in history[:-1]]).T
    scale = 1 / np.maximum(1, np.abs(x))
    size = np.abs(scale[:, None] * turns).max(axis=0)
    near = size < _FAR * np.abs(scale * step).max()
    moves, turns = moves[:, near], turns[:, near]
    weights = np.linalg.lstsq(scale[:, None] * turns, scale * step, rcond=1e-8)[0]
    return x + damping * step - (moves + damping * turns) @ weights
