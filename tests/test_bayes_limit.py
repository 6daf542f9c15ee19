"""The Bayes-optimal limit: exact cases, theory's values, the free energy, location weights."""

from functools import partial
import math

import numpy as np
import pytest
from scipy.special import logsumexp, ndtr, softmax

from slrbook.bayes_limit import BayesEquations, BayesLimit, _law_of_score, _largest, solve_bayes
from slrbook.fixed_point import ConvergenceError, scales
from slrbook.population import bayes_risk
from slrbook.tasks import MaxSLR, SpikedSLR

SPIKED = SpikedSLR(nu=2.0, length=3)
fast = partial(solve_bayes, samples=2**12)


@pytest.mark.parametrize("task, alpha, noise, risk", [
    (SPIKED, 2, 0.3, 0.5916), (SPIKED, 8, 0.3, 0.4686), (SPIKED, 20, 0.3, 0.4526),
    (MaxSLR(math.inf, 2), 2, 0.3, 0.5113), (MaxSLR(math.inf, 2), 8, 0.3, 0.2212)])
def test_theory_values(task, alpha, noise, risk):
    limit = fast(task, alpha=alpha, noise=noise)
    assert limit.converged and limit.residual <= 1e-6
    assert abs(limit.risk - risk) < 0.001 + 4 * limit.standard_error


@pytest.mark.parametrize("alpha, noise", [(0.5, 0.3), (2.0, 0.5), (1.0, 1.0)])
def test_one_token_is_bayesian_linear_regression(alpha, noise):
    """The risk of ridge regression at the ridge noise**2, from the Marchenko-Pastur law."""
    limit = fast(MaxSLR(math.inf, 1), alpha=alpha, noise=noise)
    b = alpha + noise**2 - 1  # V = tr (X^T X / D + noise^2)^-1 / D solves noise^2 V^2 + b V = 1
    trace = (-b + math.sqrt(b * b + 4 * noise**2)) / (2 * noise**2)
    assert limit.key_q < 1e-6
    assert limit.value_q == pytest.approx(1 - noise**2 * trace, rel=1e-3)
    assert limit.risk == pytest.approx(noise**2 * (1 + trace), rel=1e-3)


def test_one_spiked_token_shows_the_key_without_labels():
    limit = fast(SpikedSLR(2.0, 1), alpha=2.0, noise=0.3)
    assert limit.key_q == pytest.approx(4 / 5, abs=1e-5)  # alpha nu / (1 + alpha nu)


@pytest.mark.parametrize("start", ["uninformed", "informed"])
def test_hard_phase_at_small_noise(start):
    limit = fast(SpikedSLR(1.0, 10), alpha=2.0, noise=0.01, start=start)
    risk, q_v = {"uninformed": (0.964, 0.30), "informed": (0.832, 0.9999)}[start]
    assert limit.risk == pytest.approx(risk, abs=0.002)
    assert limit.value_q == pytest.approx(q_v, abs=0.003)


def test_free_energy_orders_the_two_solutions_of_a_hard_phase():
    low, high = (fast(SpikedSLR(1.0, 10), alpha=2.0, noise=0.01, start=start)
                 for start in ("uninformed", "informed"))
    assert high.free_energy > low.free_energy + 0.1
    assert high.risk < low.risk - 0.1
    closed = [fast(SpikedSLR(1.0, 10), alpha=5.0, noise=0.01, start=start).risk
              for start in ("uninformed", "informed")]
    assert closed[0] == pytest.approx(closed[1], abs=1e-4)


@pytest.mark.parametrize("task", [SPIKED, MaxSLR(math.inf, 3), MaxSLR(2.0, 3),
                                  SpikedSLR(2.0, {1: 0.5, 4: 0.5})])
def test_much_data_is_the_population_bayes_risk(task):
    near, far = (fast(task, alpha=alpha, noise=0.3) for alpha in (100.0, 1000.0))
    best = bayes_risk(task, noise=0.3)
    assert abs(far.risk - best) < 0.003 + 4 * far.standard_error
    assert far.risk < near.risk + 4 * near.standard_error


@pytest.mark.parametrize("task", [SPIKED, MaxSLR(math.inf, 2)])
def test_no_data_is_the_null_predictor(task):
    assert fast(task, alpha=1e-3, noise=0.3).risk == pytest.approx(1.09, abs=1e-3)


def test_without_noise_the_value_direction_is_found_exactly():
    limit = fast(SPIKED, alpha=2.0, noise=0.0, start="informed")
    assert limit.value_q == pytest.approx(1.0, abs=1e-5)
    assert limit.key_q == pytest.approx(4 / 5, abs=1e-4)  # labels tell the location: alpha nu


