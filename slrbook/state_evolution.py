r"""Finite samples: the risk of empirical risk minimisation in the proportional limit.

The estimator minimises, over :math:`k, v \in R^D` and with :math:`N = \alpha D` samples,

.. math:: \sum_{\mu} \tfrac12 \big(y_\mu - \sigma(\chi_\mu) \cdot z_\mu\big)^2
          + \tfrac{r_k}{2} |k|^2 + \tfrac{r_v}{2} |v|^2 .

As :math:`D \to \infty` its overlaps :math:`m = k \cdot k^*/D`, :math:`q = |k|^2/D` (and alike for
v) solve six self-consistent equations. They are the stationarity conditions of

.. math:: F = \sum_{a = k, v} \Big[ m \hat m + \tfrac12 V \hat q - \tfrac12 q \hat V
          - \tfrac12 \frac{\hat m^2 + \hat q}{r + \hat V} \Big] + \alpha\, \mathbb{E} M,
          \qquad M = \min_\chi \frac{|\chi - \omega|^2}{2 V_k}
          + \frac{(y - \sigma \cdot w)^2}{2 (1 + V_v |\sigma|^2)},

and F at the solution is the minimum of the training objective divided by D. The average is over
fixed draws, and every derivative is taken along them: what is solved is the exact stationarity of
the sampled F. By Stein's identity this is also right where the minimiser jumps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from numbers import Real
from typing import NamedTuple

from joblib import Parallel, delayed
import numpy as np
from tqdm import tqdm

from . import _checks
from .activations import Activation, as_activation
from .bayes_limit import BayesLimit as BayesLimit, solve_bayes as solve_bayes
from .fixed_point import (ConvergenceError, Task, check_numerics, check_task, draw,
                          mean_and_error, scales, solve, summary)
from .population import attention_moments
from .proximal import SUMS, encode, proximal_sums
from .tasks import MaxSLR, SpikedSLR


#: A draw changes minimum if its objective falls by more than this (and 1/samples), at first and
#: at most.
_GAIN, _LARGEST_GAIN = 1e-4, 2e-3


class Overlap(NamedTuple):
    """The order parameters of one direction: overlap with the hidden one, square, variance."""

    m: float
    q: float
    V: float


class Conjugate(NamedTuple):
    r"""The conjugate parameters of one direction: :math:`\hat m, \hat q, \hat V`."""

    hm: float
    hq: float
    hV: float


class ErmEquations:
    r"""The equations of one sampled free energy: fixed draws, twelve variables.

    With :math:`f_k = (\hat\chi - \omega)/V_k` and :math:`f_v = \sigma e/d` at the minimum,

    .. math:: \hat m = - \alpha\, \partial_m \mathbb{E} M, \qquad
              \hat V = 2 \alpha\, \partial_q \mathbb{E} M, \qquad
              \hat q = - 2 \alpha\, \partial_V \mathbb{E} M = \alpha\, \mathbb{E} |f|^2,

    and back, :math:`m = \hat m/(r + \hat V)`, :math:`q = (\hat m^2 + \hat q)/(r + \hat V)^2`,
    :math:`V = 1/(r + \hat V)`.

    Parameters
    ----------
    task, activation, alpha, ridge, noise :
        As in ``solve_erm``.
    samples : int
        Number of draws.
    seed : int
        Seed of the draws.

    Source: theory notes, section 4.

    Examples
    --------
    >>> equations = ErmEquations(SpikedSLR(nu=2.0, length=3), "softmax", alpha=8.0, ridge=1.0,
    ...                          noise=0.3, samples=1024, seed=0)
    >>> key, value = Overlap(0.64, 0.59, 0.2), Overlap(0.92, 0.93, 0.1)
    >>> hats = equations.hats(key, value)
    >>> rise = equations.free_energy(Overlap(0.641, 0.59, 0.2), value, *hats)
    >>> rise -= equations.free_energy(Overlap(0.639, 0.59, 0.2), value, *hats)
    >>> abs(round(rise / 0.002, 4))  # the derivative in m at fixed hats
    0.0
    """

    def __init__(self, task: Task, activation: str | Activation, *, alpha: float,
                 ridge: float | tuple[float, float], noise: float, samples: int,
                 seed: int) -> None:
        self.task = check_task(task)
        self.activation = as_activation(activation)
        self.alpha = _checks.real("alpha", alpha, low=0.0, strict=True)
        self.ridge = _check_ridge(ridge)
        self.noise = _checks.real("noise", noise, low=0.0)
        self._kernel = encode(self.activation)
        self._draws = draw(self.task, self.noise, samples, seed)
        self._shifts = [np.zeros_like(part.b) for part in self._draws]
        self._gain = min(_GAIN, 1 / samples)

    def _sums(self, key: Overlap, value: Overlap, search: bool, keep: bool) -> np.ndarray:
        """The averages named in ``proximal.SUMS``."""
        scale = self._scales(key, value)
        average = np.zeros(len(SUMS))
        for i, part in enumerate(self._draws):
            shift = self._shifts[i] if keep else self._shifts[i].copy()
            sums = proximal_sums(self._kernel, part.t, part.b, part.y, part.b_v, key.m, scale.s_k,
                                 key.V, scale.slope_v, scale.s_0, scale.s_v, value.V, shift,
                                 search, self._gain)
            average += part.probability * sums.sum(axis=0) / len(part.y)
        return average

    def _scales(self, key: Overlap, value: Overlap):
        return scales(self.task, self.noise, key.m, key.q, value.m, value.q)

    def hats(self, key: Overlap, value: Overlap, *,
             search: bool = True) -> tuple[Conjugate, Conjugate]:
        """The conjugate parameters at given overlaps.

        Parameters
        ----------
        key, value : Overlap
            Order parameters with ``q >= m**2`` and ``V > 0``.
        search : bool
            Whether to look for lower minima of the proximal step, or to follow those of the
            last call.

        Returns
        -------
        pair of Conjugate
        """
        (ff_k, ft, fb, ff_v, fy, fb_0, fb_v, _, _) = self._sums(key, value, search, True)
        scale = self._scales(key, value)
        # where a scale is 0 its sum is too: the iteration gets there only by f = 0
        slope_k = fb / scale.s_k if scale.s_k > 0 else 0.0
        slope_0 = fb_0 / scale.s_0 if scale.s_0 > 0 else 0.0
        slope_v = fb_v / scale.s_v if scale.s_v > 0 else 0.0
        hm_k = ft - key.m * slope_k * isinstance(self.task, MaxSLR)
        hm_v = (fy - value.m * slope_0) / (1 + self.noise**2)
        a = self.alpha
        return (Conjugate(a * hm_k, a * ff_k, -a * slope_k),
                Conjugate(a * hm_v, a * ff_v, -a * (slope_0 + slope_v)))

    def overlaps(self, key: Conjugate, value: Conjugate) -> tuple[Overlap, Overlap]:
        r"""The overlaps at given conjugate parameters with :math:`r + \hat V > 0`."""
        return tuple(Overlap(hm / (r + hV), (hm**2 + hq) / (r + hV) ** 2, 1 / (r + hV))
                     for r, (hm, hq, hV) in zip(self.ridge, (key, value)))

    def conjugates(self, key: Overlap, value: Overlap) -> tuple[Conjugate, Conjugate]:
        """The inverse of ``overlaps``."""
        return tuple(Conjugate(m / V, (q - m**2) / V**2, 1 / V - r)
                     for r, (m, q, V) in zip(self.ridge, (key, value)))

    def free_energy(self, key: Overlap, value: Overlap, key_hat: Conjugate,
                    value_hat: Conjugate, *, search: bool = False) -> float:
        """The function F of all twelve variables, on these draws.

        Parameters
        ----------
        key, value : Overlap
        key_hat, value_hat : Conjugate
        search : bool
            Whether to look for lower minima of the proximal step than those of the last ``hats``.

        Returns
        -------
        float
        """
        total = self.alpha * self._sums(key, value, search, False)[7]
        for ridge, (m, q, V), (hm, hq, hV) in zip(self.ridge, (key, value), (key_hat, value_hat)):
            total += m * hm + (V * hq - q * hV - (hm**2 + hq) / (ridge + hV)) / 2
        return float(total)

    def train_loss(self, key: Overlap, value: Overlap) -> float:
        """The loss part of the training objective per sample, E e^2 / (2 d^2)."""
        return float(self._sums(key, value, False, False)[8] / 2)

    def risk(self, key: Overlap, value: Overlap) -> float:
        """The risk at given overlaps.

        Its two expectations are integrals for elementwise weights, whose squares can have heavy
        tails, and averages over the draws for normalised ones.
        """
        if not self.activation.normalised:
            signal, power, _ = attention_moments(self.task, self.activation, key.m, key.q)
            return self.noise**2 + 1 - 2 * value.m * signal + value.q * power
        scale = self._scales(key, value)
        signal, power = 0.0, 0.0
        for part in self._draws:
            weights = self.activation(key.m * part.t + scale.s_k * part.b)
            signal += part.probability * weights[:, 0].mean()
            power += part.probability * (weights**2).sum(axis=1).mean()
        return float(self.noise**2 + 1 - 2 * value.m * signal + value.q * power)

    def update(self, x: np.ndarray, search: bool) -> tuple[np.ndarray, float]:
        """One step of the iteration on the six conjugate parameters, and the residual at x.

        The value direction moves first, and the key direction follows from where it is then: at
        once, the two can overshoot one another and diverge. The iteration runs on conjugate
        parameters because their domain is convex and every point of it has an image. The residual
        is the largest change of the six overlaps, relative above 1.
        """
        before = self.overlaps(x[:3], x[3:])
        hats = self.hats(*before, search=search)
        new = np.array(hats).ravel()
        if not self.physical(new):  # the image has no overlaps: far from a solution
            return new, max(1.0, _change(x, new))
        after = self.overlaps(*hats)
        new[:3] = self.hats(before[0], after[1], search=False)[0]
        return new, _change(np.ravel(before), np.ravel(after))

    def jumped(self) -> None:
        """Double the gain for which a draw changes minimum, up to a limit.

        Where two minima of a draw are nearly equal, the draw can prefer either in the solution
        that follows from the other, and no solution is left. It then keeps the one it has.
        """
        self._gain = min(2 * self._gain, _LARGEST_GAIN)

    def physical(self, x: np.ndarray) -> bool:
        """Whether conjugate parameters have overlaps with q >= m**2 and V > 0."""
        return bool(x[1] >= 0 and x[4] >= 0 and self.ridge[0] + x[2] > 0
                    and self.ridge[1] + x[5] > 0)


def _change(old: np.ndarray, new: np.ndarray) -> float:
    return float(np.max(np.abs(new - old) / np.maximum(1, np.abs(old))))


@dataclass(frozen=True)
class ErmLimit:
    r"""The proportional limit of empirical risk minimisation at one set of parameters.

    Every number is the mean over independent scramblings of the draws, and every error the
    standard error of that mean.

    Attributes
    ----------
    risk, standard_error : float
        The risk on fresh sequences, label noise included, and its error.
    train_loss, train_loss_error : float
        The loss part of the training objective, :math:`\frac{1}{2N}\sum_\mu (y_\mu - f)^2`.
    free_energy, free_energy_error : float
        The minimum of the training objective divided by D.
    key, value : Overlap
        :math:`(m_k, q_k, V_k)` and :math:`(m_v, q_v, V_v)`.
    key_error, value_error : Overlap
        Their errors.
    converged : bool
        Whether every scrambling reached the tolerance.
    residual : float
        The largest :math:`|F_i(x) - x_i| / \max(1, |x_i|)` of any order parameter and scrambling;
        ``inf`` if the first update already failed.
    iterations : int
        Updates, all scramblings together.
    message : str
        What happened, and what to change if it did not converge.
    task, activation, alpha, ridge, noise, samples, scrambles, seed :
        The parameters; ``ridge`` is the pair :math:`(r_k, r_v)`.
    """

    risk: float
    standard_error: float
    train_loss: float
    train_loss_error: float
    free_energy: float
    free_energy_error: float
    key: Overlap
    value: Overlap
    key_error: Overlap
    value_error: Overlap
    converged: bool
    residual: float
    iterations: int
    message: str
    task: Task
    activation: Activation
    alpha: float
    ridge: tuple[float, float]
    noise: float
    samples: int
    scrambles: int
    seed: int


Start = str | ErmLimit | Sequence[float]


def solve_erm(task: Task, activation: str | Activation, *, alpha: float,
              ridge: float | tuple[float, float], noise: float, samples: int = 2**15,
              scrambles: int = 4, start: Start = "informed", strict: bool = True, seed: int = 0,
              tolerance: float = 1e-6, max_iterations: int = 300) -> ErmLimit:
    r"""Risk and overlaps of empirical risk minimisation as N, D go to infinity, N = alpha D.

    Solves the six equations of ``ErmEquations`` on each of several independent sets of draws:

    .. math:: \mathrm{risk} = \Delta^2 + 1 - 2 m_v\, \mathbb{E} \sigma_\epsilon(\omega)
              + q_v\, \mathbb{E} |\sigma(\omega)|^2 .

    Where the equations have several solutions, the one near ``start`` is returned; see
    ``erm_fixed_points`` for all of them. At small ridge near interpolation the replica-symmetric
    equations themselves may be wrong, and no solver can tell.

    Parameters
    ----------
    task : SpikedSLR or MaxSLR
    activation : an activation, or its name
        Its offset must be a number.
    alpha : float
        Samples per dimension, :math:`\alpha = N/D > 0`.
    ridge : float or pair of float
        :math:`r_k = r_v > 0`, or the pair :math:`(r_k, r_v)`.
    noise : float
        Standard deviation :math:`\Delta \ge 0` of the label noise.
    samples : int
        Sobol points per scrambling, a power of two, at least 64; the cost is proportional.
    scrambles : int
        Independent scramblings, at least 2; their spread gives the errors.
    start : "informed", "uninformed", ErmLimit or six numbers
        Where the iteration starts: near the hidden directions, nearly orthogonal to them, at
        another result, or at :math:`(m_k, q_k, V_k, m_v, q_v, V_v)`.
    strict : bool
        Whether to raise if the iteration does not converge, or to say so in the result.
    seed : int
        Seed of the scramblings.
    tolerance : float
        Largest residual of a solution.
    max_iterations : int
        Updates per scrambling at most.

    Returns
    -------
    ErmLimit

    Raises
    ------
    ValueError
        If an argument is outside its domain.
    ConvergenceError
        If ``strict`` and the iteration did not converge or left the physical domain.

    Source: paper, section 4; theory notes, section 4.

    Examples
    --------
    >>> limit = solve_erm(SpikedSLR(nu=2.0, length=3), "softmax", alpha=8.0, ridge=1.0,
    ...                   noise=0.3, samples=2**12)
    >>> bool(abs(limit.risk - 0.581) < 0.002 + 4 * limit.standard_error), limit.converged
    (True, True)
    """
    samples, scrambles, seed, tolerance, max_iterations = check_numerics(
        samples, scrambles, seed, tolerance, max_iterations)
    x, rows, ends = None, [], []
    for scramble in range(scrambles):
        equations = ErmEquations(task, activation, alpha=alpha, ridge=ridge, noise=noise,
                                 samples=samples, seed=seed + scramble)
        if x is None:
            x = _start(start, equations)
        end = solve(equations.update, x, equations.physical, tolerance=tolerance,
                    max_iterations=max_iterations, jumped=equations.jumped)
        ends.append(end)
        rows.append(_measure(equations, end.x))
        if not end.reason:
            x = end.x
    mean, error = mean_and_error(rows)
    reason, residual, message = summary(ends, tolerance)
    limit = ErmLimit(
        mean[0], error[0], mean[1], error[1], mean[2], error[2], Overlap(*mean[3:6]),
        Overlap(*mean[6:]), Overlap(*error[3:6]), Overlap(*error[6:]), not reason, residual,
        sum(end.iterations for end in ends), message, equations.task, equations.activation,
        equations.alpha, equations.ridge, equations.noise, samples, scrambles, seed)
    if reason and strict:
        raise ConvergenceError(f"{message} Last state: key {limit.key}, value {limit.value}.",
                               reason=reason, state=limit)
    return limit


def _measure(equations: ErmEquations, x: np.ndarray) -> list[float]:
    """Risk, training loss, free energy and the six overlaps at a solution."""
    key, value = equations.overlaps(x[:3], x[3:])
    return [equations.risk(key, value), equations.train_loss(key, value),
            equations.free_energy(key, value, x[:3], x[3:]), *key, *value]


def _start(start: Start, equations: ErmEquations) -> np.ndarray:
    """The six conjugate parameters to start from."""
    if isinstance(start, str):
        _checks.choice("start", start, ("informed", "uninformed"))
        if start == "informed":
            overlaps = [Overlap(1.0, 1.1, 1 / (ridge + equations.alpha / 4))
                        for ridge in equations.ridge]
        else:
            overlaps = [Overlap(0.01, 0.1, 1 / ridge) for ridge in equations.ridge]
    elif isinstance(start, ErmLimit):
        overlaps = [start.key, start.value]
    else:
        x = np.array(start, dtype=float)
        if x.shape != (6,) or not np.isfinite(x).all() or not all(
                q >= m**2 and V > 0 for m, q, V in x.reshape(2, 3)):
            raise ValueError("start must be 'informed', 'uninformed', an ErmLimit, or six numbers "
                             "(m_k, q_k, V_k, m_v, q_v, V_v) with q >= m**2 and V > 0; "
                             f"got {start!r}")
        overlaps = x.reshape(2, 3)
    return np.ravel(equations.conjugates(*overlaps))


def erm_fixed_points(task: Task, activation: str | Activation, *, alpha: float,
                     ridge: float | tuple[float, float], noise: float, samples: int = 2**15,
                     scrambles: int = 4, seed: int = 0, tolerance: float = 1e-6,
                     max_iterations: int = 300) -> tuple[ErmLimit, ...]:
    r"""All solutions of the equations that several starts and continuations reach.

    The starts are the informed and the uninformed one, one with both overlaps negative, and the
    ends of three paths on which the last solution starts the next: alpha falling from 32 times
    its value, the ridge falling from 32 times its value, and alpha rising from half its value.
    Each end that differs is then solved by ``solve_erm``. The first of the result has the lowest free energy: it is the global minimum
    of the training objective, as far as replica symmetry holds and the starts reach.

    Parameters
    ----------
    task, activation, alpha, ridge, noise, samples, scrambles, seed, tolerance, max_iterations :
        As in ``solve_erm``.

    Returns
    -------
    tuple of ErmLimit
        The distinct converged solutions by rising free energy.

    Raises
    ------
    ValueError
        If an argument is outside its domain.
    ConvergenceError
        If no start converged.

    Source: theory notes, section 4.

    Examples
    --------
    >>> found = erm_fixed_points(SpikedSLR(nu=2.0, length=3), "softmax", alpha=8.0, ridge=1.0,
    ...                          noise=0.3, samples=2**10)
    >>> len(found)
    1
    """
    numerics = dict(samples=samples, scrambles=scrambles, seed=seed, tolerance=tolerance,
                    max_iterations=max_iterations)
    check_numerics(**numerics)

    def equations(more_samples: float = 1.0, more_ridge: float = 1.0) -> ErmEquations:
        return ErmEquations(task, activation, alpha=more_samples * alpha,
                            ridge=tuple(more_ridge * r for r in ridges), noise=noise,
                            samples=samples, seed=seed)

    def end(system: ErmEquations, x: np.ndarray) -> np.ndarray | None:
        stop = solve(system.update, x, system.physical, tolerance=tolerance,
                     max_iterations=max_iterations, jumped=system.jumped)
        return None if stop.reason else stop.x

    ridges = _check_ridge(ridge)
    here = equations()
    informed, uninformed = _start("informed", here), _start("uninformed", here)
    starts = [informed, uninformed, informed * [-1, 1, 1, -1, 1, 1]]  # both overlaps negative
    falling, rising = [32.0, 16.0, 8.0, 4.0, 2.0], [0.5, 0.6, 0.7, 0.8, 0.9]
    for path in ([equations(more_samples=factor) for factor in falling],
                 [equations(more_ridge=factor) for factor in falling],
                 [equations(more_samples=factor) for factor in rising]):
        x = informed
        for system in path:
            if x is not None:
                x = end(system, x)
        if x is not None:
            starts.append(x)
    ends = []
    for start in starts:
        x = end(here, start)
        if x is not None and not any(np.abs(x - other).max() < 1e-4 for other in ends):
            ends.append(x)
    found = []
    for x in ends:
        overlaps = np.ravel(here.overlaps(x[:3], x[3:]))
        limit = solve_erm(task, activation, alpha=alpha, ridge=ridge, noise=noise,
                          start=overlaps, strict=False, **numerics)
        if limit.converged and not any(_same(limit, other) for other in found):
            found.append(limit)
    if not found:
        raise ConvergenceError(f"none of {len(starts)} starts converged at alpha={alpha!r}, "
                               f"ridge={ridge!r}: take more samples, or raise the tolerance.",
                               reason="no start converged")
    return tuple(sorted(found, key=lambda limit: limit.free_energy))


def _same(one: ErmLimit, other: ErmLimit) -> bool:
    """Whether two results agree within six standard errors (and 1e-4)."""
    first, second = np.array([*one.key, *one.value]), np.array([*other.key, *other.value])
    spread = np.hypot([*one.key_error, *one.value_error], [*other.key_error, *other.value_error])
    return bool(np.all(np.abs(first - second) <= 1e-4 + 6 * spread))


def sweep(solver: Callable, grid: Mapping[str, Sequence], *, warm_start: bool = True,
          jobs: int = 1, progress: bool = True) -> list:
    """Solve at every point of a grid.

    The points that differ only in the last parameter form a chain, solved in order. With
    ``warm_start`` each starts from the solution before it, if that converged. Chains run in
    parallel through joblib; inside ``with joblib.parallel_config(backend="dask"):`` they run on
    a dask cluster.

    Parameters
    ----------
    solver : callable
        Called with one keyword per parameter, and ``start`` when it is warm. Fixed arguments are
        bound with ``functools.partial``.
    grid : mapping
        Parameter names to the values they take.
    warm_start : bool
        Whether a chain passes its solutions on.
    jobs : int
        Chains solved at a time, -1 for all cores.
    progress : bool
        Whether to show a progress bar over the chains.

    Returns
    -------
    list
        The results, the last parameter varying fastest. Each carries its parameters.

    Raises
    ------
    ValueError
        If the grid is empty, or ``jobs`` is 0.

    Examples
    --------
    >>> from functools import partial
    >>> solver = partial(solve_erm, SpikedSLR(nu=2.0, length=3), "linear", ridge=1.0, noise=0.3,
    ...                  samples=2**10)
    >>> limits = sweep(solver, {"alpha": [16.0, 8.0]}, progress=False)
    >>> [limit.alpha for limit in limits], limits[0].risk < limits[1].risk
    ([16.0, 8.0], True)
    """
    values = {name: list(column) for name, column in grid.items()}
    if not values or not all(values.values()):
        raise ValueError(f"grid must give at least one value for each parameter; got {grid!r}")
    if _checks.integer("jobs", jobs, low=-1) == 0:
        raise ValueError("jobs must be an integer >= 1, or -1 for all cores; got 0")
    *outer, last = values
    chains = [dict(zip(outer, point)) for point in product(*(values[name] for name in outer))]
    results = Parallel(n_jobs=jobs, return_as="generator")(
        delayed(_chain)(solver, chain, last, values[last], warm_start) for chain in chains)
    bar = tqdm(results, total=len(chains), disable=not progress, desc="sweep", unit="chain")
    return [result for chain in bar for result in chain]


def _chain(solver: Callable, fixed: dict, name: str, values: list, warm_start: bool) -> list:
    results = []
    for value in values:
        warm = warm_start and results and results[-1].converged
        start = {"start": results[-1]} if warm else {}
        results.append(solver(**fixed, **{name: value}, **start))
    return results


def _check_ridge(ridge: float | tuple[float, float]) -> tuple[float, float]:
    """The pair (r_k, r_v) from one number or a pair."""
    if isinstance(ridge, Real):
        ridge = (ridge, ridge)
    if not isinstance(ridge, (tuple, list)) or len(ridge) != 2:
        raise ValueError(f"ridge must be a number > 0 or a pair (r_k, r_v); got {ridge!r}")
    return tuple(_checks.real(name, value, low=0.0, strict=True)
                 for name, value in zip(("ridge r_k", "ridge r_v"), ridge))
