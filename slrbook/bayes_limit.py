r"""Finite samples: the smallest risk that any algorithm can attain, in the proportional limit.

The directions have Gaussian priors, :math:`k, v \sim N(0, I_D)`, and :math:`N = \alpha D` labelled
sequences are seen. The overlaps :math:`q_k, q_v` of a posterior sample with the truth are
stationary points of

.. math:: \Phi = \sum_{a = k, v} \tfrac12 \big[ \hat q - \log(1 + \hat q) - q \hat q \big]
          + \alpha\, \mathbb{E} \log Z, \qquad
          Z = \sum_\ell P_\ell(\omega)\, N(y; w_\ell, S), \quad S = \Delta^2 + 1 - q_v,

where :math:`P_\ell` is the weight of location :math:`\ell` given what is known of the scores:

.. math:: P_\ell(\omega) = \mathbb{E}_{\chi \sim N(\omega, (1 - q_k) I)}\, g(\ell, \chi)/L.

Of several stationary points the one with the largest :math:`\Phi` is the Bayes-optimal one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
import math

from numba import njit, prange
import numpy as np
from scipy.special import log_ndtr, logsumexp

from . import _checks
from .fixed_point import (ConvergenceError, Draws, Task, check_numerics, check_task, draw,
                          mean_and_error, scales, solve, summary)
from .tasks import SpikedSLR

_LOG_2PI = math.log(2 * math.pi)
#: Table points per unit of the width of the law; cubic interpolation then errs by about 1e-8.
_PER_UNIT = 32
#: Step of the integral over the largest score, in widths of the law.
_STEP = 0.35
#: Gaussian and Gumbel weight beyond these is below 1e-13.
_SIGMAS, _RIGHT, _LEFT = 8.3, 30.0, 3.7
_PARTS = 64


def _law_of_score(nu: float, spread: float) -> tuple[np.ndarray, float, float, float]:
    r"""Log cdf of the noise of one score, tabulated in units of its width.

    For ``MaxSLR`` the location maximises :math:`\nu \chi_\ell + G_\ell` with independent Gumbel
    variables. Given what is known, that is :math:`\nu \omega_\ell` plus noise :math:`\nu s N + G`.

    Parameters
    ----------
    nu : float
        :math:`\nu`, which may be infinite: the Gumbel variable is then negligible.
    spread : float
        :math:`s = \sqrt{1 - q_k}`.

    Returns
    -------
    table : (points, 3) array
        Log cdf and its two derivatives, at steps of 1/32.
    low, high : float
        End points of the table; the cdf is 0 and 1 beyond them.
    rate : float
        Factor that turns omega into units of the width.
    """
    if math.isinf(nu):
        low, high, rate = -_SIGMAS, _SIGMAS, 1 / spread
    else:
        tau = nu * spread
        width = math.hypot(1.0, tau)
        low, high = -(_LEFT + _SIGMAS * tau) / width, (_RIGHT + _SIGMAS * tau) / width
        rate = nu / width
    z = low + np.arange(math.ceil((high - low) * _PER_UNIT) + 2) / _PER_UNIT
    if math.isinf(nu):
        value = log_ndtr(z)
        first = np.exp(-z * z / 2 - _LOG_2PI / 2 - value)
        return np.stack([value, first, -first * (z + first)], axis=1), low, high, rate
    x = width * z[:, None]
    if tau < 1:  # over the normal variable
        normal = np.arange(-9.0, 9.01, 0.1)
        u = x - tau * normal
        exponential = np.exp(-u)
        logs = -exponential - normal**2 / 2 + math.log(0.1) - _LOG_2PI / 2
        ratio, ratio_2 = exponential, exponential * (exponential - 1)
    else:  # over the Gumbel variable
        gumbel = np.arange(-_LEFT, 38.0, 0.1)
        u = (x - gumbel) / tau
        base = log_ndtr(u)
        logs = -gumbel - np.exp(-gumbel) + math.log(0.1) + base
        ratio = np.exp(-u * u / 2 - _LOG_2PI / 2 - base) / tau
        ratio_2 = -u / tau * ratio
    value = logsumexp(logs, axis=1)
    weights = np.exp(logs - value[:, None])
    first = (weights * ratio).sum(axis=1)
    second = (weights * ratio_2).sum(axis=1) - first**2
    return np.stack([value, width * first, width**2 * second], axis=1), low, high, rate


@njit(cache=True, parallel=True)
def _largest(a, factor, table, low, high, step):
    r"""Probability that each of a + noise is the largest, and derivatives of a combination.

    Returns P, of the shape (n, L) of ``a``, and the gradient in ``a`` of
    log sum_l factor_l P_l, of the same shape.
    """
    n, length = a.shape
    probability, gradient = np.zeros((n, length)), np.zeros((n, length))
    nodes = math.ceil((high - low) / step) + 1
    for part in prange(_PARTS):
        first, second = np.empty(length), np.empty(length)
        for i in range(part * n // _PARTS, (part + 1) * n // _PARTS):
            top = a[i].max()
            for node in range(nodes):
                x = top + low + node * step
                log_below, pull = 0.0, 0.0
                for l in range(length):
                    u = (x - a[i, l] - low) * _PER_UNIT
                    cell = int(u)
                    if cell >= len(table) - 1:
                        first[l], second[l] = 0.0, 0.0
                        continue
                    u -= cell
                    v = 1 - u
                    t0, d0, b0 = table[cell]
                    t1, d1, b1 = table[cell + 1]
                    log_below += v * v * ((1 + 2 * u) * t0 + u * d0 / _PER_UNIT) \
                        + u * u * ((1 + 2 * v) * t1 - v * d1 / _PER_UNIT)
                    first[l] = v * v * ((1 + 2 * u) * d0 + u * b0 / _PER_UNIT) \
                        + u * u * ((1 + 2 * v) * d1 - v * b1 / _PER_UNIT)
                    second[l] = 6 * u * v * (d1 - d0) * _PER_UNIT + v * (1 - 3 * u) * b0 \
                        + u * (1 - 3 * v) * b1
                    pull += factor[i, l] * first[l]
                below = math.exp(log_below) * step
                for l in range(length):
                    probability[i, l] += below * first[l]
                    gradient[i, l] -= below * (factor[i, l] * second[l] + pull * first[l])
            total = 0.0
            for l in range(length):
                total += factor[i, l] * probability[i, l]
            for l in range(length):
                gradient[i, l] /= total
    return probability, gradient


class BayesEquations:
    r"""The Bayes-optimal equations on fixed draws.

    .. math:: \hat q_k = \alpha\, \mathbb{E} |\nabla_\omega \log Z|^2, \qquad
              \hat q_v = \alpha\, \mathbb{E} |\nabla_w \log Z|^2, \qquad
              q = \hat q/(1 + \hat q).

    By Nishimori's identity the right sides are :math:`2 \alpha\, \partial_q \mathbb{E} \log Z`
    in expectation.

    Parameters
    ----------
    task, alpha, noise :
        As in ``solve_bayes``.
    samples, seed : int
        Number of draws, and their seed.

    Source: theory notes, section 5.
    """

    def __init__(self, task: Task, *, alpha: float, noise: float, samples: int,
                 seed: int) -> None:
        self.task = check_task(task)
        self.alpha = _checks.real("alpha", alpha, low=0.0, strict=True)
        self.noise = _checks.real("noise", noise, low=0.0)
        self._draws = draw(self.task, self.noise, samples, seed)

    def _posterior(self, part: Draws, q_k: float, q_v: float) -> tuple[np.ndarray, ...]:
        r"""Per draw: log Z, |grad_omega log Z|^2, |grad_w log Z|^2 and sum_l pi_l^2."""
        scale = scales(self.task, self.noise, q_k, q_k, q_v, q_v)
        omega = q_k * part.t + scale.s_k * part.b
        w = scale.s_v * part.b_v
        w[:, 0] = scale.slope_v * part.y + scale.s_0 * part.b_v[:, 0]
        variance = self.noise**2 + 1 - q_v
        error = (part.y[:, None] - w) / variance
        log_label = -error**2 * (variance / 2) - (math.log(variance) + _LOG_2PI) / 2
        if isinstance(self.task, SpikedSLR):
            scores = self.task.key_scale * omega
            prior = np.exp(scores - logsumexp(scores, axis=1, keepdims=True))
            joint = scores + log_label
            log_z = logsumexp(joint, axis=1)
            location = np.exp(joint - log_z[:, None])
            log_z -= self.task.nu * q_k / 2 + math.log(omega.shape[1])
            slope_k = self.task.key_scale * location
        else:
            table, low, high, rate = _law_of_score(self.task.nu, math.sqrt(1 - q_k))
            top = log_label.max(axis=1)
            factor = np.exp(log_label - top[:, None])
            prior, slope_k = _largest(rate * omega, factor, table, low, high, _STEP)
            slope_k *= rate
            z = (factor * prior).sum(axis=1)
            location = factor * prior / z[:, None]
            log_z = np.log(z) + top
        return (log_z, (slope_k**2).sum(axis=1), ((location * error) ** 2).sum(axis=1),
                (prior**2).sum(axis=1))

    def _averages(self, q_k: float, q_v: float) -> np.ndarray:
        """The averages over all draws of what ``_posterior`` returns."""
        return sum(part.probability * np.array([column.mean() for column
                                                in self._posterior(part, q_k, q_v)])
                   for part in self._draws)

    def hats(self, q_k: float, q_v: float) -> tuple[float, float]:
        """The conjugate parameters at given overlaps in [0, 1)."""
        averages = self.alpha * self._averages(q_k, q_v)
        return float(averages[1]), float(averages[2])

    def free_energy(self, q_k: float, q_v: float, hq_k: float, hq_v: float) -> float:
        r"""The function :math:`\Phi` of all four variables, on these draws."""
        value = self.alpha * self._averages(q_k, q_v)[0]
        for q, hq in ((q_k, hq_k), (q_v, hq_v)):
            value += (hq - math.log1p(hq) - q * hq) / 2
        return float(value)

    def risk(self, q_k: float, q_v: float) -> float:
        r"""The risk :math:`\Delta^2 + 1 - q_v \mathbb{E} \sum_\ell \pi_\ell^2`, pi the prior weights."""
        return float(self.noise**2 + 1 - q_v * self._averages(q_k, q_v)[3])

    def update(self, x: np.ndarray, search: bool = True) -> tuple[np.ndarray, float]:
        """One step of the iteration on ``(q_k, q_v)``, and the residual at x."""
        hats = np.array(self.hats(*x))
        new = hats / (1 + hats)
        return new, float(np.abs(new - x).max())


def _physical(x: np.ndarray) -> bool:
    return bool(np.all((x >= 0) & (x < 1)))


@dataclass(frozen=True)
class BayesLimit:
    r"""The Bayes-optimal limit at one set of parameters.

    Every number is the mean over independent scramblings of the draws, and every error the
    standard error of that mean.

    Attributes
    ----------
    risk, standard_error : float
        The risk on fresh sequences, label noise included, and its error.
    key_q, value_q : float
        The overlaps :math:`q_k, q_v`.
    key_q_error, value_q_error : float
        Their errors.
    free_energy, free_energy_error : float
        :math:`\Phi`: of several solutions the one with the largest is Bayes-optimal.
    converged : bool
        Whether every scrambling reached the tolerance.
    residual : float
        The largest :math:`|F_i(x) - x_i|` of any overlap and scrambling.
    iterations : int
        Updates, all scramblings together.
    message : str
        What happened, and what to change if it did not converge.
    task, alpha, noise, samples, scrambles, seed :
        The parameters.
    """

    risk: float
    standard_error: float
    key_q: float
    key_q_error: float
    value_q: float
    value_q_error: float
    free_energy: float
    free_energy_error: float
    converged: bool
    residual: float
    iterations: int
    message: str
    task: Task
    alpha: float
    noise: float
    samples: int
    scrambles: int
    seed: int


def solve_bayes(task: Task, *, alpha: float, noise: float,
                start: str | BayesLimit | Sequence[float] = "uninformed",
                samples: int = 2**14, scrambles: int = 4, strict: bool = True, seed: int = 0,
                tolerance: float = 1e-6, max_iterations: int = 1000) -> BayesLimit:
    r"""Bayes-optimal risk as N, D go to infinity, N = alpha D, hidden directions Gaussian.

    The uninformed start leads to what message passing is expected to reach, the informed one to
    the other solution where there are two; the larger free energy then tells which is
    Bayes-optimal. Where they differ there is a hard phase.

    Without label noise the informed solution may have :math:`q_v = 1` and an infinite free
    energy: labels then fix the value direction exactly. The iteration approaches it to within
    the tolerance, and the free energy is that of the point reached.

    Parameters
    ----------
    task : SpikedSLR or MaxSLR
    alpha : float
        Samples per dimension, :math:`\alpha = N/D > 0`.
    noise : float
        Standard deviation :math:`\Delta \ge 0` of the label noise.
    start : "uninformed", "informed", BayesLimit or two numbers
        Where the iteration starts: overlaps of 1e-3, of 0.999, those of another result, or
        :math:`(q_k, q_v)` in [0, 1).
    samples : int
        Sobol points per scrambling, a power of two, at least 64; the cost is proportional.
    scrambles : int
        Independent scramblings, at least 2; their spread gives the errors.
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
    BayesLimit

    Raises
    ------
    ValueError
        If an argument is outside its domain.
    ConvergenceError
        If ``strict`` and the iteration did not converge.

    Source: paper, section 4; theory notes, section 5.

    Examples
    --------
    >>> limit = solve_bayes(SpikedSLR(nu=2.0, length=3), alpha=8.0, noise=0.3, samples=2**12)
    >>> bool(abs(limit.risk - 0.4686) < 0.001 + 4 * limit.standard_error)
    True
    """
    samples, scrambles, seed, tolerance, max_iterations = check_numerics(
        samples, scrambles, seed, tolerance, max_iterations)
    x, rows, ends = _start(start), [], []
    for scramble in range(scrambles):
        equations = BayesEquations(task, alpha=alpha, noise=noise, samples=samples,
                                   seed=seed + scramble)
        end = solve(equations.update, x, _physical, tolerance=tolerance,
                    max_iterations=max_iterations)
        ends.append(end)
        rows.append([equations.risk(*end.x), *end.x.tolist(),
                     equations.free_energy(*end.x, *equations.hats(*end.x))])
        if not end.reason:
            x = end.x
    mean, error = mean_and_error(rows)
    reason, residual, message = summary(ends, tolerance)
    pairs = [number for pair in zip(mean, error) for number in pair]
    limit = BayesLimit(*pairs, not reason, residual, sum(end.iterations for end in ends), message,
                       equations.task, equations.alpha, equations.noise, samples, scrambles, seed)
    if reason and strict:
        raise ConvergenceError(f"{message} Last state: q_k {limit.key_q}, q_v {limit.value_q}.",
                               reason=reason, state=limit)
    return limit


def _start(start: str | BayesLimit | Sequence[float]) -> np.ndarray:
    """The two overlaps to start from."""
    if isinstance(start, BayesLimit):
        return np.array([start.key_q, start.value_q])
    if isinstance(start, str):
        _checks.choice("start", start, ("uninformed", "informed"))
        return np.full(2, 1e-3 if start == "uninformed" else 0.999)
    x = np.array(start, dtype=float)
    if x.shape != (2,) or not _physical(x):
        raise ValueError("start must be 'uninformed', 'informed', a BayesLimit, or two numbers "
                         f"(q_k, q_v) in [0, 1); got {start!r}")
    return x
