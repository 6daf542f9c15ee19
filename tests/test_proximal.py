"""The proximal step: kernels, minimisers, the global minimum."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from slrbook.activations import Erf, Exponential, Linear, Sigmoid, Softmax, Softplus
from slrbook.proximal import _kernel, encode, proximal_points

ACTIVATIONS = [Softmax(), Linear(), Erf(offset=-0.5), Erf(offset=1.0), Softplus(),
               Softplus(offset=-2.0), Softplus(power=2.5),
               Softplus(offset=-0.5, power=2.0, normalised=False), Sigmoid(offset=-1.0),
               Sigmoid(offset=0.5, normalised=True), Exponential()]
IDS = [repr(activation) for activation in ACTIVATIONS]


def draws(n, length, m_k, rng, scale=1.0):
    chi = rng.standard_normal((n, length))
    chi[:, 0] += math.sqrt(2)
    z = rng.standard_normal((n, length))
    omega = m_k * chi + 0.5 * rng.standard_normal((n, length))
    w = scale * (0.8 * z + 0.4 * rng.standard_normal((n, length)))
    return omega, w, z[:, 0] + 0.3 * rng.standard_normal(n)


def objective(activation, omega, w, y, v_k, v_v, chi):
    """The expression that the proximal step minimises, written with the public activation."""
    sigma = activation(chi)
    residual = (y - (sigma * w).sum(axis=-1)) ** 2 / (1 + v_v * (sigma**2).sum(axis=-1))
    return ((chi - omega) ** 2).sum(axis=-1) / (2 * v_k) + residual / 2


def slopes(activation, omega, w, y, v_k, v_v, chi):
    """Its gradient, through the public vector-Jacobian product."""
    sigma = activation(chi)
    d = 1 + v_v * (sigma**2).sum(axis=-1, keepdims=True)
    t = (y[..., None] - (sigma * w).sum(axis=-1, keepdims=True)) / d
    return (chi - omega) / v_k - activation.vjp(chi, t * w + t**2 * v_v * sigma)


def lowest(activation, omega, w, y, v_k, v_v, *, start=None, search=True, gain=0.0):
    """The objectives and the minimisers that the compiled step finds."""
    shift = np.zeros_like(omega) if start is None else start - omega
    value = proximal_points(encode(activation), omega, w, y, v_k, v_v, shift, search, gain)
    return value, omega + shift


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=IDS)
def test_compiled_kernel_is_the_activation(activation):
    kernel = encode(activation)
    if activation.normalised:
        value, slope = activation.log_kernel, activation.log_kernel_slope
    else:  # every score alone: the weights are the kernel, and their Jacobian is diagonal
        value, slope = activation, lambda chi: activation.vjp(chi, np.ones_like(chi))
    grid = np.concatenate([np.linspace(-60, 60, 241), np.linspace(-4, 4, 81)])
    compiled = np.array([_kernel(kernel, x) for x in grid])
    np.testing.assert_allclose(compiled[:, 0], value(grid), rtol=1e-13, atol=1e-300)
    np.testing.assert_allclose(compiled[:, 1], slope(grid), rtol=1e-12, atol=1e-300)
    step = 1e-5
    bend = [(_kernel(kernel, x + step)[1] - _kernel(kernel, x - step)[1]) / (2 * step)
            for x in grid]
    np.testing.assert_allclose(compiled[:, 2], bend, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("v_k, v_v", [(0.01, 0.0), (0.3, 0.1), (1.0, 0.5), (20.0, 5.0)])
@pytest.mark.parametrize("length", [1, 2, 7])
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=IDS)
def test_minimisers_are_stationary(activation, length, v_k, v_v):
    rng = np.random.default_rng(0)
    omega, w, y = draws(500, length, 0.8, rng)
    value, chi = lowest(activation, omega, w, y, v_k, v_v)
    np.testing.assert_allclose(value, objective(activation, omega, w, y, v_k, v_v, chi),
                               rtol=1e-9, atol=1e-12)
    gradient = slopes(activation, omega, w, y, v_k, v_v, chi)
    assert np.abs(gradient).max() * math.sqrt(v_k) < 1e-6


@pytest.mark.parametrize("v_k, v_v", [(0.3, 0.1), (2.0, 0.5), (20.0, 5.0)])
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=IDS)
def test_the_minimum_is_global(activation, v_k, v_v):
    """Against scipy's minimiser from many random starts."""
    rng = np.random.default_rng(1)
    omega, w, y = draws(20, 3, 0.8, rng)
    value, chi = lowest(activation, omega, w, y, v_k, v_v)
    for i in range(len(y)):
        arguments = omega[i], w[i], y[i], v_k, v_v
        reach = math.sqrt(2 * v_k * objective(activation, *arguments, omega[i]))
        starts = omega[i] + reach * rng.uniform(-1, 1, (12, 3))
        brute = min(minimize(lambda x: objective(activation, *arguments, x),
                             start, jac=lambda x: slopes(activation, *arguments, x),
                             method="BFGS").fun for start in starts)
        assert value[i] <= brute + 1e-8


