r"""Population risk: what one attention layer attains with unlimited data.

With the value direction along :math:`v^*` and the key along any k orthogonal to it, the risk is

.. math:: \Delta^2 + 1 - 2 m_v A + q_v B, \qquad
          A = \mathbb{E}\,\sigma_\epsilon, \quad B = \mathbb{E} \sum_\ell \sigma_\ell^2,

and its minimum over v is :math:`\Delta^2 + 1 - A^2/B`. Everything here is deterministic
integration, at a cost that does not depend on L; ``overlap_risk`` alone draws points.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
import math
from typing import NamedTuple

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.optimize import minimize, minimize_scalar
from scipy.special import ndtr

from . import _checks
from .activations import (Activation, Erf, Exponential, Linear, Sigmoid, Softmax, Softplus,
                          as_activation, fixed_offset)
from .gaussian import (STEP, TAIL, LogTime, Nodes, Transforms, adapted_rule,
                       adapted_log_time, even_log_time, exponential_transforms,
                       kernel_transforms, log_survival, normal_density, orthant, running_integral, sobol_normals)
from .lengths import Lengths
from .tasks import MaxSLR, SpikedSLR

Task = SpikedSLR | MaxSLR


class Moments(NamedTuple):
    r"""The two moments of the attention weights.

    Attributes
    ----------
    signal : float
        :math:`A = \mathbb{E}\,\sigma_\epsilon`, the weight on the relevant token.
    power : float
        :math:`B = \mathbb{E} \sum_\ell \sigma_\ell^2`.
    deficit : float
        :math:`B - A^2`, accurate also where it is tiny; the best noiseless risk is deficit/power.
    """

    signal: float
    power: float
    deficit: float


@dataclass(frozen=True)
class PopulationRisk:
    r"""The minimum of the population risk over k, v and a free offset.

    Attributes
    ----------
    risk : float
        The risk, label noise included.
    key_scale : float
        The scale a of the best key :math:`k = a k^*`; ``inf`` if the infimum is a limit.
    value_scale : float
        The scale of the best value direction, :math:`v = (A/B)\, v^*`.
    offset : float or None
        The best (or the fixed) offset; ``-inf`` if the infimum is a limit; None where the
        activation has none.
    signal, power : float
        A and B at the minimum.
    attained : bool
        False where no finite key scale and offset reach the risk, which is then an infimum.
    """

    risk: float
    key_scale: float
    value_scale: float
    offset: float | None
    signal: float
    power: float
    attained: bool


def bayes_risk(task: Task, *, noise: float = 0.0) -> float:
    r"""Smallest risk of any predictor that knows the hidden directions.

    .. math:: \Delta^2 + 1 - \mathbb{E} \sum_\ell p_\ell^2, \qquad
              p = \mathrm{softmax}(c_\nu \chi^*).

    Parameters
    ----------
    task : SpikedSLR or MaxSLR
    noise : float
        Standard deviation :math:`\Delta \ge 0` of the label noise.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If an argument is outside its domain.

    Source: paper, section 3; theory notes, section 3.

    Examples
    --------
    >>> from slrbook import MaxSLR, SpikedSLR
    >>> round(bayes_risk(SpikedSLR(nu=5.0, length=2)), 8)
    0.08439651
    >>> bayes_risk(MaxSLR(nu=math.inf, length=10), noise=0.5)
    0.25
    """
    task = _check_task(task)
    noise = _checks.real("noise", noise, low=0.0)
    return noise**2 + _bayes_moments(task).deficit / _bayes_moments(task).power


def elementwise_risk(task: Task, *, noise: float = 0.0) -> float:
    r"""Smallest risk of any layer whose weights look at one token at a time.

    The best elementwise weights are the posterior of the location given one score alone. With
    :math:`p_1` the density of :math:`\chi^*` at the relevant token and :math:`p` the sum of its
    densities at all tokens,

    .. math:: \Delta^2 + 1 - \max_\phi \frac{(\int \phi\, p_1)^2}{\int \phi^2 p}
              = \Delta^2 + 1 - \int \frac{p_1^2}{p},
              \qquad \phi = \frac{p_1}{p}.

    In the spiked task :math:`\phi` is a sigmoid, of slope :math:`\sqrt\nu` and offset
    :math:`-\nu/2 - \log(\mathbb{E} L - 1)`. In the max task at :math:`\nu = \infty` it is
    :math:`\Phi(\chi)^{L - 1}` for a fixed length, and the risk is :math:`(L - 1)/(2L - 1)`.

    Parameters
    ----------
    task : SpikedSLR or MaxSLR
    noise : float
        Standard deviation :math:`\Delta \ge 0` of the label noise.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If an argument is outside its domain.

    Source: Cauchy-Schwarz; the chapter on activations.

    Examples
    --------
    >>> from slrbook import MaxSLR
    >>> round(elementwise_risk(MaxSLR(math.inf, 10)), 8), round(9 / 19, 8)
    (0.47368421, 0.47368421)
    """
    task = _check_task(task)
    noise = _checks.real("noise", noise, low=0.0)
    if isinstance(task, SpikedSLR) or task.length.max == 1:
        return population_risk(task, Sigmoid(), noise=noise).risk
    _, base, tilt = _selected_law(task, 1.0)
    return noise**2 + 1 - float(base @ tilt**2) / task.length.mean


def population_risk(task: Task, activation: str | Activation, *,
                    noise: float = 0.0) -> PopulationRisk:
    r"""Minimum over k, v (and a free offset) of the population risk of one attention layer.

    .. math:: \min_{k, v}\ \mathbb{E}\,\Big(y - \sum_\ell \sigma(\chi)_\ell\, z_\ell\Big)^2
              = \Delta^2 + 1 - \max_a \frac{A(a)^2}{B(a)}, \qquad k = a k^*.

    Linear attention is minimised in closed form; softmax sits at :math:`a = c_\nu`, where its
    weights are the location posterior; the others are minimised over a grid of scales (and
    offsets) followed by a local polish, so that no starting point matters.

    Parameters
    ----------
    task : SpikedSLR or MaxSLR
    activation : an activation, or its name
        An offset of ``None`` is minimised over (not where softplus is not normalised: its best
        offset may be infinite).
    noise : float
        Standard deviation :math:`\Delta \ge 0` of the label noise.

    Returns
    -------
    PopulationRisk

    Raises
    ------
    ValueError
        If an argument is outside its domain.

    Source: paper, section 3; theory notes, section 3.

    Examples
    --------
    >>> from slrbook import SpikedSLR
    >>> task = SpikedSLR(nu=5.0, length=2)
    >>> round(population_risk(task, "softmax").risk, 8)
    0.08439651
    >>> best = population_risk(task, "linear", noise=0.5)
    >>> round(best.risk, 8), round(best.key_scale, 6)  # 0.25 + 2/9 at sqrt(5)/2
    (0.47222222, 1.118034)
    """
    task = _check_task(task)
    activation = as_activation(activation)
    noise = _checks.real("noise", noise, low=0.0)
    if task.length.max == 1 or task.nu == 0:  # scores say nothing: constant weights are best
        if getattr(activation, "offset", 0.0) is None:
            activation = replace(activation, offset=0.0)
        scale, offset = 0.0, getattr(activation, "offset", None)
        moments = attention_moments(task, activation, scale)
    elif activation.normalised and getattr(activation, "offset", 0.0) is None:
        # phi(chi + c) / e^(p c) tends to e^(p chi) as c falls: softmax, hence the Bayes risk, is
        # approached and nothing is below it
        best = population_risk(task, Softmax(), noise=noise)
        scale = best.key_scale / _power(activation)
        return replace(best, key_scale=scale, offset=-math.inf, attained=False)
    elif isinstance(activation, Softmax):
        scale, offset, moments = task.key_scale, None, _bayes_moments(task)
    elif isinstance(activation, Linear):
        scale, offset, moments = _best_linear(task)
    elif isinstance(activation, (Sigmoid, Erf)) and activation.offset is None:
        scale, offset, moments = _best_offset(task, activation)
    else:
        scale, moments = _best_scale(task, activation)
        offset = getattr(activation, "offset", None)
    return PopulationRisk(noise**2 + moments.deficit / moments.power, scale,
                          moments.signal / moments.power, offset, moments.signal, moments.power,
                          math.isfinite(scale) and math.isfinite(offset or 0.0))


def attention_moments(task: Task, activation: str | Activation, m: float,
                      q: float | None = None) -> Moments:
    r"""The moments A and B at given key overlaps.

    With :math:`\chi_\ell = m \chi^*_\ell + \sqrt{q - m^2}\, b_\ell`, :math:`b` standard normal,

    .. math:: A = \mathbb{E}\, \sigma(\chi)_\epsilon, \qquad
              B = \mathbb{E} \sum_\ell \sigma(\chi)_\ell^2.

    Normalised activations go through the Laplace representation, elementwise ones through
    one-dimensional integrals. For ``MaxSLR`` with a normalised activation there is a second
    Laplace variable, and the cost grows in proportion to nu and to m.

    Parameters
    ----------
    task : SpikedSLR or MaxSLR
    activation : an activation, or its name
        Its offset must be a number.
    m : float
        Overlap :math:`m_k = k \cdot k^*/D`.
    q : float, optional
        Squared norm :math:`q_k = |k|^2/D \ge m^2`. Default :math:`m^2`, a key along
        :math:`k^*`.

    Returns
    -------
    Moments

    Raises
    ------
    ValueError
        If an argument is outside its domain.

    Source: paper, section 3; theory notes, section 3.

    Examples
    --------
    >>> from slrbook import SpikedSLR
    >>> task = SpikedSLR(nu=4.0, length=3)
    >>> signal, power, deficit = attention_moments(task, "softmax", 2.0)  # at the posterior
    >>> round(signal, 6), round(power, 6)
    (0.805876, 0.805876)
    """
    task = _check_task(task)
    activation = as_activation(activation)
    m = _checks.real("m", m)
    q = m * m if q is None else _checks.real("q", q, low=0.0)
    if q < m * m * (1 - 1e-12):
        raise ValueError(f"q must be at least m**2 = {m * m!r}; got {q!r}")
    moments = _moments(task, activation, m, math.sqrt(max(q - m * m, 0.0)))
    if not math.isfinite(moments.power):
        raise ValueError(f"m and q must be small enough that E sum sigma^2 of {activation.name} is "
                         f"finite; got m={m!r}, q={q!r}")
    return moments


def risk_at(task: Task, activation: str | Activation, key_scale: float, *,
            noise: float = 0.0) -> float:
    r"""Risk at the key :math:`k = a k^*` with the best v: :math:`\Delta^2 + 1 - A(a)^2/B(a)`.

    Parameters
    ----------
    task : SpikedSLR or MaxSLR
    activation : an activation, or its name
        Its offset must be a number.
    key_scale : float
        The scale a, finite.
    noise : float
        Standard deviation :math:`\Delta \ge 0` of the label noise.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If an argument is outside its domain.

    Source: theory notes, section 3.

    Examples
    --------
    >>> from slrbook import SpikedSLR
    >>> task = SpikedSLR(nu=4.0, length=3)
    >>> [round(risk_at(task, "softmax", a), 4) for a in (1.0, 2.0, 4.0)]
    [0.2178, 0.1941, 0.2054]
    """
    key_scale = _checks.real("key_scale", key_scale)
    noise = _checks.real("noise", noise, low=0.0)
    moments = attention_moments(task, activation, key_scale)
    if moments.power == 0:
        raise ValueError("key_scale must leave weights that do not all underflow; got "
                         f"{key_scale!r} for {activation!r}")
    return noise**2 + moments.deficit / moments.power


class OverlapRisk(NamedTuple):
    """A risk and the standard error of its estimate."""

    risk: float
    standard_error: float


def overlap_risk(task: Task, activation: str | Activation, *, m_k: float, q_k: float, m_v: float,
                 q_v: float, k_value_star: float = 0.0, v_key_star: float = 0.0,
                 k_v: float = 0.0, noise: float = 0.0, samples: int = 2**14,
                 scrambles: int = 8, seed: int = 0) -> OverlapRisk:
    r"""Population risk at all seven overlaps of (k, v) with the hidden directions and each other.

    Tokens enter through :math:`(\chi^*, \chi, z^*, z)`, jointly Gaussian with the Gram matrix of
    :math:`(k^*, k, v^*, v)/\sqrt D` as covariance. Given :math:`(\chi^*, \chi)` the value
    projections are averaged exactly, and so is the location for ``MaxSLR``; the remaining
    average over 2L normals uses scrambled Sobol points.

    Parameters
    ----------
    task : SpikedSLR or MaxSLR
    activation : an activation, or its name
        Its offset must be a number.
    m_k, q_k, m_v, q_v : float
        :math:`k \cdot k^*/D`, :math:`|k|^2/D`, :math:`v \cdot v^*/D`, :math:`|v|^2/D`.
    k_value_star, v_key_star, k_v : float
        :math:`k \cdot v^*/D`, :math:`v \cdot k^*/D`, :math:`k \cdot v/D`: zero on the manifold
        where the risk has the form of ``attention_moments``.
    noise : float
        Standard deviation :math:`\Delta \ge 0` of the label noise.
    samples, scrambles, seed : int
        Sobol points per scrambling (a power of two), independent scramblings (at least 2, they
        give the standard error), first seed.

    Returns
    -------
    OverlapRisk

    Raises
    ------
    ValueError
        If an argument is outside its domain, or the overlaps are those of no vectors.

    Source: paper, section 3; theory notes, section 3.

    Examples
    --------
    >>> from slrbook import SpikedSLR
    >>> task = SpikedSLR(nu=4.0, length=3)
    >>> on = overlap_risk(task, "linear", m_k=1.0, q_k=1.0, m_v=0.4, q_v=0.16)
    >>> A, B, _ = attention_moments(task, "linear", 1.0)
    >>> bool(abs(on.risk - (1 - 2 * 0.4 * A + 0.16 * B)) < 4 * on.standard_error)
    True
    """
    task = _check_task(task)
    activation = as_activation(activation)
    noise = _checks.real("noise", noise, low=0.0)
    scrambles = _checks.integer("scrambles", scrambles, low=2)
    seed = _checks.integer("seed", seed, low=0)
    overlaps = dict(m_k=m_k, q_k=q_k, m_v=m_v, q_v=q_v, k_value_star=k_value_star,
                    v_key_star=v_key_star, k_v=k_v)
    for name, value in overlaps.items():
        _checks.real(name, value)
    gram = np.array([[1.0, m_k, 0.0, v_key_star],
                     [m_k, q_k, k_value_star, k_v],
                     [0.0, k_value_star, 1.0, m_v],
                     [v_key_star, k_v, m_v, q_v]])
    smallest = np.linalg.eigvalsh(gram)[0]
    if smallest < -1e-9 * np.trace(gram):
        raise ValueError("the overlaps must form a positive semi-definite Gram matrix; its "
                         f"smallest eigenvalue is {smallest:.3g} at {overlaps}")
    estimates = [task.length.expect(
        lambda length: _overlap_risk_once(task, activation, gram, int(length), samples, seed + s))
        for s in range(scrambles)]
    return OverlapRisk(noise**2 + float(np.mean(estimates)),
                       float(np.std(estimates, ddof=1) / math.sqrt(scrambles)))


def _overlap_risk_once(task: Task, activation: Activation, gram: np.ndarray, length: int,
                       samples: int, seed: int) -> float:
    m, q = gram[0, 1], gram[1, 1]
    normals = sobol_normals(samples, 2 * length, seed).reshape(samples, length, 2)
    # regression of the value projections (z*, z) on the centred key projections (chi*, chi)
    slopes = gram[2:, :2] @ np.linalg.pinv(gram[:2, :2], rcond=1e-12, hermitian=True)
    rest = gram[2:, 2:] - slopes @ gram[:2, 2:]
    chi_star = normals[..., 0]
    keys = np.stack([chi_star, m * chi_star + math.sqrt(max(q - m * m, 0)) * normals[..., 1]])
    values = np.einsum("ij,jsl->isl", slopes, keys)
    if isinstance(task, SpikedSLR):  # tokens are exchangeable: the relevant one may be the first
        shift = math.sqrt(task.nu) * gram[0]
        keys[..., 0] += shift[:2, None]
        values[..., 0] += shift[2:, None]
        posterior = np.zeros_like(chi_star)
        posterior[:, 0] = 1.0
    else:
        posterior = task.location_posterior(chi_star)
    weights = activation(keys[1])
    mean_error = values[0] - (weights * values[1]).sum(axis=-1, keepdims=True)
    token = mean_error**2 + rest[0, 0] - 2 * weights * rest[0, 1]
    return float(np.mean((posterior * token).sum(axis=-1)
                         + rest[1, 1] * np.square(weights).sum(axis=-1)))


def _check_task(task: object) -> Task:
    if not isinstance(task, (SpikedSLR, MaxSLR)):
        raise ValueError(f"task must be a SpikedSLR or a MaxSLR; got {task!r}")
    return task


@dataclass(frozen=True)
class _Relu:
    """The kernel max(0, chi)^p, the limit of softplus(a chi)^p / a^p at infinite key scale a.

    At p = 0 it is the indicator of a positive score, the limit of a sigmoid.
    """

    power: float

    def log_kernel(self, chi: np.ndarray) -> np.ndarray:
        logs = np.log(np.maximum(chi, 0.0), out=np.full_like(chi, -np.inf), where=chi > 0)
        return np.multiply(self.power, logs, out=logs, where=chi > 0)


def _power(activation: Activation | _Relu) -> float:
    """The power p of a kernel that falls as e^(p chi)."""
    return getattr(activation, "power", 1.0)


def _moments(task: Task, activation: Activation, m: float, spread: float) -> Moments:
    """The moments for scores m chi* + spread b; infinite where they overflow."""
    if not activation.normalised:
        return _elementwise_moments(task, activation, m, spread)
    if isinstance(task, SpikedSLR):
        return _spiked_moments(task, activation, m * math.sqrt(task.nu), math.hypot(m, spread))
    return _max_moments(task, activation, m, spread)


# Normalised activations: Laplace integrals over log t, averaged over the law of L.

def _average(task: Task, activation: Activation | _Relu,
             factors: Callable[[float], tuple]) -> Moments:
    r"""Average each length's (A, B, 1 - A, 1 - 2A + B) and form the moments.

    The last is E sum_l (1{l = eps} - sigma_l)^2. It and 1 - A come as sums of positive terms;
    B - A^2 = (1 - 2A + B) - (1 - A)^2 then keeps the digits that are lost as A tends to 1.
    """

    def one_length(length: int) -> np.ndarray:
        if length == 1:
            return np.array([1.0, 1.0, 0.0, 0.0])
        values = np.array(factors(float(length)))
        if isinstance(activation, _Relu):
            values += _one_hot_below_zero(task, float(length))
        return values

    signal, power, missed, rest = task.length.expect(one_length).tolist()
    deficit = power - signal**2 if signal < 0.5 else rest - missed**2
    return Moments(signal, power, deficit)


def _one_hot_below_zero(task: Task, n: float) -> np.ndarray:
    """What ``_Relu`` leaves out: no positive score, where the limit picks the largest score."""
    rule = adapted_rule(lambda x: (1 + min(task.nu, 1e3)) * x, -TAIL, 0.0)
    if isinstance(task, SpikedSLR):
        shift = math.sqrt(task.nu)
        empty = ndtr(-shift) * 0.5 ** (n - 1)
        hit = rule.w @ (normal_density(rule.x - shift) * ndtr(rule.x) ** (n - 1))
    elif math.isinf(task.nu):
        empty = hit = 0.5**n
    else:
        empty = 0.5**n
        times = _log_time(Softmax(), -TAIL * task.nu, TAIL * task.nu, task.nu, n)
        g = np.exp(np.minimum(times.values[:, None] + task.nu * rule.x, 7.0))
        law = normal_density(rule.x) * np.exp(-g)
        largest = np.maximum(running_integral(rule, law), 0.0) ** (n - 1)
        hit = n * times.weights @ (g * law * largest @ rule.w)
    return np.array([hit, empty, empty - hit, 2 * (empty - hit)])


def _raise(log_m: np.ndarray, exponent: float) -> np.ndarray:
    """m**exponent from log m, with 0**0 = 1."""
    return np.exp(exponent * log_m) if exponent > 0 else np.ones_like(log_m)


#: Below this score a relu kernel is nothing.
_TINY = 1e-20


def _score_rule(activation: Activation | _Relu, mean: float, slope: float,
                sharpness: float = 0.0, reach: float = TAIL) -> Nodes:
    """Panels in z on [-reach, reach] for a standard normal density, the kernel at mean + slope z,
    and whatever else varies over 1/sharpness."""
    rate = 1 + sharpness
    if isinstance(activation, _Relu):
        zero = min(max(-mean / slope, -reach), reach)
        parts = [adapted_rule(lambda z: rate * z, -reach, zero),
                 adapted_rule(lambda y: rate * y + max(1.0, activation.power) * np.log(y), _TINY,
                              reach - zero + _TINY)]
        parts[1] = Nodes(parts[1].x + zero, parts[1].w)
        return Nodes(*(np.concatenate(columns) for columns in zip(*parts)))
    sign = math.copysign(1.0, slope)
    return adapted_rule(lambda z: rate * z + sign * activation.log_kernel(mean + slope * z),
                        -reach, reach)


def _score_transforms(activation: Activation | _Relu, mean: float, std: float, reach: float,
                      grid: LogTime, depth: float) -> Transforms:
    """Laplace factors of a score N(mean, std^2)."""
    if isinstance(activation, Softmax) and std >= 1:
        return exponential_transforms(mean, std, grid, depth)
    if std == 0:
        return kernel_transforms(activation.log_kernel(np.array([mean])), np.ones(1), grid)
    rule = _score_rule(activation, mean, std, reach=reach)
    return kernel_transforms(activation.log_kernel(mean + std * rule.x),
                             rule.w * normal_density(rule.x), grid)


def _log_time(activation: Activation | _Relu, low: float, high: float, std: float,
              count: float) -> LogTime:
    """Nodes in log t for scores of standard deviation ``std`` that range over [low, high]."""
    if isinstance(activation, _Relu):
        power = activation.power
        return even_log_time(power * math.log(_TINY), power * math.log(high), count)
    width = std / math.sqrt(2 * math.log(count) + 4)  # that of the largest of L scores, or less
    if isinstance(activation, Softmax):
        return even_log_time(low, high, count, width)
    score = np.linspace(low, high, 1001)
    return adapted_log_time(activation.log_kernel(score), activation.log_kernel_slope(score),
                            count, width)


def _spiked_moments(task: SpikedSLR, activation: Activation, mean: float, std: float) -> Moments:
    """The relevant score is N(mean, std^2), the others N(0, std^2), all independent."""
    count = float(task.length.max)
    # the two meet halfway between their means, up to where that probability underflows
    reach = TAIL + (min(abs(mean) / (2 * std), 27.0) if std > 0 else 0.0)
    low, high = min(mean, 0.0) - reach * std, max(mean, 0.0) + reach * std
    grid = _log_time(activation, low, high, std, count)
    depth = math.log(count) + abs(mean)  # the relevant token outweighs another by e^mean
    hit = _score_transforms(activation, mean, std, reach, grid, depth)
    miss = _score_transforms(activation, 0.0, std, reach, grid, depth)
    seen = np.exp(hit.log_m)

    def factors(n: float) -> tuple:
        rest1, rest2, rest3 = (_raise(miss.log_m, n - r) for r in (1, 2, 3))
        signal = grid.weights @ (hit.k * rest1)
        missed = (n - 1) * grid.weights @ (miss.k * seen * rest2)
        squares = (n - 1) * grid.weights @ (miss.j * seen * rest2)
        pairs = (n - 1) * (n - 2) * grid.weights @ (miss.k**2 * seen * rest3)
        return signal, grid.weights @ (hit.j * rest1) + squares, missed, 2 * squares + pairs

    return _average(task, activation, factors)


def _exchangeable_power(lengths: Lengths, activation: Activation | _Relu,
                        std: float) -> Callable:
    """For L independent scores N(0, std^2): n -> (B, 1 - B)."""
    count = float(lengths.max)
    grid = _log_time(activation, -TAIL * std, TAIL * std, std, count)
    token = _score_transforms(activation, 0.0, std, TAIL, grid, math.log(count))

    def power(n: float) -> tuple[float, float]:
        return (n * grid.weights @ (token.j * _raise(token.log_m, n - 1)),
                n * (n - 1) * grid.weights @ (token.k**2 * _raise(token.log_m, n - 2)))

    return power


@lru_cache(maxsize=256)
def _bayes_moments(task: Task) -> Moments:
    """The moments at k = c_nu k*, where A = B because the weights are the posterior."""
    scale = task.key_scale
    if math.isinf(scale):
        return Moments(1.0, 1.0, 0.0)
    if isinstance(task, SpikedSLR):
        return _spiked_moments(task, Softmax(), task.nu, scale)
    power = _exchangeable_power(task.length, Softmax(), scale)

    def factors(n: float) -> tuple:
        total, complement = power(n)
        return total, total, complement, complement

    return _average(task, Softmax(), factors)


def _max_moments(task: MaxSLR, activation: Activation | _Relu, m: float,
                 spread: float) -> Moments:
    r"""Scores chi = m chi* + spread b; the location is drawn by chi* alone.

    By the Gumbel-max trick the location is where h_l = chi*_l + Gumbel_l / nu is largest. Given
    the winner's h the other tokens are independent, with h_l' < h. Given chi* that has the
    probability exp(-e^{nu (chi* - h)}), a step at nu = inf. So A is an integral over log t and h
    of one-token factors.
    """
    count = float(task.length.max)
    std = math.hypot(m, spread)
    power = _exchangeable_power(task.length, activation, std)
    grid = _log_time(activation, -TAIL * std, TAIL * std, std, count)
    if math.isinf(task.nu):
        terms = _argmax_integrals(task, activation, m, spread, grid)
    elif task.nu < 1 or isinstance(activation, _Relu):
        terms = _gumbel_integrals(task, activation, m, spread, grid)
    else:
        terms = _gumbel_convolutions(task, activation, m, spread, grid)

    def factors(n: float) -> tuple:
        total, complement = power(n)
        signal, missed = terms[n]
        return signal, total, missed, 2 * missed - complement

    return _average(task, activation, factors)


def _conditional_factors(activation: Activation | _Relu, m: float, spread: float,
                         chi_star: np.ndarray, log_t: np.ndarray) -> tuple:
    r"""E[e^-E | chi*], E[E e^-E | chi*] and 1 - E[e^-E | chi*] on the grid (log t, chi*)."""
    if spread == 0:
        noise, weights = np.zeros(1), np.ones(1)
    else:
        noise = _score_rule(activation, 0.0, spread)
        noise, weights = noise.x, noise.w * normal_density(noise.x)
    survive, first, complement = (np.zeros((len(log_t), len(chi_star))) for _ in range(3))
    for b, weight in zip(noise, weights):
        scores = activation.log_kernel(m * chi_star + spread * b)
        e = np.exp(np.minimum(log_t[:, None] + scores, 7.0))
        alive = np.exp(-e)
        survive += weight * alive
        first += weight * e * alive
        complement -= weight * np.expm1(-e)
    return survive, first, complement


def _argmax_integrals(task: MaxSLR, activation: Activation | _Relu, m: float, spread: float,
                      grid: LogTime) -> dict:
    """(A, 1 - A) for each length at nu = inf: h is chi*, and h_l' < h a running integral."""
    rule = _score_rule(activation, 0.0, m, sharpness=1.0)  # running integrals interpolate
    density = normal_density(rule.x)
    weight = rule.w * density
    totals = {float(n): np.zeros(2) for n in task.length.values}
    rows = max(1, 2**19 // len(rule.x))
    for start in range(0, len(grid.values), rows):
        part = slice(start, start + rows)
        survive, first, complement = _conditional_factors(activation, m, spread, rule.x,
                                                          grid.values[part])
        below = running_integral(rule, survive * density)
        log_m = log_survival(below, ndtr(-rule.x) + running_integral(rule, complement * density))
        others = running_integral(rule, first * density)
        for n in totals:
            hit = first * _raise(log_m, n - 1) @ weight
            missed = survive * others * _raise(log_m, n - 2) @ weight
            totals[n] += n * grid.weights[part] @ np.stack([hit, (n - 1) * missed], axis=1)
    return totals


def _gumbel_integrals(task: MaxSLR, activation: Activation | _Relu, m: float, spread: float,
                      grid: LogTime) -> dict:
    """(A, 1 - A) for each length at finite nu, with log s = -nu h as second Laplace variable."""
    rule = _score_rule(activation, 0.0, m, sharpness=task.nu)
    weight = rule.w * normal_density(rule.x)
    times = _log_time(Softmax(), -TAIL * task.nu, TAIL * task.nu, task.nu,
                      float(task.length.max))
    survive, first, complement = _conditional_factors(activation, m, spread, rule.x, grid.values)
    g = np.exp(np.minimum(times.values + task.nu * rule.x[:, None], 7.0))
    under = np.exp(-g) * weight[:, None]
    won = g * under
    log_m = log_survival(survive @ under, (complement @ weight)[:, None]
                         + survive @ (-np.expm1(-g) * weight[:, None]))
    hit, missed = first @ won, (first @ under) * (survive @ won)
    return {float(n): (n * grid.weights @ (hit * _raise(log_m, n - 1)) @ times.weights,
                       n * (n - 1) * grid.weights @ (missed * _raise(log_m, n - 2))
                       @ times.weights)
            for n in task.length.values}


def _gumbel_convolutions(task: MaxSLR, activation: Activation, m: float, spread: float,
                         grid: LogTime) -> dict:
    """(A, 1 - A) for each length at finite nu: chi* and h on one fine grid, joined by FFT."""
    slope = abs(m) * activation.log_kernel_slope(np.linspace(-TAIL, TAIL, 65) * m).max()
    delta = STEP / max(task.nu, slope, 1.0)
    chi_star = np.arange(-TAIL, TAIL + delta, delta)
    density = delta * normal_density(chi_star)
    # h - chi* is Gumbel/nu: beyond [-4, 41] / nu its density is nothing
    early, late = math.ceil(4 / (task.nu * delta)), math.ceil(41 / (task.nu * delta))
    size = early + len(chi_star) + late
    length = next_fast_len(size + len(chi_star), real=True)
    gumbel = np.exp(-task.nu * delta * np.arange(-early, size - early))
    below, won = (rfft(law, length) for law in (np.exp(-gumbel),
                                                task.nu * gumbel * np.exp(-gumbel)))
    totals = {float(n): np.zeros(2) for n in task.length.values}
    rows = max(1, 2**20 // length)
    for start in range(0, len(grid.values), rows):
        part = slice(start, start + rows)
        survive, first, complement = _conditional_factors(activation, m, spread, chi_star,
                                                          grid.values[part])
        alive = rfft(survive * density, length)
        other = rfft(first * density, length)
        m_below, m_won, k_below, k_won = (
            irfft(product, length)[:, :size]
            for product in (alive * below, alive * won, other * below, other * won))
        gone = (complement @ density + survive @ density)[:, None] - m_below
        log_m = log_survival(m_below, gone)
        for n in totals:
            hit = (k_won * _raise(log_m, n - 1)).sum(axis=1)
            missed = (k_below * m_won * _raise(log_m, n - 2)).sum(axis=1)
            totals[n] += n * delta * grid.weights[part] @ np.stack([hit, (n - 1) * missed], axis=1)
    return totals


# Elementwise activations: one-dimensional integrals.

#: A growing kernel moves the weight of its square up the Gaussian, to where that underflows.
_UP = 37.0


def _score_mean(activation: Activation | _Relu, mean: np.ndarray, std: float) -> np.ndarray:
    """Mean of phi at scores N(mean, std^2)."""
    if isinstance(activation, Linear):
        return 1 + mean
    if isinstance(activation, Erf):
        return 2 * ndtr(_threshold(activation, mean, std))
    if isinstance(activation, Exponential):
        return np.exp(mean + std**2 / 2)
    if std == 0:
        return np.exp(activation.log_kernel(mean))
    rate = 1 + std * _power(activation)
    rule = adapted_rule(lambda z: rate * z, -TAIL, _UP)
    law = rule.w * normal_density(rule.x)
    return sum(weight * np.exp(activation.log_kernel(mean + std * z))
               for z, weight in zip(rule.x, law))


def _threshold(activation: Erf, mean: np.ndarray, std: float) -> np.ndarray:
    # 1 + erf(x) = 2 Phi(sqrt(2) x), whose Gaussian means are normal and binormal probabilities
    return math.sqrt(2) * (fixed_offset(activation) + mean) / math.sqrt(1 + 2 * std**2)


def _score_moments(activation: Activation | _Relu, mean: float, std: float) -> tuple:
    """Mean, variance and second moment of phi at a score N(mean, std^2)."""
    if isinstance(activation, Linear):
        return 1 + mean, std**2, (1 + mean) ** 2 + std**2
    if isinstance(activation, Erf):
        threshold = _threshold(activation, mean, std)
        covariance, both = orthant(threshold, 2 * std**2 / (1 + 2 * std**2))
        return 2 * ndtr(threshold), 4 * covariance, 4 * both
    if isinstance(activation, Exponential):
        square = np.exp(2 * mean + std**2)
        return np.exp(mean + std**2 / 2), square * np.expm1(std**2), square * np.exp(std**2)
    if std == 0:
        value = np.exp(activation.log_kernel(np.float64(mean)))
        return value, 0.0, value**2
    if isinstance(activation, _Relu):
        rule = _score_rule(activation, mean, std)
    else:
        rule = adapted_rule(lambda z: z + activation.log_kernel(mean + std * z), -TAIL, _UP)
    law = rule.w * normal_density(rule.x)
    phi = np.exp(activation.log_kernel(mean + std * rule.x))
    first = law @ phi
    variance = law @ (phi - first) ** 2
    return first, variance, first**2 + variance


@lru_cache(maxsize=64)
def _selected_law(task: MaxSLR, fineness: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Nodes x that resolve a scale 1/fineness, their weights under the standard normal law, and
    the density there of the law of chi*_eps relative to it."""
    count = float(task.length.max)
    finite = not math.isinf(task.nu)
    scale = fineness + (task.nu if finite else math.sqrt(2 * math.log(count)))
    halves = [adapted_rule(lambda x: scale * x, *ends) for ends in ((-TAIL, 0.0), (0.0, TAIL))]
    rule = Nodes(*(np.concatenate(columns) for columns in zip(*halves)))
    if finite:
        times = _log_time(Softmax(), -TAIL * task.nu, TAIL * task.nu, task.nu, count)
        token = _score_transforms(Softmax(), 0.0, task.nu, TAIL, times, math.log(count))
        others = times.weights * task.length.expect(lambda n: n * _raise(token.log_m, n - 1))
        tilt = np.zeros_like(rule.x)
        for start in range(0, len(rule.x), 2**12):
            part = slice(start, start + 2**12)
            g = np.exp(np.minimum(times.values[:, None] + task.nu * rule.x[part], 7.0))
            tilt[part] = others @ (g * np.exp(-g))
    else:
        log_below = log_survival(ndtr(rule.x), ndtr(-rule.x))
        tilt = task.length.expect(lambda n: n * _raise(log_below, n - 1))
    return rule.x, rule.w * normal_density(rule.x), tilt


def _elementwise_moments(task: Task, activation: Activation | _Relu, m: float,
                         spread: float) -> Moments:
    std = math.hypot(m, spread)
    with np.errstate(over="ignore", invalid="ignore"):  # the caller looks at the power
        _, _, noise_power = _score_moments(activation, 0.0, std)
        if isinstance(task, SpikedSLR):
            signal, variance, power = _score_moments(activation, m * math.sqrt(task.nu), std)
            others = (task.length.mean - 1) * noise_power
            return Moments(float(signal), float(power + others), float(variance + others))
        steepness = abs(m) * _power(activation)
        x, base, tilt = _selected_law(task, 2.0 ** math.ceil(math.log2(max(steepness, 1.0))))
        signal = float((base * tilt) @ _score_mean(activation, m * x, spread))
        power = float(task.length.mean * noise_power)
        return Moments(signal, power, power - signal * signal)


# Minimisation over the key scale and the offset.


def _best_linear(task: Task) -> tuple[float, None, Moments]:
    """A = 1 + a C is linear in the scale a, and B quadratic, with C = E chi*_eps."""
    if isinstance(task, SpikedSLR):
        scale = math.sqrt(task.nu) * (task.length.mean - 1) / task.length.mean
    else:
        x, base, tilt = _selected_law(task, 1.0)
        scale = float((base * tilt) @ x)
    return scale, None, _elementwise_moments(task, Linear(), scale, 0.0)


def _loss(moments: Moments) -> float:
    """The noiseless risk; that of the null predictor where the weights under- or overflow."""
    return moments.deficit / moments.power if 1e-290 < moments.power < math.inf else 1.0


def _best_scale(task: Task, activation: Activation) -> tuple[float, Moments]:
    """Best scale in [0, inf] at a fixed offset: a grid, a polish around its best point, the ends."""

    def loss(log_scale: float) -> float:
        return _loss(_moments(task, activation, math.exp(log_scale), 0.0))

    # normalised weights are not sharper than softmax's at p times the scale: start near c_nu
    low = 0.1 * min(1.0, task.key_scale) if activation.normalised else 0.01
    grid = _log_scales(task, low, per_decade=3) - math.log(max(1.0, _power(activation)))
    values = [loss(point) for point in grid]
    best = int(np.argmin(values))
    ends = [(scale, _moments(task, activation, scale, 0.0))
            for scale in (0.0, math.exp(grid[best]))]
    if not isinstance(activation, Exponential):
        ends.append((math.inf, _infinite_scale_moments(task, activation)))
    if best < len(grid) - 1 or _loss(ends[-1][1]) > values[best]:
        # the risk is flat at its minimum: 3e-5 in the scale is 1e-9 in the risk
        around = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
        scale = math.exp(minimize_scalar(loss, bounds=around, method="bounded",
                                         options={"xatol": 3e-5}).x)
        ends.append((scale, _moments(task, activation, scale, 0.0)))
    return min(ends, key=lambda end: _loss(end[1]))


def _log_scales(task: Task, low: float, per_decade: int) -> np.ndarray:
    """Logarithms of the key scales to look at: to 100, and well past the posterior's."""
    past = 30 * task.key_scale if isinstance(task, SpikedSLR) else 3 * task.key_scale
    top = max(100.0, past if math.isfinite(past) else 0.0)
    return np.linspace(math.log(low), math.log(top), math.ceil(per_decade * math.log10(top / low)))


def _infinite_scale_moments(task: Task, activation: Softplus | Sigmoid | Erf) -> Moments:
    """The limit of the moments as the key scale grows, at a fixed offset."""
    kernel = _Relu(activation.power if isinstance(activation, Softplus) else 0.0)
    if not activation.normalised:
        height = 2.0 if isinstance(activation, Erf) else 1.0
        signal, power, deficit = _elementwise_moments(task, kernel, 1.0, 0.0)
        return Moments(height * signal, height**2 * power, height**2 * deficit)
    if isinstance(task, SpikedSLR):
        return _spiked_moments(task, kernel, math.sqrt(task.nu), 1.0)
    return _max_moments(task, kernel, 1.0, 0.0)


def _best_offset(task: Task, activation: Sigmoid | Erf) -> tuple[float, float, Moments]:
    """Best scale and offset of elementwise weights: the best points of a grid, each polished."""
    if isinstance(activation, Sigmoid) and isinstance(task, SpikedSLR):  # it is the posterior
        offset = -task.nu / 2 - math.log(task.length.mean - 1)
        at = replace(activation, offset=offset)
        return task.key_scale, offset, _elementwise_moments(task, at, task.key_scale, 0.0)

    def moments(point: np.ndarray) -> Moments:
        at = replace(activation, offset=float(point[1]))
        return _elementwise_moments(task, at, math.exp(point[0]), 0.0)

    corners = [(log_scale, -threshold * (1 + math.exp(log_scale)))
               for log_scale in _log_scales(task, 0.01, per_decade=5)
               for threshold in np.linspace(-4.0, 8.0, 25)]
    starts = sorted(corners, key=lambda point: _loss(moments(point)))[:3]
    runs = [minimize(lambda point: _loss(moments(point)), start, method="Nelder-Mead",
                     options={"xatol": 1e-8, "fatol": 1e-15, "maxiter": 2000}) for start in starts]
    best = min(runs, key=lambda run: run.fun).x
    return math.exp(best[0]), float(best[1]), moments(best)
