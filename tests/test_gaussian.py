"""Quadrature rules, orthants, Laplace factors and Sobol normals against exact values."""

import math

import mpmath
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from slrbook import Softplus, gaussian


def test_running_integral_of_a_gaussian():
    rule = gaussian.panels(np.linspace(-12, 12, 25))
    cdf = gaussian.running_integral(rule, gaussian.normal_density(rule.x))
    from scipy.special import ndtr
    assert cdf == pytest.approx(ndtr(rule.x), abs=2e-15)
    stacked = gaussian.running_integral(rule, np.stack([rule.x, rule.x**2]))
    assert stacked[1] == pytest.approx((rule.x**3 + 12**3) / 3, rel=1e-12)


def test_adapted_rule_follows_the_resolution():
    rule = gaussian.adapted_rule(lambda x: x + 50 * np.tanh(20 * x), -3.0, 3.0)
    assert rule.w.sum() == pytest.approx(6.0)
    assert (abs(rule.x) < 0.1).mean() > 0.7
    assert rule.w @ np.exp(-np.square(50 * rule.x)) == pytest.approx(math.sqrt(math.pi) / 50)


@pytest.mark.parametrize("h, rho", [(0.0, 0.5), (-8.0, 0.9), (3.0, 0.1), (-3.0, 0.9999), (1.0, 0.0),
                                    (-30.0, 0.99), (0.3, 1.0)])
def test_orthant(h, rho):
    covariance, both = gaussian.orthant(h, rho)
    if rho == 1.0:
        exact = mpmath.ncdf(h)
    else:
        with mpmath.workdps(30):
            s = mpmath.sqrt(1 - mpmath.mpf(rho) ** 2)
            cuts = [h - mpmath.mpf(k) for k in (40, 20, 10, 5, 2, 1)] + [mpmath.mpf(h)]
            cuts[-1:-1] = [h - mpmath.mpf(k) / 10 for k in (5, 2, 1)]
            exact = mpmath.quad(lambda x: mpmath.npdf(x) * mpmath.ncdf((h - rho * x) / s), cuts)
    assert float(both) == pytest.approx(float(exact), rel=1e-9)
    assert 0 <= covariance <= both
    if abs(h) < 5 and rho < 1:
        scipy_value = multivariate_normal.cdf([h, h], cov=[[1, rho], [rho, 1]])
        assert float(both) == pytest.approx(scipy_value, rel=1e-4)


@pytest.mark.parametrize("mean, std", [(0.0, 1.0), (3.0, 1.5), (0.0, 20.0), (40.0, 6.0)])
def test_both_routes_to_the_exponential_kernel(mean, std):
    """By parts against plain panels: different integrals, equal factors."""
    grid = gaussian.even_log_time(-12 * std, mean + 12 * std, 10.0, std / 3)
    by_parts = gaussian.exponential_transforms(mean, std, grid, 5.0)
    rule = gaussian.adapted_rule(lambda z: (1 + std) * z, -14.0, 14.0)
    plain = gaussian.kernel_transforms(mean + std * rule.x,
                                       rule.w * gaussian.normal_density(rule.x), grid)
    seen = plain.log_m > -30
    assert by_parts.log_m[seen] == pytest.approx(plain.log_m[seen], rel=1e-10, abs=1e-18)
    assert by_parts.k[seen] == pytest.approx(plain.k[seen], rel=1e-9, abs=1e-18)
    assert by_parts.j[seen] == pytest.approx(plain.j[seen], rel=1e-9, abs=1e-18)


def test_wide_strides_equal_narrow_ones():
    """Where the windows of neighbouring nodes no longer overlap another branch is taken."""
    std = 5000.0
    wide = gaussian.even_log_time(-10 * std, 10 * std, 2.0, std)
    assert wide.stride > 200
    factors = gaussian.exponential_transforms(0.0, std, wide, 1.0)
    for index in (10, len(wide.values) // 2):
        one = gaussian.LogTime(wide.values[index:index + 1], wide.weights[:1], 1)
        single = gaussian.exponential_transforms(0.0, std, one, 1.0)
        assert [f[index] for f in factors] == pytest.approx([f[0] for f in single], rel=1e-12)


def test_inverse_of_a_sum_by_laplace():
    """1/S and 1/S^2 for fixed kernels of very different size."""
    values = np.array([0.3, 2.0, 1e-9, 700.0])
    grid = gaussian.even_log_time(math.log(values.min()), math.log(values.max()), 4.0)
    t, total = np.exp(grid.values), values.sum()
    decay = t * np.exp(-t * total)
    assert decay @ grid.weights == pytest.approx(1 / total, rel=1e-12)
    assert (t * decay) @ grid.weights == pytest.approx(1 / total**2, rel=1e-12)


def test_adapted_log_time_equals_the_even_one():
    kernel = Softplus()
    std = 30.0
    scores = np.linspace(-12 * std, 12 * std, 1001)
    log_kernel = kernel.log_kernel(scores)
    adapted = gaussian.adapted_log_time(log_kernel, kernel.log_kernel_slope(scores), 2.0, std / 2.3)
    even = gaussian.even_log_time(log_kernel[0], log_kernel[-1], 2.0)
    rule = gaussian.adapted_rule(lambda z: 2 * std * z, -12.0, 12.0)
    for grid in (adapted, even):
        factors = gaussian.kernel_transforms(kernel.log_kernel(std * rule.x),
                                             rule.w * gaussian.normal_density(rule.x), grid)
        share = grid.weights @ (factors.k * np.exp(factors.log_m))
        assert share == pytest.approx(0.5, rel=1e-12)  # the mean share of one of two tokens
    assert len(adapted.values) < len(even.values) / 2


def test_sobol_normals():
    one, again = (gaussian.sobol_normals(2**12, 6, seed=4) for _ in range(2))
    other = gaussian.sobol_normals(2**12, 6, seed=5)
    assert (one == again).all() and not (one == other).any() and np.isfinite(one).all()
    # far better than the 1/64 of independent points
    assert abs(one.mean(axis=0)).max() < 1e-3 and abs(one.var(axis=0) - 1).max() < 5e-3
    assert abs(np.corrcoef(one.T) - np.eye(6)).max() < 0.02