def test_no_lower_minimum_from_many_more_starts():
    """Where the problem is least convex: a large variance, ten tokens."""
    rng = np.random.default_rng(2)
    omega, w, y = draws(1000, 10, 0.3, rng)
    value, _ = lowest(Softmax(), omega, w, y, 20.0, 5.0)
    one_start, _ = lowest(Softmax(), omega, w, y, 20.0, 5.0, search=False)
    assert np.mean(one_start > value + 1e-6) > 0.05  # several starts are needed here
    for _ in range(20):
        direction = rng.standard_normal(omega.shape) * (rng.random(omega.shape) < 0.4)
        start = omega + np.sqrt(40 * value)[:, None] * direction
        other, _ = lowest(Softmax(), omega, w, y, 20.0, 5.0, start=start, search=False)
        assert np.all(value <= other + 1e-6)


def test_linear_attention_against_its_dual():
    r"""For linear attention the minimum is the maximum of a concave function of t = e/d.

    At given t the scores are (omega + V_k t w + V_k V_v t^2) / (1 - V_k V_v t^2), and
    t is the root of e - t d, which falls on the interval |t| < 1/sqrt(V_k V_v).
    """
    rng = np.random.default_rng(3)
    v_k, v_v = 0.8, 0.3
    omega, w, y = draws(2000, 3, 0.8, rng, scale=0.6)
    value, chi = lowest(Linear(), omega, w, y, v_k, v_v)
    high = np.full(len(y), 1 / math.sqrt(v_k * v_v))
    low = -high
    for _ in range(100):
        t = (low + high) / 2
        u = (v_k * v_v * t**2)[:, None]
        scores = (omega + v_k * t[:, None] * w + u) / (1 - u)
        sigma = 1 + scores
        error = y - (sigma * w).sum(axis=1)
        rises = error > t * (1 + v_v * (sigma**2).sum(axis=1))
        low, high = np.where(rises, t, low), np.where(rises, high, t)
    np.testing.assert_allclose(chi, scores, atol=1e-7)
    np.testing.assert_allclose(value, objective(Linear(), omega, w, y, v_k, v_v, scores),
                               atol=1e-10)


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=IDS)
def test_permuted_tokens_permute_the_minimiser(activation):
    rng = np.random.default_rng(4)
    omega, w, y = draws(200, 5, 0.8, rng)
    order = rng.permutation(5)
    _, chi = lowest(activation, omega, w, y, 2.0, 0.5)
    _, permuted = lowest(activation, omega[:, order].copy(), w[:, order].copy(), y, 2.0, 0.5)
    np.testing.assert_allclose(permuted, chi[:, order], atol=1e-6)


def test_a_small_gain_keeps_the_minimum_at_hand():
    rng = np.random.default_rng(5)
    omega, w, y = draws(2000, 3, 0.3, rng)
    near, _ = lowest(Softmax(), omega, w, y, 20.0, 5.0, gain=1e-2)
    best, _ = lowest(Softmax(), omega, w, y, 20.0, 5.0)
    assert np.all(best <= near + 1e-9) and np.all(near <= best + 1e-2)
    assert np.any(near > best + 1e-6)
