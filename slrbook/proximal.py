r"""The proximal step of the finite-sample theory: one small non-convex minimum per draw.

.. math:: \hat\chi = \arg\min_{\chi \in R^L}\ \frac{|\chi - \omega|^2}{2 V_k}
          + \frac{(y - \sigma(\chi) \cdot w)^2}{2\,(1 + V_v |\sigma(\chi)|^2)} .

The Hessian of the second term is a diagonal plus a few outer products, whatever L is: one for an
elementwise activation, three for a normalised one. So a Newton step costs O(L) by Woodbury's
identity. With :math:`e = y - \sigma \cdot w`, :math:`d = 1 + V_v |\sigma|^2`, :math:`t = e/d`,
:math:`c = t w + t^2 V_v \sigma` and :math:`S` the Jacobian of :math:`\sigma`,

.. math:: \nabla = \frac{\chi - \omega}{V_k} - S^T c, \qquad
          \nabla^2 = \frac{I}{V_k} - \sum_\ell c_\ell \nabla^2 \sigma_\ell - t^2 V_v S^T S
          + \frac1d v v^T, \qquad v = S^T (w + 2 t V_v \sigma).

Everything here is compiled by numba, once for all activations, and kept on disk.
"""

from __future__ import annotations

import math

from numba import njit, prange
import numpy as np

from . import _checks
from .activations import (Activation, Erf, Exponential, Linear, Sigmoid, Softmax, Softplus,
                          fixed_offset)

#: Codes of the kernels.
EXPONENTIAL, LINEAR, ERF, SOFTPLUS, SIGMOID = range(5)
_CODES = {Softmax: EXPONENTIAL, Exponential: EXPONENTIAL, Linear: LINEAR, Erf: ERF,
          Softplus: SOFTPLUS, Sigmoid: SIGMOID}

#: A step below this many times sqrt(V_k) ends a descent; the one before it was quadratic in size.
_STEP = 1e-7
_MAX_STEPS = 200
#: Scores that can move by less have one minimum: the nearest second one ever found was at 1.25.
_NEAR = 0.75
#: Draws are summed in this many parts, so that the result does not depend on the threads.
_PARTS = 64
_TWO_OVER_SQRT_PI = 2 / math.sqrt(math.pi)


def encode(activation: Activation) -> tuple[int, bool, float, float]:
    """Return code, whether weights are normalised, offset and power (0 and 1 if there is none)."""
    offset = fixed_offset(activation) if hasattr(activation, "offset") else 0.0
    return (_CODES[type(activation)], activation.normalised, offset,
            getattr(activation, "power", 1.0))


@njit(cache=True)
def _kernel(kernel, chi):
    """log phi (normalised activations) or phi (elementwise ones), with two derivatives."""
    code, normalised, offset, power = kernel
    x = chi + offset
    if code == LINEAR:
        return 1.0 + x, 1.0, 0.0
    if code == ERF:
        slope = _TWO_OVER_SQRT_PI * math.exp(-x * x)
        return math.erfc(-x), slope, -2 * x * slope
    if code == EXPONENTIAL:
        value, slope, bend = x, 1.0, 0.0
    elif code == SIGMOID:
        small = math.exp(-abs(x))
        value = min(x, 0.0) - math.log1p(small)
        slope = (small if x > 0 else 1.0) / (1 + small)
        bend = -small / (1 + small) ** 2
    elif x < -30:
        value, slope, bend = power * x, power, 0.0
    else:
        softplus = math.log1p(math.exp(-abs(x))) + max(x, 0.0)
        logistic = 1 / (1 + math.exp(-x))
        ratio = logistic / softplus
        value, slope, bend = (power * math.log(softplus), power * ratio,
                              power * ratio * (1 - logistic - ratio))
    if normalised:
        return value, slope, bend
    value = math.exp(value)
    return value, value * slope, value * (bend + slope * slope)


@njit(cache=True)
def _objective(kernel, omega, w, y, v_k, v_v, shift, sigma, slope, bend):
    """The objective, e, d and |sigma|^2 at omega + shift; fills sigma and kernel derivatives."""
    top = -np.inf
    distance = 0.0
    for l in range(len(shift)):
        sigma[l], slope[l], bend[l] = _kernel(kernel, omega[l] + shift[l])
        top = max(top, sigma[l])
        distance += shift[l] ** 2
    if kernel[1]:  # normalised
        total = 0.0
        for l in range(len(shift)):
            sigma[l] = math.exp(sigma[l] - top)
            total += sigma[l]
        for l in range(len(shift)):
            sigma[l] /= total
    error, square = y, 0.0
    for l in range(len(shift)):
        error -= sigma[l] * w[l]
        square += sigma[l] * sigma[l]
    d = 1 + v_v * square
    return distance / (2 * v_k) + error * error / (2 * d), error, d, square