GRADIENT = [(SPIKED, 2.0), (SpikedSLR(1.0, 10), 4.0), (MaxSLR(math.inf, 2), 4.0),
            (MaxSLR(math.inf, 5), 6.0), (MaxSLR(2.0, 3), 6.0), (MaxSLR(4.0, 2), 6.0),
            (SpikedSLR(3.0, {1: 0.5, 2: 0.5}), 2.0)]


@pytest.mark.parametrize("task, alpha", GRADIENT)
def test_free_energy_is_stationary_in_all_variables(task, alpha):
    """Exactly in the hats; in q by Nishimori's identity, hence within the error of the draws."""
    slopes, hat_slopes, away = [], [], []
    limit = solve_bayes(task, alpha=alpha, noise=0.4, samples=2**13)
    q = np.array([limit.key_q, limit.value_q])
    for seed in range(6):
        equations = BayesEquations(task, alpha=alpha, noise=0.4, samples=2**11, seed=100 + seed)
        point = np.concatenate([q, q / (1 - q)])

        def slope(i, at):
            step = np.zeros(4)
            step[i] = 1e-4
            return (equations.free_energy(*(at + step)) - equations.free_energy(*(at - step))) / 2e-4

        slopes.append([slope(0, point), slope(1, point)])
        hat_slopes.append([slope(2, point), slope(3, point)])
        away.append([slope(0, point - [0.5 * q[0], 0, 0, 0]),
                     slope(1, point - [0, 0.5 * q[1], 0, 0])])
    mean = np.mean(slopes, axis=0)
    error = np.std(slopes, axis=0, ddof=1) / math.sqrt(6)
    # q itself has an error, which the curvature 1/(1 - q)^2 of the hats turns into a slope
    shift = np.array([limit.key_q_error, limit.value_q_error]) / (1 - q) ** 2
    assert np.all(np.abs(mean) < 5 * error + 4 * shift + 1e-6)
    assert np.abs(hat_slopes).max() < 1e-6
    assert np.all(np.mean(away, axis=0) < -5 * np.abs(mean))  # the test can fail


@pytest.mark.parametrize("nu", [0.0, 0.3, 1.0, 2.0, 30.0, math.inf])
def test_location_weights_against_sampling(nu):
    """P_l(omega) is the mean of the location posterior over what is not known of the scores."""
    rng = np.random.default_rng(0)
    omega = rng.standard_normal((4, 5))
    spread = 0.7
    table, low, high, rate = _law_of_score(nu, spread)
    weights, _ = _largest(rate * omega, np.ones_like(omega), table, low, high, 0.35)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-7)
    chi = omega[:, None] + spread * rng.standard_normal((4, 200_000, 5))
    posterior = MaxSLR(nu, 5).location_posterior(chi)
    error = posterior.std(axis=1) / math.sqrt(200_000)
    assert np.all(np.abs(weights - posterior.mean(axis=1)) < 5 * error + 1e-7)


def test_two_tokens_have_a_closed_form():
    omega = np.random.default_rng(1).standard_normal((50, 2)) * 3
    table, low, high, rate = _law_of_score(math.inf, 0.4)
    weights, gradient = _largest(rate * omega, np.tile([1.0, 0.0], (50, 1)), table, low, high, 0.35)
    gap = (omega[:, 0] - omega[:, 1]) / (0.4 * math.sqrt(2))
    np.testing.assert_allclose(weights[:, 0], ndtr(gap), atol=1e-9)
    slope = np.exp(-gap**2 / 2) / math.sqrt(2 * math.pi) / (0.4 * math.sqrt(2))
    kept = ndtr(gap) > 1e-3
    np.testing.assert_allclose((rate * gradient[:, 0] * weights[:, 0])[kept], slope[kept],
                               rtol=1e-5, atol=1e-7)


def test_known_scores_are_weighted_by_softmax():
    omega = np.random.default_rng(2).standard_normal((50, 4))
    table, low, high, rate = _law_of_score(3.0, 0.0)
    weights, _ = _largest(rate * omega, np.ones_like(omega), table, low, high, 0.35)
    np.testing.assert_allclose(weights, softmax(3.0 * omega, axis=1), atol=1e-7)


