"""One-pass stochastic gradient descent: the limit against averages, gradients and runs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from slrbook import (Erf, MaxSLR, Softplus, SpikedSLR, attention_moments, overlap_risk,
                     population_risk)
from slrbook.dynamics import OVERLAPS, SgdLimit, run_sgd, run_sgd_overlaps

SPIKED, MAX = SpikedSLR(2.0, 3), MaxSLR(math.inf, 3)
TASKS = [SPIKED, MAX, MaxSLR(3.0, 2), SpikedSLR(2.0, {1: 0.3, 3: 0.7})]
ACTIVATIONS = ["softmax", "linear", Erf(0.3), Softplus(0.0)]
UNINFORMED = np.array([0.0, 1, 0, 1, 0, 0, 0])
POINT = np.array([0.6, 0.9, 0.5, 0.6, 0.1, -0.2, 0.15])
ON_MANIFOLD = POINT * (np.arange(7) < 4)

every_task = pytest.mark.parametrize("task", TASKS, ids=str)
every_activation = pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)


def sampled_steps(task, activation, overlaps, n, seed):
    """What steps on ``n`` sequences in four dimensions add to the overlaps: (n, 7), (n, 7), (n,)."""
    m_k, q_k, m_v, q_v, k_value_star, v_key_star, k_v = overlaps
    gram = np.array([[1, 0, m_k, v_key_star], [0, 1, k_value_star, m_v],
                     [m_k, k_value_star, q_k, k_v], [v_key_star, m_v, k_v, q_v]])
    vectors = 2 * np.linalg.cholesky(gram)  # of k*, v*, k, v; D = 4
    data = task.sample(n, 4, noise=0.3, rng=seed, teacher=tuple(vectors[:2]))
    chi_star, z_star, chi, z = np.moveaxis(data.tokens @ vectors.T / 2, -1, 0)
    weights = activation(chi, data.mask)
    slopes = activation.vjp(chi, z, data.mask)
    error = data.label - (weights * z).sum(axis=1)

    def dot(a, b):
        return (a * b * data.mask).sum(axis=1)

    drift = error[:, None] * np.stack([
        dot(slopes, chi_star), 2 * dot(slopes, chi), dot(weights, z_star), 2 * dot(weights, z),
        dot(slopes, z_star), dot(weights, chi_star), dot(slopes, z) + dot(weights, chi)], axis=1)
    squares = np.zeros((n, 7))
    squares[:, 1], squares[:, 3] = dot(slopes, slopes), dot(weights, weights)
    squares[:, 6] = dot(weights, slopes)
    return drift, error[:, None] ** 2 * squares, error**2


@every_task
@every_activation
def test_velocity_is_the_mean_of_sampled_steps(task, activation):
    limit = SgdLimit(task, activation, noise=0.3, samples=2**13)
    exact = np.concatenate(limit.velocity(POINT)[:2])
    drift, noise, squared = sampled_steps(task, limit.activation, POINT, 100_000, 1)
    sampled = np.hstack([drift, noise])
    error = sampled.std(axis=0) / math.sqrt(len(sampled))
    assert np.all(abs(sampled.mean(axis=0) - exact) <= 4.5 * error + 0.002 * abs(exact))
    risk = overlap_risk(task, activation, noise=0.3, **dict(zip(OVERLAPS, POINT)))
    assert limit.velocity(POINT).risk == pytest.approx(risk.risk, abs=0.01)
    assert squared.mean() == pytest.approx(limit.velocity(POINT).risk, rel=0.03)


@pytest.mark.parametrize("task", [SPIKED, MAX], ids=str)
@every_activation
def test_drift_is_the_gradient_of_the_population_risk(task, activation):
    limit = SgdLimit(task, activation, noise=0.3, samples=2**15)
    step = 1e-3
    slopes = [(limit.velocity(POINT + step * unit).risk - limit.velocity(POINT - step * unit).risk)
              / (2 * step) for unit in np.eye(7)]
    m_k, q_k, m_v, q_v, k_value_star, v_key_star, k_v = slopes
    # minus half the gradient, as combinations of k*, k, v*, v
    key = -0.5 * np.array([m_k, 2 * q_k, k_value_star, k_v])
    value = -0.5 * np.array([v_key_star, k_v, m_v, 2 * q_v])
    gram = np.array([[1, POINT[0], 0, POINT[5]], [POINT[0], POINT[1], POINT[4], POINT[6]],
                     [0, POINT[4], 1, POINT[2]], [POINT[5], POINT[6], POINT[2], POINT[3]]])
    key, value = gram @ key, gram @ value
    expected = [key[0], 2 * key[1], value[2], 2 * value[3], key[2], value[0], key[3] + value[1]]
    drift = limit.velocity(POINT).drift
    np.testing.assert_allclose(drift, expected, atol=0.004 * max(1, abs(drift).max()))


@every_task
@every_activation
def test_the_manifold_is_invariant_and_its_velocity_is_that_of_two_moments(task, activation):
    limit = SgdLimit(task, activation, noise=0.3, samples=2**13)
    drift, noise, risk = limit.velocity(ON_MANIFOLD)
    assert not drift[4:].any() and not noise[4:].any()
    m_k, q_k, m_v, q_v = ON_MANIFOLD[:4]
    signal, power, _ = attention_moments(task, activation, m_k, q_k)
    tolerance = 0.004 * max(1.0, power)
    assert drift[2] == pytest.approx(signal - m_v * power, abs=tolerance)
    assert drift[3] == pytest.approx(2 * (m_v * signal - q_v * power), abs=2 * tolerance)
    assert risk == pytest.approx(1.09 - 2 * m_v * signal + q_v * power, abs=tolerance)


def test_gradient_flow_ends_at_the_best_layer_and_never_climbs():
    times = np.array([0.0, 1, 3, 10, 30, 100, 300])
    for activation in ("softmax", "linear"):
        limit = SgdLimit(SPIKED, activation, noise=0.3)
        path = limit.solve(UNINFORMED, times, rate=0.0)
        risks = [limit.velocity(overlaps).risk for overlaps in path]
        assert np.all(np.diff(risks) < 1e-6)
        best = population_risk(SPIKED, activation, noise=0.3)
        a, b = best.key_scale, best.value_scale
        np.testing.assert_allclose(path[-1], [a, a * a, b, b * b, 0, 0, 0], atol=0.02)
        assert risks[-1] == pytest.approx(best.risk, abs=2e-3)


def test_fixed_points_at_small_rates_tend_to_the_best_layer():
    limit = SgdLimit(SPIKED, "softmax", noise=0.3)
    best = population_risk(SPIKED, "softmax", noise=0.3)
    flow = limit.solve(np.array([best.key_scale, 2, 1, 1, 0, 0, 0]), [0, 300], rate=0.0)[-1]
    floor = limit.velocity(flow).risk
    excess, distance = [], []
    for rate in (0.08, 0.04, 0.02):
        end = limit.solve(UNINFORMED, [0.0, 300.0], rate=rate)[-1]
        excess.append(limit.velocity(end).risk - floor)
        distance.append(end[:4] - flow[:4])
    for before, after in ((0, 1), (1, 2)):  # both in proportion to the rate
        assert excess[before] / excess[after] == pytest.approx(2, rel=0.1) and excess[after] > 0
        np.testing.assert_allclose(distance[before], 2 * distance[after], rtol=0.15)


@pytest.mark.parametrize("task, activation, rate, unit", [
    (SPIKED, "softmax", 0.4, 1.0), (MAX, "softmax", 0.4, 1.0), (SPIKED, "linear", 0.04, 0.2),
    (TASKS[3], "linear", 0.04, 0.2)], ids=str)
def test_runs_tend_to_the_limit(task, activation, rate, unit):
    times = unit * np.array([0.0, 1, 3, 8])
    limit = SgdLimit(task, activation, noise=0.3, samples=2**13)
    exact = limit.solve(UNINFORMED, times, rate=rate)
    runs = run_sgd_overlaps(task, activation, dim=600, rate=rate, times=times, runs=40,
                            noise=0.3, rng=3, progress=False)
    error = runs.std(axis=1, ddof=1) / math.sqrt(40)
    assert np.all(abs(runs.mean(axis=1) - exact)[1:] < (4.5 * error + 0.004)[1:])
    assert runs.std(axis=1)[1:].max() < 0.08  # single runs, too, are near


def test_runs_on_vectors_and_on_overlaps_have_the_same_law():
    times = np.array([0.0, 1, 3])
    for task in (SPIKED, MaxSLR(3.0, {1: 0.3, 3: 0.7})):
        vectors = np.stack([run_sgd(task, "softmax", dim=30, rate=0.4, times=times, noise=0.3,
                                    rng=seed) for seed in range(100)], axis=1)
        overlaps = run_sgd_overlaps(task, "softmax", dim=30, rate=0.4, times=times, runs=1000,
                                    noise=0.3, rng=0, progress=False)
        error = np.hypot(vectors.std(axis=1) / 100**0.5, overlaps.std(axis=1) / 1000**0.5)
        assert np.all(abs(vectors.mean(axis=1) - overlaps.mean(axis=1)) < 4.5 * error)
        ratio = vectors.std(axis=1) / overlaps.std(axis=1)
        assert np.all(abs(ratio - 1) < 0.35)


def test_a_run_from_given_overlaps_starts_there():
    runs = run_sgd_overlaps(SPIKED, "softmax", dim=100, rate=0.1, times=[0, 1], runs=3, noise=0.3,
                            rng=0, start=POINT)
    np.testing.assert_allclose(runs[0], np.tile(POINT, (3, 1)), atol=1e-12)
    first = run_sgd(SPIKED, "softmax", dim=50, rate=0.1, times=[0, 1], rng=0,
                    start=(np.ones(50), np.zeros(50)))[0]
    assert first[1] == 1 and not first[[2, 3, 5, 6]].any()


def test_a_rate_that_is_too_large_is_reported():
    limit = SgdLimit(SPIKED, "linear", noise=0.3)
    rate = 40 * limit.safe_rate(UNINFORMED)
    with pytest.raises(FloatingPointError, match="lower it"):
        limit.solve(UNINFORMED, [0.0, 30.0], rate=rate)
    with pytest.raises(FloatingPointError, match="lower it"), np.errstate(all="ignore"):
        run_sgd_overlaps(SPIKED, "linear", dim=100, rate=rate, times=[0.0, 30.0], runs=2, rng=0)
    with pytest.raises(FloatingPointError, match="lower it"), np.errstate(all="ignore"):
        run_sgd(SPIKED, "linear", dim=100, rate=rate, times=[0.0, 300.0], rng=0)


@pytest.mark.parametrize("call, named", [
    (lambda: SgdLimit("spiked", "softmax"), "task"),
    (lambda: SgdLimit(SPIKED, "relu"), "activation"),
    (lambda: SgdLimit(SPIKED, Erf()), "offset"),
    (lambda: SgdLimit(SPIKED, "softmax", noise=-1.0), "noise"),
    (lambda: SgdLimit(SPIKED, "softmax", samples=1000), "n must be a power of two"),
    (lambda: SgdLimit(SPIKED, "softmax").velocity([1.0, 2.0]), "overlaps"),
    (lambda: SgdLimit(SPIKED, "softmax").velocity([2.0, 1, 0, 1, 0, 0, 0]), "overlaps"),
    (lambda: SgdLimit(SPIKED, "softmax").velocity([math.nan, 1, 0, 1, 0, 0, 0]), "overlaps"),
    (lambda: SgdLimit(SPIKED, "softmax").solve(UNINFORMED, [0, 1], rate=-0.1), "rate"),
    (lambda: SgdLimit(SPIKED, "softmax").solve(UNINFORMED, [1, 0], rate=0.1), "times"),
    (lambda: SgdLimit(SPIKED, "softmax").solve(UNINFORMED, [0, 1], rate=0.1, tolerance=0.0),
     "tolerance"),
    (lambda: run_sgd(SPIKED, "softmax", dim=1, rate=0.1, times=[0, 1], rng=0), "dim"),
    (lambda: run_sgd(SPIKED, "softmax", dim=9, rate=0.0, times=[0, 1], rng=0), "rate"),
    (lambda: run_sgd(SPIKED, "softmax", dim=9, rate=0.1, times=[0], rng=0), "times"),
    (lambda: run_sgd(SPIKED, "softmax", dim=9, rate=0.1, times=[0, 1], rng=None), "rng"),
    (lambda: run_sgd(SPIKED, "softmax", dim=9, rate=0.1, times=[0, 1], rng=0,
                     start=(np.ones(9), np.ones(8))), "start"),
    (lambda: run_sgd_overlaps(SPIKED, "softmax", dim=5, rate=0.1, times=[0, 1], runs=1, rng=0),
     "dim"),
    (lambda: run_sgd_overlaps(SPIKED, "softmax", dim=9, rate=0.1, times=[0, 1], runs=0, rng=0),
     "runs"),
    (lambda: run_sgd_overlaps(SPIKED, "softmax", dim=9, rate=0.1, times=[0, 1], runs=1, rng=0,
                              start=[0.0, 1, 0, 1, 2, 0, 0]), "overlaps"),
])
def test_bad_input_is_refused(call, named):
    with pytest.raises(ValueError, match=named):
        call()
