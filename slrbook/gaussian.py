r"""Gaussian integrals without Monte Carlo: panels, orthants, Laplace transforms, Sobol normals.

A normalised activation divides by a sum over tokens, :math:`S = \sum_\ell \phi(\chi_\ell)`. The
Laplace representations

.. math:: \frac1S = \int_0^\infty e^{-tS}\,dt, \qquad \frac1{S^2} = \int_0^\infty t\,e^{-tS}\,dt

turn the sum into a product, so that expectations over independent tokens factorise. This module
computes the one-token factors; ``population`` puts them together.
"""

from __future__ import annotations

from collections.abc import Callable
import math
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import qmc

from . import _checks

#: Gauss-Legendre points per panel. A panel two natural units wide is then exact to rounding.
ORDER = 16
_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(ORDER)

#: Gaussian weight beyond this many standard deviations is below 1e-32.
TAIL = 12.0

#: exp(-37) is below the rounding of 1.
_NEGLIGIBLE = 37.0

#: The finest step of log t.
STEP = 0.25

_SQRT_2PI = math.sqrt(2 * math.pi)


class Nodes(NamedTuple):
    """A quadrature rule made of Gauss-Legendre panels: ``x`` and ``w`` have shape ``(panels * 16,)``."""

    x: np.ndarray
    w: np.ndarray


def panels(breaks: np.ndarray) -> Nodes:
    r"""Composite Gauss-Legendre rule of 16 points on each interval between ``breaks``.

    Parameters
    ----------
    breaks : (P + 1,) array
        Increasing end points of the P panels.

    Returns
    -------
    Nodes
        Points and weights, ordered, of shape ``(16 P,)``.

    Examples
    --------
    >>> rule = panels([0.0, 1.0, 3.0])
    >>> round(float(rule.w @ rule.x**2), 12)  # the integral of x^2 from 0 to 3
    9.0
    """
    breaks = np.asarray(breaks, dtype=float)
    half = np.diff(breaks)[:, None] / 2
    middle = (breaks[:-1] + breaks[1:])[:, None] / 2
    return Nodes((middle + half * _POINTS).ravel(), (half * _WEIGHTS).ravel())


def running_integral(rule: Nodes, values: np.ndarray) -> np.ndarray:
    r"""Integral of a sampled function from the first break up to every node.

    .. math:: F(x_i) = \int_{x_{\min}}^{x_i} f(x)\,dx

    by integrating the Legendre interpolant of each panel exactly.

    Parameters
    ----------
    rule : Nodes
        A rule made by ``panels``.
    values : (..., 16 P) array
        The function at the nodes.

    Returns
    -------
    (..., 16 P) array

    Examples
    --------
    >>> rule = panels(np.linspace(0.0, 3.0, 4))
    >>> error = running_integral(rule, np.cos(rule.x)) - np.sin(rule.x)
    >>> bool(abs(error).max() < 1e-14)
    True
    """
    half = rule.w.reshape(-1, ORDER).sum(axis=-1) / 2
    local = np.reshape(values, (*values.shape[:-1], -1, ORDER)) * half[:, None]
    totals = local @ _WEIGHTS
    before = np.cumsum(totals, axis=-1) - totals
    return (local @ _RUNNING.T + before[..., None]).reshape(values.shape)


def _running_matrix() -> np.ndarray:
    degree = np.arange(ORDER)
    project = (degree[:, None] + 0.5) * np.polynomial.legendre.legvander(_POINTS, ORDER - 1).T
    project *= _WEIGHTS
    integrate = np.polynomial.legendre.legint(np.eye(ORDER), lbnd=-1, axis=0)
    return np.polynomial.legendre.legvander(_POINTS, ORDER) @ integrate @ project


_RUNNING = _running_matrix()


def normal_density(x: np.ndarray) -> np.ndarray:
    r"""Standard normal density :math:`e^{-x^2/2}/\sqrt{2\pi}`.

    Examples
    --------
    >>> round(float(normal_density(0.0)), 6)
    0.398942
    """
    return np.exp(-np.square(x) / 2) / _SQRT_2PI