@pytest.mark.parametrize("nu", [0.3, 1.0, 8.0, math.inf])
def test_gradient_of_log_z_is_the_derivative(nu):
    rng = np.random.default_rng(3)
    a, factor = rng.standard_normal((20, 4)), rng.random((20, 4))
    table, low, high, _ = _law_of_score(nu, 0.6)

    def log_z(at):
        weights, _ = _largest(at, factor, table, low, high, 0.35)
        return np.log((factor * weights).sum(axis=1))

    _, gradient = _largest(a, factor, table, low, high, 0.35)
    for token in range(4):
        step = np.zeros(4)
        step[token] = 1e-4
        np.testing.assert_allclose(gradient[:, token], (log_z(a + step) - log_z(a - step)) / 2e-4,
                                   atol=2e-5)


@pytest.mark.parametrize("task", [SPIKED, MaxSLR(math.inf, 2)])
def test_log_z_is_the_law_of_the_labels(task):
    """Z integrates to one over labels: E_{omega, y} [N(y; 0, 1 + noise^2)/Z] at fixed scores is 1."""
    equations = BayesEquations(task, alpha=1.0, noise=0.5, samples=2**12, seed=0)
    (part,) = equations._draws
    log_z = equations._posterior(part, 0.5, 0.6)[0]
    scale = scales(task, 0.5, 0.5, 0.5, 0.6, 0.6)
    w = scale.s_v * part.b_v
    w[:, 0] = scale.slope_v * part.y + scale.s_0 * part.b_v[:, 0]
    omega = 0.5 * part.t + scale.s_k * part.b
    grid = np.linspace(-12, 12, 1201)
    # rebuild Z(y) on a grid from the weights alone
    if isinstance(task, SpikedSLR):
        log_p = math.sqrt(2.0) * omega - task.nu * 0.5 / 2 - math.log(3)
    else:
        gap = (omega[:, :1] - omega[:, 1:]) / math.sqrt(2 * 0.5)
        log_p = np.log(np.hstack([ndtr(gap), ndtr(-gap)]))
    variance = 0.25 + 0.4

    def log_density(y):
        return logsumexp(log_p - (y[:, None] - w) ** 2 / (2 * variance), axis=1) \
            - math.log(2 * math.pi * variance) / 2

    np.testing.assert_allclose(log_density(part.y), log_z, rtol=1e-6, atol=1e-6)
    mass = sum(np.exp(log_density(np.full(len(w), y))) for y in grid) * (grid[1] - grid[0])
    np.testing.assert_allclose(mass, np.exp(logsumexp(log_p, axis=1)), rtol=1e-6)


def test_failure_is_an_error_or_a_fact():
    with pytest.raises(ConvergenceError, match="limit on iterations") as caught:
        fast(SPIKED, alpha=2.0, noise=0.3, max_iterations=2)
    assert isinstance(caught.value.state, BayesLimit) and not caught.value.state.converged
    limit = fast(SPIKED, alpha=2.0, noise=0.3, max_iterations=2, strict=False)
    assert not limit.converged and limit.residual > 1e-6 and math.isfinite(limit.risk)


def test_starts_and_seeds():
    limit = fast(SPIKED, alpha=2.0, noise=0.3)
    assert fast(SPIKED, alpha=2.0, noise=0.3) == limit
    for start in ("informed", limit, (0.3, 0.3)):
        assert fast(SPIKED, alpha=2.0, noise=0.3, start=start).risk == pytest.approx(limit.risk,
                                                                                     abs=1e-5)
    other = fast(SPIKED, alpha=2.0, noise=0.3, seed=50)
    assert abs(other.risk - limit.risk) < 6 * math.hypot(other.standard_error, limit.standard_error)


@pytest.mark.parametrize("change, message", [
    (dict(task=3), "task must be a SpikedSLR or a MaxSLR; got 3"),
    (dict(alpha=-1.0), "alpha must be a number > 0, finite; got -1.0"),
    (dict(noise=math.nan), "noise must be .*; got nan"),
    (dict(samples=100), "samples must be a power of two; got 100"),
    (dict(scrambles=0), "scrambles must be an integer >= 2; got 0"),
    (dict(start="hot"), "start must be one of 'uninformed', 'informed'; got 'hot'"),
    (dict(start=(0.5, 1.0)), r"start must be .* in \[0, 1\); got \(0.5, 1.0\)"),
    (dict(start=(0.5, math.nan)), "start must be .*; got"),
    (dict(start=(0.5,)), "start must be .*; got"),
])
def test_bad_input_names_the_argument(change, message):
    with pytest.raises(ValueError, match=message):
        solve_bayes(**(dict(task=SPIKED, alpha=2.0, noise=0.3) | change))