@njit(cache=True)
def _descend(kernel, omega, w, y, v_k, v_v, shift, work):
    """Move shift to a local minimum; return the objective there (before the last, tiny step)."""
    length, normalised = len(shift), kernel[1]
    trial, sigma, slope, bend = work[0], work[1], work[2], work[3]
    gradient, diagonal, v, h, k = work[4], work[5], work[6], work[7], work[8]
    value, error, d, square = _objective(kernel, omega, w, y, v_k, v_v, shift, sigma, slope, bend)
    if not math.isfinite(value):  # weights that grow with the scores can overflow
        return np.inf
    damping = 0.0
    moved = True
    for _ in range(_MAX_STEPS):
        if moved:
            t = error / d
            u = t * t * v_v
            mean_c, mean_v = 0.0, 0.0
            if normalised:
                for l in range(length):
                    mean_c += sigma[l] * (t * w[l] + u * sigma[l])
                    mean_v += sigma[l] * (w[l] + 2 * t * v_v * sigma[l])
            for l in range(length):
                c = t * w[l] + u * sigma[l] - mean_c
                v[l] = w[l] + 2 * t * v_v * sigma[l] - mean_v
                if normalised:
                    h[l] = slope[l] * sigma[l]
                    pull = h[l] * c
                    v[l] *= h[l]
                    k[l] = pull + u * h[l] * (sigma[l] - square / 2)
                    curved = sigma[l] * (bend[l] + slope[l] * slope[l]) * c + u * h[l] * h[l]
                else:
                    pull = slope[l] * c
                    v[l] *= slope[l]
                    curved = bend[l] * c + u * slope[l] * slope[l]
                gradient[l] = shift[l] / v_k - pull
                diagonal[l] = 1 / v_k - curved
        # Hessian + damping = diagonal + v v^T / d + h k^T + k h^T, by Woodbury
        vv, vh, vk, hh, hk, kk, vg, hg, kg = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        sign = 1.0
        for l in range(length):
            inverse = diagonal[l] + damping
            if inverse == 0.0:
                inverse = 1e-12 / v_k
            inverse = 1 / inverse
            if inverse < 0:
                sign = -sign
            vv += v[l] * v[l] * inverse
            vg += v[l] * gradient[l] * inverse
            if normalised:
                vh += v[l] * h[l] * inverse
                vk += v[l] * k[l] * inverse
                hh += h[l] * h[l] * inverse
                hk += h[l] * k[l] * inverse
                kk += k[l] * k[l] * inverse
                hg += h[l] * gradient[l] * inverse
                kg += k[l] * gradient[l] * inverse
        along_h, along_k = 0.0, 0.0
        if normalised:
            one = 1 + hk
            det = (d + vv) * (one * one - kk * hh) - vh * (vk * one - kk * vh) \
                + vk * (vk * hh - one * vh)
            along_v = (-vg * (one * one - kk * hh) + kg * (vh * one - vk * hh)
                       - hg * (vh * kk - vk * one)) / det
            along_h = (vg * (vk * one - kk * vh) - kg * ((d + vv) * one - vk * vh)
                       + hg * ((d + vv) * kk - vk * vk)) / det
            along_k = (-vg * (vk * hh - one * vh) + kg * ((d + vv) * hh - vh * vh)
                       - hg * ((d + vv) * one - vh * vk)) / det
        else:
            det = d + vv
            along_v = -vg / det
        size, descent = 0.0, 0.0
        for l in range(length):
            step = gradient[l] + v[l] * along_v
            if normalised:
                step += h[l] * along_h + k[l] * along_k
            inverse = diagonal[l] + damping
            if inverse == 0.0:
                inverse = 1e-12 / v_k
            step = -step / inverse
            trial[l] = shift[l] + step
            size += step * step
            descent += step * gradient[l]
        moved = False
        if det * sign > 0 and descent <= 0:  # else the Hessian has a negative eigenvalue
            small = size <= _STEP * _STEP * v_k
            if small and damping * v_k < 1:
                shift[:] = trial
                break
            trial_value, trial_error, trial_d, trial_square = _objective(
                kernel, omega, w, y, v_k, v_v, trial, sigma, slope, bend)
            moved = trial_value <= value + 1e-14 * (1 + value)
        if moved:
            value, error, d, square = trial_value, trial_error, trial_d, trial_square
            shift[:] = trial
            damping = damping / 4 if damping * v_k > 1e-3 else 0.0
        else:
            damping = max(4 * damping, 0.5 / v_k)
            if damping * v_k > 1e14:  # only rounding is left
                break
    return value