def adapted_rule(resolution: Callable[[np.ndarray], np.ndarray], low: float, high: float) -> Nodes:
    r"""Panels on ``[low, high]``, each two units wide in the coordinate ``resolution(x)``.

    Parameters
    ----------
    resolution : callable
        Increasing function whose slope is the inverse of the length over which the integrand
        varies. For a Gaussian of width s times a function of :math:`\log\phi(x)` it is
        :math:`x/s + \log \phi(x)`.
    low, high : float
        The interval.

    Returns
    -------
    Nodes

    Examples
    --------
    >>> rule = adapted_rule(lambda x: x, -12.0, 12.0)
    >>> len(rule.x), round(float(rule.w @ normal_density(rule.x)), 14)
    (192, 1.0)
    """
    count = max(1, math.ceil((resolution(np.float64(high)) - resolution(np.float64(low))) / 2))
    fine = np.linspace(low, high, 8 * count + 65)
    breaks = np.interp(np.linspace(resolution(fine[0]), resolution(fine[-1]), count + 1),
                       resolution(fine), fine)
    breaks[0], breaks[-1] = low, high
    return panels(breaks)


def orthant(threshold: np.ndarray, correlation: float) -> tuple[np.ndarray, np.ndarray]:
    r"""Both of two correlated standard normals below one threshold.

    .. math:: P(X < h, Y < h) - \Phi(h)^2
              = \frac{1}{2\pi} \int_0^{\arcsin \rho} e^{-h^2/(1 + \sin\theta)}\,d\theta

    The right side is positive, so no digits are lost when either side is tiny.

    Parameters
    ----------
    threshold : array
        The threshold h, any shape.
    correlation : float
        :math:`\rho \in [0, 1]`, broadcast against ``threshold``.

    Returns
    -------
    (covariance, probability) : arrays
        The right side above (the covariance of the two indicators), and
        :math:`P(X < h, Y < h)`.

    Source: Plackett's identity integrated in the correlation.

    Examples
    --------
    >>> covariance, probability = orthant(0.0, 0.5)
    >>> round(float(probability), 12), round(1 / 3, 12)
    (0.333333333333, 0.333333333333)
    """
    h, rho = np.broadcast_arrays(np.asarray(threshold, float), np.asarray(correlation, float))
    top = np.arcsin(rho)[..., None]
    theta = top * _ORTHANT.x
    integrand = np.exp(-np.square(h)[..., None] / (1 + np.sin(theta)))
    covariance = (integrand @ _ORTHANT.w) * top[..., 0] / (2 * np.pi)
    return covariance, covariance + np.square(ndtr(h))


# exp(-h^2/(1 + sin)) steepens only near its upper end, and then only for large h
_ORTHANT = panels(1 - np.array([1.0, 0.7, 0.4, 0.2, 0.1, 0.05, 0.0]))


class Transforms(NamedTuple):
    r"""One-token Laplace factors on a grid of :math:`\log t`, each of the shape of that grid.

    With :math:`E = t\,\phi(\chi)`: ``log_m`` is :math:`\log \mathbb{E} e^{-E}`, ``k`` is
    :math:`\mathbb{E} E e^{-E}` and ``j`` is :math:`\mathbb{E} E^2 e^{-E}`.
    """

    log_m: np.ndarray
    k: np.ndarray
    j: np.ndarray


def log_survival(m: np.ndarray, complement: np.ndarray) -> np.ndarray:
    r"""Return :math:`\log m` from m and an accurate :math:`1 - m`.

    Examples
    --------
    >>> float(log_survival(np.float64(1.0), np.float64(1e-20)))
    -1e-20
    """
    # an m of rounding size may come out below zero
    with np.errstate(divide="ignore"):
        return np.where(complement < 0.5, np.log1p(-np.minimum(complement, 0.5)),
                        np.log(np.maximum(m, 0.0)))


