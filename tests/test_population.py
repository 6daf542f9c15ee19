"""The population risk against independent integrals, limits, a grid, and simulation."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.optimize import brentq, minimize

from slrbook import (Erf, Exponential, Linear, MaxSLR, Sigmoid, Softmax, Softplus, SpikedSLR,
                     attention_moments, bayes_risk, elementwise_risk, overlap_risk,
                     population_risk, risk_at)

INF = math.inf
UNIFORM = {1: 1 / 3, 2: 1 / 3, 3: 1 / 3}


# An independent reference: the average over all tokens at once, by a tensor rule.

def tensor_moments(task, activation, m):
    """A, B and B - A^2 at q = m^2 by direct averages over L <= 3 standard normals."""
    average = np.zeros(4)
    for length, probability in zip(task.length.values, task.length.probabilities):
        x, w = np.polynomial.legendre.leggauss(140 if length == 3 else 400)
        spiked = isinstance(task, SpikedSLR)
        reach = 9.0 + (math.sqrt(task.nu) if spiked else 0.0)
        if isinstance(activation, Exponential):  # e^(2 m chi) moves a Gaussian by 2 m
            reach += 2 * m
        chi = np.stack(np.meshgrid(*[reach * x] * length, indexing="ij"), axis=-1)
        law = np.prod(np.meshgrid(*[reach * w] * length, indexing="ij"), axis=0)
        law = law / (2 * np.pi) ** (length / 2)
        if spiked:  # the relevant token is the first
            mean = np.zeros(length)
            mean[0] = math.sqrt(task.nu)
            law = law * np.exp(-np.square(chi - mean).sum(axis=-1) / 2)
            posterior = np.broadcast_to(np.eye(length)[0], chi.shape)
        else:
            law = law * np.exp(-np.square(chi).sum(axis=-1) / 2)
            posterior = task.location_posterior(chi)
        weights = activation(m * chi)
        if activation.normalised:
            missed = (posterior * (1 - weights)).sum(axis=-1)
            rest = (posterior * ((1 - weights) ** 2 - weights**2)).sum(axis=-1)
            rest = rest + np.square(weights).sum(axis=-1)
        else:
            missed = 1 - (posterior * weights).sum(axis=-1)
            rest = 2 * missed - 1 + np.square(weights).sum(axis=-1)
        signal = (posterior * weights).sum(axis=-1)
        values = (signal, np.square(weights).sum(axis=-1), missed, rest)
        average += probability * np.array([np.sum(law * value) for value in values])
    signal, power, missed, rest = average
    return signal, power, rest - missed**2


SMOOTH = [  # (task, key scale): the tensor rule needs a smooth integrand and L <= 3
    (SpikedSLR(1.0, 3), 1.0), (SpikedSLR(2.0, 3), 1.2), (SpikedSLR(5.0, 2), 3.0),
    (SpikedSLR(5.0, UNIFORM), 1.5), (SpikedSLR(0.0, 2), 1.0), (SpikedSLR(3.0, 1), 1.0),
    (SpikedSLR(9.0, 2), 0.3), (SpikedSLR(2.0, {1: 0.2, 3: 0.8}), 1.0),
    (MaxSLR(1.0, 3), 1.0), (MaxSLR(3.0, 2), 3.0), (MaxSLR(2.0, UNIFORM), 1.2),
    (MaxSLR(0.5, 3), 1.4), (MaxSLR(0.0, 2), 1.0), (MaxSLR(2.0, 1), 1.0),
]


@pytest.mark.parametrize("activation", [
    Softmax(), Linear(), Erf(-0.7), Softplus(), Softplus(-2.0), Softplus(-1.0, power=2.5),
    Softplus(power=0.5, normalised=False), Softplus(-1.0, 2.0, False), Exponential(),
    Sigmoid(-0.7), Sigmoid(0.4, normalised=True)])
@pytest.mark.parametrize("task, scale", SMOOTH)
def test_moments_equal_direct_integrals(task, scale, activation):
    signal, power, deficit = attention_moments(task, activation, scale)
    reference = tensor_moments(task, activation, scale)
    assert signal == pytest.approx(reference[0], rel=1e-9)
    assert power == pytest.approx(reference[1], rel=1e-9)
    assert deficit == pytest.approx(reference[2], rel=1e-8, abs=1e-14)
    assert risk_at(task, activation, scale) == pytest.approx(reference[2] / reference[1],
                                                             rel=1e-8, abs=1e-14)


@pytest.mark.parametrize("nu, scale", [(1, 1.0), (5, 5**0.5), (10, 1.0), (20, 6.0), (40, 40**0.5),
                                       (40, 2.0), (100, 10.0), (400, 20.0), (400, 2.0), (0.01, 0.1), (2, 30.0)])
def test_spiked_softmax_of_two_tokens_in_high_precision(nu, scale):
    """At L = 2 the weight is a logistic function of the difference of the scores, a 1-d integral."""
    with mpmath.workdps(40):
        mean, std = mpmath.mpf(scale) * mpmath.sqrt(nu), mpmath.mpf(scale) * mpmath.sqrt(2)

        def average(f):
            points = sorted({-mean / std - 12, -mean / std, mpmath.mpf(0), mpmath.mpf(12)})
            points = [points[0] - 14] + points + [points[-1] + 14]
            cuts = [a + (b - a) * k / 12 for a, b in zip(points, points[1:]) for k in range(12)]
            return mpmath.quad(lambda z: f(1 / (1 + mpmath.exp(mean + std * z))) * mpmath.npdf(z),
                               [*cuts, points[-1]])

        missed = average(lambda p: p)
        power = average(lambda p: p**2 + (1 - p) ** 2)
        deficit = average(lambda p: 2 * p**2) - missed**2
        reference = deficit / power
    task = SpikedSLR(nu, 2)
    assert risk_at(task, "softmax", scale) == pytest.approx(float(reference), rel=1e-10)


def laplace_reference(task, log_phi, scale):
    """Risk of a normalised kernel in the spiked task: plain equidistant sums in long doubles."""
    length, shift = np.longdouble(task.length.max), np.sqrt(np.longdouble(task.nu))
    # integers first: the step of a floating arange is off by enough to count 10**6 times
    x = np.arange(-1300, 1300 + int(100 * shift)) / np.longdouble(100)
    log_t = np.arange(-120 * 7, 25 * 7) / np.longdouble(7)
    e = np.exp(np.minimum(log_t[:, None] + log_phi(scale * x), 30))

    def moments(mean):
        law = np.exp(-np.square(x - mean) / 2)
        law /= law.sum()
        return ((e**power * np.exp(-e)) @ law for power in range(3))

    (m0, _, j0), (m1, k1, j1) = moments(np.longdouble(0)), moments(shift)
    signal = np.sum(k1 * m0 ** (length - 1)) / 7
    power = np.sum(j1 * m0 ** (length - 1) + (length - 1) * j0 * m1 * m0 ** (length - 2)) / 7
    return float(1 - signal**2 / power)


@pytest.mark.parametrize("activation, log_phi, task, scale", [
    (Softmax(), lambda x: x, SpikedSLR(20.0, 10**6), 20**0.5),
    (Softmax(), lambda x: x, SpikedSLR(4.0, 1000), 1.0),
    (Softmax(), lambda x: x, SpikedSLR(9.0, 50), 0.4),
    (Softplus(), lambda x: np.log(np.log1p(np.exp(x))), SpikedSLR(20.0, 10**6), 3.0),
    (Softplus(), lambda x: np.log(np.log1p(np.exp(x))), SpikedSLR(5.0, 100), 5.0),
    (Softplus(-4.0), lambda x: np.log(np.log1p(np.exp(x - 4))), SpikedSLR(9.0, 1000), 2.0),
])
def test_long_sequences_against_plain_sums(activation, log_phi, task, scale):
    reference = laplace_reference(task, log_phi, scale)
    assert risk_at(task, activation, scale) == pytest.approx(reference, rel=1e-9)


ERF_POINTS = [(0.5, 0.0), (1.0, -1.0), (0.9, -2.0), (2.0, -6.0), (0.1, 1.0), (4.0, -21.0),
              (1.7, -9.0), (30.0, -20.0), (0.01, -3.0), (1.0, 2.0)]


@pytest.mark.parametrize("scale, offset", ERF_POINTS)
@pytest.mark.parametrize("task", [SpikedSLR(5.0, 2), SpikedSLR(100.0, {2: 0.5, 10**6: 0.5}),
                                  MaxSLR(INF, 10)])
def test_erf_in_high_precision(task, scale, offset):
    length = task.length
    with mpmath.workdps(30):
        def phi(x):
            return mpmath.erfc(-(offset + scale * x))

        def average(f, mean=0.0):
            edge = -offset / scale  # where phi rises
            cuts = {mean + k for k in range(-12, 13)} | {edge + k / scale for k in (-4, -1, 0, 1, 4)}
            return mpmath.quad(lambda x: f(x) * mpmath.npdf(x, mean, 1),
                               sorted(c for c in cuts if -12 + mean <= c <= 12 + mean))

        noise = average(lambda x: phi(x) ** 2)
        if isinstance(task, SpikedSLR):
            shift = float(mpmath.sqrt(task.nu))
            signal, square = average(phi, shift), average(lambda x: phi(x) ** 2, shift)
            reference = (square - signal**2 + (length.mean - 1) * noise) / (
                square + (length.mean - 1) * noise)
        else:
            n = length.max
            signal = average(lambda x: n * mpmath.ncdf(x) ** (n - 1) * phi(x))
            reference = 1 - signal**2 / (n * noise)
    assert risk_at(task, Erf(offset), scale) == pytest.approx(float(reference), rel=1e-8)


@pytest.mark.parametrize("length", [1, 2, 3, 10, 1000, 10**6, UNIFORM, {5: 0.5, 50: 0.5}])
def test_linear_closed_forms(length):
    for nu in (0.0, 0.5, 5.0, 80.0):
        task = SpikedSLR(nu, length)
        mean = task.length.mean
        exact = 0.0 if mean == 1 else 1 / (mean / (mean - 1) + nu / mean)
        assert population_risk(task, "linear").risk == pytest.approx(exact, rel=1e-12)
    task = MaxSLR(INF, length)
    with mpmath.workdps(25):
        def mean_of_largest(n):
            return n * mpmath.quad(lambda x: x * mpmath.npdf(x) * mpmath.ncdf(x) ** (n - 1),
                                   list(range(-12, 13)))
        mean = sum(p * mean_of_largest(n)
                   for n, p in zip(task.length.values, task.length.probabilities))
        exact = 1 - (1 + mean**2) / task.length.mean
    assert population_risk(task, "linear").risk == pytest.approx(float(exact), rel=1e-9, abs=1e-14)


@pytest.mark.parametrize("nu, length, softmax, linear, erf, softplus", [
    (1, 3, 0.48112580, 0.54545455, None, None),
    (2, 3, 0.35242327, 0.46153846, 0.4446, 0.3698),
    (5, 2, 0.08439651, 0.22222222, 0.1891, 0.1118),
    (5, UNIFORM, 0.07654693, 0.22222222, 0.1891, 0.1030),
    (5, 10, 0.3598, 0.62069, 0.4576, 0.4914),
    (5, 100, 0.74532634, 0.94330634, None, None),
    (20, 1000, 0.17365149, 0.97943097, None, None),
    (20, 10**6, 0.77297078, 0.99997900, None, None),
    (40, 2, 6.01831e-6, None, None, None),
])
def test_published_values_of_the_spiked_task(nu, length, softmax, linear, erf, softplus):
    check_values(SpikedSLR(nu, length), softmax, linear, erf, softplus)


@pytest.mark.parametrize("nu, length, softmax, linear, erf, softplus", [
    (3, 2, 0.17347707, 0.3646, 0.3601, 0.1853),
    (3, UNIFORM, 0.1440, 0.4067, 0.4031, 0.157),
    (10, 10, 0.15248879, None, None, None),
    (INF, 2, 0.0, 0.34084506, 0.33333, 0.0484),
    (INF, UNIFORM, 0.0, 0.38948, None, None),
    (INF, 10, 0.0, 0.66322, 0.47383, 0.434),
])
def test_published_values_of_the_max_task(nu, length, softmax, linear, erf, softplus):
    check_values(MaxSLR(nu, length), softmax, linear, erf, softplus)


def check_values(task, *values):
    """Each value to the digits given."""
    for name, value in zip(("softmax", "linear", "erf", "softplus"), values):
        if value is not None:
            digits = len(f"{value:.12g}".split(".")[-1].split("e")[0])
            last = 10.0 ** -digits * (10.0 ** -6 if value < 1e-5 else 1.0)
            assert abs(population_risk(task, name).risk - value) <= 0.51 * last


def test_spiked_softmax_rate():
    """(L - 1) sqrt(pi / (4 nu)) e^{-nu/4} (1 + O(1/nu)): the ratio tends to 1 like 1/nu."""
    for length in (2, 5):
        gaps = []
        for nu in (100, 200, 400, 800):
            rate = (length - 1) * math.sqrt(math.pi / (4 * nu)) * math.exp(-nu / 4)
            gaps.append(nu * (bayes_risk(SpikedSLR(nu, length)) / rate - 1))
        assert abs(gaps[-1]) < 20 and gaps[-1] == pytest.approx(gaps[-2], rel=0.05)


def test_max_bayes_risk_at_large_nu():
    """1 - E sum p^2 tends to P(the two largest within O(1/nu)): a limit linear in 1/nu."""
    for length, density in ((2, 1 / math.sqrt(4 * math.pi)),):
        # p = logistic(nu d), d the difference of two normals, density at 0: 1/sqrt(4 pi)
        limit = 2 * density  # integral of 2 p (1 - p) over nu d
        for nu in (1e3, 1e5, 1e7):
            assert nu * bayes_risk(MaxSLR(nu, length)) == pytest.approx(limit, rel=10 / nu)


@pytest.mark.parametrize("task", [SpikedSLR(2.0, 3), SpikedSLR(5.0, 10), SpikedSLR(20.0, 10**6),
                                  SpikedSLR(8.0, 20), SpikedSLR(100.0, 3), SpikedSLR(0.3, UNIFORM),
                                  MaxSLR(INF, 2), MaxSLR(INF, 10), MaxSLR(3.0, UNIFORM)])
def test_minimum_is_below_a_fine_grid(task):
    """No starting point matters: nothing on a grid finer than the one searched is lower."""
    erf = population_risk(task, "erf").risk
    scales = np.geomspace(3e-3, 60, 37)
    for scale, edge in itertools.product(scales, np.linspace(-3, 9, 41)):
        assert risk_at(task, Erf(float(-edge * scale)), scale) >= erf * (1 - 1e-9)
    many = scales if isinstance(task, SpikedSLR) else scales[::6]
    for activation in (Linear(), Softmax(), Softplus(), Erf(-1.0), Softplus(power=3.0),
                       Softplus(-1.0, 2.0, False), Sigmoid(-2.0), Sigmoid(0.0, True)):
        best = population_risk(task, activation)
        assert min(risk_at(task, activation, scale) for scale in many) >= best.risk * (1 - 1e-9)
        if best.attained:
            assert risk_at(task, activation, best.key_scale) == pytest.approx(best.risk, rel=1e-9)


@pytest.mark.parametrize("task", [SpikedSLR(2.0, 3), MaxSLR(3.0, 2)])
def test_a_key_off_the_hidden_direction_only_hurts(task):
    for activation in (Softmax(), Linear(), Erf(-0.5), Softplus()):
        best = population_risk(task, activation).risk
        for m, spread in itertools.product((0.3, 1.0, 2.0), (0.3, 1.0)):
            moments = attention_moments(task, activation, m, m * m + spread**2)
            assert moments.deficit / moments.power > best


ELEMENTWISE_TASKS = [SpikedSLR(2.0, 3), SpikedSLR(20.0, 10**6), SpikedSLR(4.0, UNIFORM),
                     MaxSLR(INF, 10), MaxSLR(2.0, 4), MaxSLR(INF, {2: 0.5, 18: 0.5})]


@pytest.mark.parametrize("task", ELEMENTWISE_TASKS)
def test_no_elementwise_weights_are_below_their_bound(task):
    bound = elementwise_risk(task)
    assert bayes_risk(task) < bound < 1
    for activation in ("linear", "erf", "sigmoid", "exponential", Softplus(0.0, 1.0, False),
                       Softplus(-3.0, 1.0, False), Softplus(-2.0, 2.0, False)):
        assert population_risk(task, activation).risk >= bound - 1e-12
    sigmoid, erf = (population_risk(task, name).risk for name in ("sigmoid", "erf"))
    assert max(sigmoid, erf) < bound + 0.01  # both have the shape of the best weights


@pytest.mark.parametrize("length", [2, 3, 10, 10**6])
def test_elementwise_bound_of_the_argmax_in_closed_form(length):
    """The best weights are Phi(chi)^(L - 1), whose square has the mean 1/(2L - 1)."""
    assert elementwise_risk(MaxSLR(INF, length)) == pytest.approx((length - 1) / (2 * length - 1),
                                                                  rel=1e-10)


@pytest.mark.parametrize("task", [SpikedSLR(2.0, 3), SpikedSLR(9.0, 100), SpikedSLR(4.0, UNIFORM)])
def test_best_sigmoid_of_the_spiked_task(task):
    """Its weights are a posterior, so A = B; and a search over scale and offset ends there."""
    best = population_risk(task, "sigmoid")
    assert best.signal == pytest.approx(best.power, rel=1e-12)
    assert best.risk == pytest.approx(elementwise_risk(task), rel=1e-12)
    run = minimize(lambda x: risk_at(task, Sigmoid(float(x[1])), math.exp(x[0])),
                   [0.0, -1.0], method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-13})
    assert run.fun == pytest.approx(best.risk, rel=1e-9)
    assert math.exp(run.x[0]) == pytest.approx(best.key_scale, rel=1e-3)
    assert run.x[1] == pytest.approx(best.offset, rel=1e-3)


@pytest.mark.parametrize("nu, length", [(0.5, 2), (5.0, 10), (20.0, 10**6), (400.0, 3)])
def test_best_exponential_of_the_spiked_task(nu, length):
    r"""A^2/B = e^{-a^2} / (1 + (L - 1) e^{-2 a sqrt(nu)}), largest at one a below sqrt(nu)."""
    task, root = SpikedSLR(nu, length), math.sqrt(nu)

    def exact(scale):
        return 1 - math.exp(-scale**2) / (1 + (length - 1) * math.exp(-2 * scale * root))

    best = population_risk(task, "exponential")
    scale = brentq(lambda a: a * (1 + math.exp(2 * a * root) / (length - 1)) - root,
                   0, min(root, 300 / root))
    assert best.risk == pytest.approx(exact(scale), rel=1e-9)
    assert best.key_scale == pytest.approx(scale, rel=1e-3)


def test_a_low_offset_turns_every_normalised_kernel_into_softmax():
    task = SpikedSLR(5.0, 10)
    for free, low in ((Softplus(None, power=2.0), Softplus(-12.0, power=2.0)),
                      (Sigmoid(None, normalised=True), Sigmoid(-12.0, normalised=True))):
        best = population_risk(task, free)
        assert (best.risk, best.offset, best.attained) == (bayes_risk(task), -INF, False)
        assert risk_at(task, low, best.key_scale) == pytest.approx(best.risk, abs=2e-3)


@pytest.mark.parametrize("task", [SpikedSLR(2.0, 3), MaxSLR(2.0, 3), MaxSLR(INF, UNIFORM)])
@pytest.mark.parametrize("activation", [
    Softplus(power=2.0), Softplus(power=0.5), Softplus(0.0, 2.0, False), Softplus(0.0, 0.5, False),
    Sigmoid(-1.0), Sigmoid(-1.0, normalised=True)])
def test_infinite_scales_are_limits(task, activation):
    from slrbook.population import _infinite_scale_moments
    limit = _infinite_scale_moments(task, activation)
    ratio = limit.signal**2 / limit.power
    gaps = []
    for scale in (40.0, 80.0):
        signal, power, _ = attention_moments(task, activation, scale)
        gaps.append(signal**2 / power - ratio)
    assert abs(gaps[1]) < 0.02 and gaps[1] == pytest.approx(gaps[0] / 2, rel=0.5, abs=1e-3)


def test_limits_that_no_finite_scale_attains():
    best = population_risk(MaxSLR(INF, 4), "softmax")
    assert (best.risk, best.key_scale, best.attained) == (0.0, INF, False)
    risks = [risk_at(MaxSLR(INF, 4), "softmax", scale) for scale in (10.0, 100.0)]
    assert risks[0] > risks[1] > 0 and risks[1] == pytest.approx(risks[0] / 10, rel=0.05)

    task = MaxSLR(INF, 2)
    best = population_risk(task, "softplus")
    assert best.key_scale == INF and not best.attained
    gaps = [risk_at(task, "softplus", scale) - best.risk for scale in (50.0, 100.0, 200.0)]
    assert gaps[0] > gaps[1] > gaps[2] > 0 and gaps[2] < 6e-4

    task = SpikedSLR(20.0, 10**6)
    best = population_risk(task, "softplus")
    assert best.key_scale == INF and risk_at(task, "softplus", 3e3) > best.risk

    task = SpikedSLR(5.0, 2)
    best = population_risk(task, Softplus(offset=None))
    assert best.offset == -INF and not best.attained and best.risk == bayes_risk(task)
    gaps = [population_risk(task, Softplus(offset=c)).risk - best.risk for c in (-2.0, -5.0, -12.0)]
    assert gaps[0] > gaps[1] > gaps[2] > 0 and gaps[2] < 1e-4


@pytest.mark.parametrize("nu", [2.0, INF])
def test_infinite_scale_softplus_is_the_limit(nu):
    """At finite nu and at nu = inf, the relu limit is approached by large scales."""
    from slrbook.population import _infinite_scale_moments
    for task in (SpikedSLR(2.0, 3), MaxSLR(nu, 3)):
        limit = _infinite_scale_moments(task, Softplus())
        moments = [attention_moments(task, "softplus", scale) for scale in (40.0, 80.0)]
        for name in ("signal", "power", "deficit"):
            gap1, gap2 = (getattr(m, name) - getattr(limit, name) for m in moments)
            assert abs(gap2) < 0.01 and gap2 == pytest.approx(gap1 / 2, rel=0.3, abs=3e-4)


def test_erf_infinite_scale_is_a_step():
    from slrbook.population import _infinite_scale_moments
    for task in (SpikedSLR(2.0, 3), MaxSLR(2.0, 3), MaxSLR(INF, UNIFORM)):
        limit = _infinite_scale_moments(task, Erf(-1.0))
        assert attention_moments(task, Erf(-1.0), 1e4) == pytest.approx(limit, abs=1e-3)


@pytest.mark.parametrize("task", [SpikedSLR(0.0, 4), MaxSLR(0.0, 4), SpikedSLR(3.0, 1),
                                  MaxSLR(INF, 1)])
def test_uninformative_scores(task):
    for activation in ("softmax", "linear", "erf", "softplus", Softplus(None), "sigmoid",
                       "exponential", Sigmoid(None, normalised=True)):
        best = population_risk(task, activation, noise=0.5)
        assert best.risk == pytest.approx(0.25 + 1 - 1 / task.length.max, abs=1e-14)
        assert best.attained and math.isfinite(best.key_scale)


TASKS = st.one_of(
    st.builds(SpikedSLR, st.floats(0.01, 60), st.sampled_from([1, 2, 3, 7, 100, 10**6, UNIFORM])),
    st.builds(MaxSLR, st.floats(0.01, 20) | st.just(INF), st.sampled_from([1, 2, 3, 30, UNIFORM])))


@settings(max_examples=30, deadline=None, derandomize=True)
@given(TASKS, st.floats(0, 2))
def test_bayes_is_below_every_activation_and_all_below_null(task, noise):
    bayes = bayes_risk(task, noise=noise)
    for activation in ("softmax", "linear", "erf", "sigmoid", "exponential"):
        risk = population_risk(task, activation, noise=noise).risk
        assert noise**2 <= bayes <= risk * (1 + 1e-12) <= (1 + noise**2) * (1 + 2e-12)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(TASKS, st.floats(0.05, 5), st.sampled_from([Softmax(), Softplus(), Softplus(power=3.0), Erf(-1.0), Linear(),
                                                    Sigmoid(-1.0), Sigmoid(0.0, True)]))
def test_any_scale_is_above_bayes_and_below_null(task, scale, activation):
    risk = risk_at(task, activation, scale)
    assert bayes_risk(task) * (1 - 1e-9) <= risk <= 1 + 1e-12


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.sampled_from([SpikedSLR, MaxSLR]), st.floats(0, 40), st.floats(0.01, 5),
       st.sampled_from([2, 5, 1000, UNIFORM]))
def test_bayes_risk_decreases_with_the_signal(kind, nu, more, length):
    assert bayes_risk(kind(nu + more, length)) < bayes_risk(kind(nu, length))


@settings(max_examples=30, deadline=None, derandomize=True)
@given(TASKS)
def test_signal_equals_power_at_the_nishimori_point(task):
    if math.isfinite(task.nu):
        signal, power, deficit = attention_moments(task, "softmax", task.key_scale)
        assert signal == pytest.approx(power, rel=1e-11)
        assert deficit / power == pytest.approx(bayes_risk(task), rel=1e-9, abs=1e-13)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.floats(0.1, 5), st.floats(0, 6), st.sampled_from([Softmax(), Softplus(), Linear()]))
def test_one_token_is_exact(nu, scale, activation):
    for task in (SpikedSLR(nu, 1), MaxSLR(nu, 1)):
        if activation.normalised:
            assert attention_moments(task, activation, scale) == (1.0, 1.0, 0.0)
        assert population_risk(task, activation, noise=0.3).risk == pytest.approx(0.09, abs=1e-15)


@pytest.mark.parametrize("task", [SpikedSLR(2.0, 3), SpikedSLR(3.0, {2: 0.5, 5: 0.5}),
                                  MaxSLR(2.0, 3), MaxSLR(INF, {2: 0.5, 4: 0.5})])
def test_overlap_risk_on_the_manifold(task):
    """Sobol averages over tokens agree with the deterministic moments."""
    for activation in (Softmax(), Linear(), Erf(-0.5), Softplus(), Softplus(power=2.0),
                       Softplus(-1.0, 0.5, False), Sigmoid(-1.0), Sigmoid(0.0, normalised=True)):
        signal, power, _ = attention_moments(task, activation, 0.8, 1.1)
        estimate = overlap_risk(task, activation, m_k=0.8, q_k=1.1, m_v=0.7, q_v=0.9, noise=0.2)
        exact = 0.04 + 1 - 2 * 0.7 * signal + 0.9 * power
        assert estimate.risk == pytest.approx(exact, abs=5 * estimate.standard_error + 1e-5)
        assert estimate.standard_error < 3e-3


@pytest.mark.parametrize("task", [SpikedSLR(2.0, 2), MaxSLR(3.0, 2)])
@pytest.mark.parametrize("activation", [Softmax(), Linear(), Erf(-0.5), Softplus()])
def test_leaving_the_manifold_does_not_help(task, activation):
    """Free k and v, started off the manifold, come back to its minimum."""
    best = population_risk(task, activation).risk
    settings_ = dict(samples=2**11, scrambles=2, seed=5)

    def loss(free):
        # coordinates on k*, v* and two directions orthogonal to both
        hidden = np.eye(4)[:2]
        k, v = np.array([*free[:3], 0.0]), free[3:]
        gram = np.array([*hidden, k, v]) @ np.array([k, v]).T
        return overlap_risk(task, activation, m_k=gram[0, 0], q_k=gram[2, 0], m_v=gram[1, 1],
                            q_v=gram[3, 1], k_value_star=gram[1, 0], v_key_star=gram[0, 1],
                            k_v=gram[2, 1], **settings_).risk

    start = np.array([0.7, 0.4, 0.5, 0.3, 0.5, -0.3, 0.2])
    run = minimize(loss, start, method="BFGS", options={"gtol": 1e-5})
    assert run.fun == pytest.approx(best, abs=4e-3)  # the error of 2**12 points
    off = run.x[[1, 2, 3, 5, 6]]
    assert abs(off).max() < 0.06 and run.x[0] > 0.3 and run.x[4] > 0.3