@njit(cache=True)
def _proximal(kernel, omega, w, y, v_k, v_v, shift, search, gain, work):
    """Move shift to the global minimum, as far as the starts reach; return the objective.

    The minimum that the descent from shift reaches is left only for one lower by ``gain``.
    """
    best = _descend(kernel, omega, w, y, v_k, v_v, shift, work)
    if not search:
        return best
    start = work[9]
    for candidate in range(2 * len(shift) + 1):
        reach = math.sqrt(2 * v_k * best)  # a lower minimum is nearer to omega than this
        if reach < _NEAR:
            break
        start[:] = 0.0
        if candidate > 0:
            start[(candidate - 1) // 2] = reach * (0.7 if candidate % 2 else -0.7)
        value = _descend(kernel, omega, w, y, v_k, v_v, start, work)
        if value < best - gain:
            best = value
            shift[:] = start
    return best


@njit(cache=True, parallel=True)
def proximal_points(kernel, omega, w, y, v_k, v_v, shift, search, gain):
    r"""Move every row of shift to the minimum of its draw; return the objectives.

    The unknown is the shift :math:`\hat\chi - \omega`, so that :math:`f_k`, its ratio to
    :math:`V_k`, keeps its digits where the scores barely move.

    Parameters
    ----------
    kernel : tuple
        From ``encode``.
    omega, w : (n, L) arrays
        Centres of the scores, and value projections.
    y : (n,) array
        Labels.
    v_k, v_v : float
        The variances :math:`V_k > 0` and :math:`V_v \ge 0`.
    shift : (n, L) array
        Where each descent starts; overwritten with :math:`\hat\chi - \omega`.
    search : bool
        Whether to look for lower minima from 2L + 1 more starts: omega, and omega with one score
        raised or lowered by 0.7 times the distance beyond which no lower value is possible.
    gain : float
        A second minimum is taken only if it is lower by more than this.

    Returns
    -------
    (n,) array

    Examples
    --------
    >>> omega, w = np.zeros((1, 2)), np.array([[2.0, 0.0]])
    >>> kernel, shift = encode(Softmax()), np.zeros((1, 2))
    >>> value = proximal_points(kernel, omega, w, np.ones(1), 1.0, 0.0, shift, True, 0.0)
    >>> float(value[0]), shift.tolist()  # equal weights already predict y = 1
    (0.0, [[0.0, 0.0]])
    """
    n, length = omega.shape
    value = np.empty(n)
    for part in prange(_PARTS):
        work = np.empty((10, length))
        for i in range(part * n // _PARTS, (part + 1) * n // _PARTS):
            value[i] = _proximal(kernel, omega[i], w[i], y[i], v_k, v_v,
                                 shift[i], search, gain, work)
    return value


#: What ``proximal_sums`` adds up, in order.
SUMS = ("f_k f_k", "f_k t", "f_k b", "f_v f_v", "f_v0 y", "f_v0 b0", "f_v b", "M", "loss")


@njit(cache=True, parallel=True)
def proximal_sums(kernel, t, b, y, b_v, m_k, s_k, v_k, slope_v, s_0, s_v, v_v, shift, search,
                  gain):
    r"""Sums over the draws of what the equations need, all from one proximal step per draw.

    .. math:: \omega_\ell = m_k t_\ell + s_k b_\ell, \qquad
              w_0 = \mathrm{slope}_v\, y + s_0 b_{v,0}, \qquad w_\ell = s_v b_{v,\ell}.

    Token 0 is the relevant one. ``t`` has one row for all draws or one for each. ``shift`` starts
    the descents and is overwritten, as in ``proximal_points``.

    Returns
    -------
    (parts, 9) array
        Partial sums of the quantities named in ``SUMS``; the last but two sums over the tokens
        but the first, and the last is :math:`e^2/d^2`.
    """
    n, length = b.shape
    sums = np.zeros((_PARTS, 9))
    for part in prange(_PARTS):
        work = np.empty((10, length))
        omega, w = np.empty(length), np.empty(length)
        total = np.zeros(9)
        for i in range(part * n // _PARTS, (part + 1) * n // _PARTS):
            row = i if len(t) > 1 else 0
            for l in range(length):
                omega[l] = m_k * t[row, l] + s_k * b[i, l]
                w[l] = s_v * b_v[i, l]
            w[0] = slope_v * y[i] + s_0 * b_v[i, 0]
            _proximal(kernel, omega, w, y[i], v_k, v_v, shift[i], search, gain, work)
            value, error, d, _ = _objective(kernel, omega, w, y[i], v_k, v_v, shift[i], work[1],
                                            work[2], work[3])
            ratio = error / d
            for l in range(length):
                f_k = shift[i, l] / v_k
                f_v = work[1, l] * ratio
                total[0] += f_k * f_k
                total[1] += f_k * t[row, l]
                total[2] += f_k * b[i, l]
                total[3] += f_v * f_v
                if l == 0:
                    total[4] += f_v * y[i]
                    total[5] += f_v * b_v[i, l]
                else:
                    total[6] += f_v * b_v[i, l]
            total[7] += value
            total[8] += ratio * ratio
        sums[part] = total
    return sums