class LogTime(NamedTuple):
    r"""Quadrature in :math:`\log t` that holds the Laplace integral of a sum of kernels.

    Attributes
    ----------
    values, weights : (n,) arrays
        Increasing nodes, and their weights.
    stride : int
        Distance of the nodes in units of ``STEP`` where they are equidistant, else 0.
    """

    values: np.ndarray
    weights: np.ndarray
    stride: int


def even_log_time(lowest: float, highest: float, count: float, width: float = 1.0) -> LogTime:
    r"""Trapezoidal rule in :math:`\log t` for ``count`` tokens.

    The integrand is analytic for :math:`|\mathrm{Im} \log t| < \pi/2`, so the sum at step 1/4
    errs by about :math:`e^{-4\pi^2}`.

    Parameters
    ----------
    lowest, highest : float
        Range of :math:`\log \phi` of one token.
    count : float
        Number of tokens L.
    width : float
        Scale on which the integrand varies, if more than 1.

    Returns
    -------
    LogTime

    Examples
    --------
    >>> grid = even_log_time(0.0, 0.0, 1.0)
    >>> t = np.exp(grid.values)
    >>> round(float((t * np.exp(-t)) @ grid.weights), 13)  # 1/S at S = 1
    1.0
    """
    start = -highest - math.log(count) - _NEGLIGIBLE - 4
    stride = max(1, math.floor(width))
    values = np.arange(start, 5 - lowest + STEP * stride, STEP * stride)
    return LogTime(values, np.full_like(values, STEP * stride), stride)


def adapted_log_time(log_kernel: np.ndarray, slope: np.ndarray, count: float,
                     width: float) -> LogTime:
    r"""Gauss-Legendre panels in :math:`\log t`, wide where :math:`\log \phi` is steep.

    Parameters
    ----------
    log_kernel, slope : (m,) arrays
        The increasing function :math:`\log \phi` and its slope, over the range of a score.
    count : float
        Number of tokens L.
    width : float
        Scale on which the largest of the scores varies. Where the kernel is exponential the
        integrand varies over ``width`` times its slope; where the slope bends, and at the least,
        over 1.

    Returns
    -------
    LogTime
    """
    with np.errstate(divide="ignore"):  # the distance to the bend, in units of log phi
        away = 1 - np.log(1 - slope / slope.max())
    density = 1 / np.maximum(1.0, np.minimum(width * slope, away))
    log_t = np.concatenate([[-log_kernel[-1] - math.log(count) - _NEGLIGIBLE - 4],
                            -log_kernel[::-1], [5 - log_kernel[0]]])
    density = np.concatenate([[1.0], density[::-1], [1.0]])
    travelled = np.concatenate([[0.0], np.cumsum(np.diff(log_t) * (density[1:] + density[:-1]))])
    rule = adapted_rule(lambda u: np.interp(u, log_t, travelled / 2), log_t[0], log_t[-1])
    return LogTime(rule.x, rule.w, 0)


def exponential_transforms(mean: float, std: float, grid: LogTime, depth: float) -> Transforms:
    r"""Laplace factors of the exponential kernel, :math:`\phi(\chi) = e^\chi`, for ``std`` >= 1.

    By parts, with :math:`f(\eta) = e^{\eta - e^\eta}` the density of a reversed Gumbel variable,

    .. math:: \mathbb{E} e^{-t e^\chi} = \int f(\eta)\,
              \Phi\Big(\frac{\eta - \log t - \mu}{s}\Big) d\eta.

    The integrand has the scale of f, whatever the spread s of the scores: the cost does not grow
    with s. On equidistant grids the integral is a convolution.

    Parameters
    ----------
    mean, std : float
        Mean and standard deviation of the score :math:`\chi`.
    grid : LogTime
        Equidistant nodes in :math:`\log t`.
    depth : float
        The smallest :math:`E` that counts is :math:`e^{-depth}` times rounding: ``log L`` for the
        complement of the M of L tokens, more where one token outweighs another by more.

    Returns
    -------
    Transforms
    """
    eta = np.arange(-_NEGLIGIBLE - 4 - depth, 4 + STEP, STEP)
    density = STEP * np.exp(eta - np.exp(eta))
    if grid.stride < len(eta):  # neighbouring windows overlap: evaluate each point once
        z = (eta[0] - grid.values[0] - mean
             + STEP * np.arange(-(len(grid.values) - 1) * grid.stride, len(eta))) / std
        rows = (slice(None, None, grid.stride), slice(None))
    else:
        z = (eta - grid.values[::-1, None] - mean) / std
        rows = (slice(None), 0)

    def average(values: np.ndarray, law: np.ndarray) -> np.ndarray:
        windows = np.lib.stride_tricks.sliding_window_view(values, len(eta), axis=-1)
        return (windows[rows] @ law)[::-1]

    normal = normal_density(z) / std
    return Transforms(log_survival(average(ndtr(z), density), average(ndtr(-z), density)),
                      average(normal, density), average(normal, density * np.exp(eta)))


def kernel_transforms(log_kernel: np.ndarray, weights: np.ndarray, grid: LogTime) -> Transforms:
    r"""Laplace factors of any increasing kernel, from its values at quadrature nodes.

    Parameters
    ----------
    log_kernel : (m,) array
        :math:`\log \phi` at the nodes, in increasing order.
    weights : (m,) array
        Probabilities of the nodes, summing to 1.
    grid : LogTime
        Grid of :math:`\log t`.

    Returns
    -------
    Transforms

    Examples
    --------
    >>> grid = even_log_time(0.0, 0.0, 1.0)
    >>> sure = kernel_transforms(np.zeros(1), np.ones(1), grid)  # phi = 1
    >>> bool(np.allclose(sure.log_m, -np.exp(grid.values)))
    True
    """
    log_t = grid.values
    below = np.concatenate([[0.0], np.cumsum(weights)])
    above = np.concatenate([np.cumsum(weights[::-1])[::-1], [0.0]])
    parts = []
    rows = 16
    for start in range(0, len(log_t), rows):
        part = log_t[start:start + rows, None]
        # outside this range of nodes e^-E is 1 or 0 to rounding
        first = np.searchsorted(log_kernel, -part[-1, 0] - 2 * _NEGLIGIBLE)
        last = np.searchsorted(log_kernel, 4.0 - part[0, 0])
        law = weights[first:last]
        e = np.exp(np.minimum(part + log_kernel[first:last], 7.0))
        survive = np.exp(-e)
        log_m = log_survival(below[first] + survive @ law, above[last] - np.expm1(-e) @ law)
        survive *= e
        k = survive @ law
        survive *= e
        parts.append((log_m, k, survive @ law))
    return Transforms(*(np.concatenate(columns) for columns in zip(*parts)))


def sobol_normals(n: int, dim: int, seed: int) -> np.ndarray:
    """Scrambled Sobol points mapped to independent standard normals.

    Parameters
    ----------
    n : int
        Number of points, a power of two (Sobol points are balanced only then).
    dim : int
        Dimension of a point, at least 1.
    seed : int
        Seed of the scrambling; independent seeds give independent, unbiased estimates.

    Returns
    -------
    (n, dim) float64 array

    Raises
    ------
    ValueError
        If ``n`` is not a power of two, or ``dim`` or ``seed`` is out of range.

    Examples
    --------
    >>> points = sobol_normals(1024, 2, seed=0)
    >>> points.shape, bool(abs(points.mean()) < 1e-2)
    ((1024, 2), True)
    """
    n = _checks.integer("n", n, low=1)
    dim = _checks.integer("dim", dim, low=1)
    seed = _checks.integer("seed", seed, low=0)
    if n & (n - 1):
        raise ValueError(f"n must be a power of two; got {n}")
    uniform = qmc.Sobol(dim, scramble=True, rng=np.random.default_rng(seed)).random(n)
    return ndtri(uniform + 2.0**-31)  # to the middle of the 30-bit cell: 0 has no normal quantile
