"""ERM in the proportional limit: exact cases, theory's tables, the free energy, limits, failure."""

from functools import partial
import math

import numpy as np
import pytest

from slrbook.activations import Erf, Exponential, Linear, Sigmoid, Softmax, Softplus
from slrbook.erm import fit_erm, generalization_error
from slrbook.fixed_point import ConvergenceError, solve
from slrbook.population import attention_moments, bayes_risk, population_risk
from slrbook.state_evolution import (ErmEquations, ErmLimit, Overlap, erm_fixed_points, solve_bayes,
                                     solve_erm, sweep)
from slrbook.tasks import MaxSLR, SpikedSLR

SPIKED = SpikedSLR(nu=2.0, length=3)
MAX = MaxSLR(nu=math.inf, length=3)
fast = partial(solve_erm, noise=0.3, samples=2**12, scrambles=3)


def ridge_regression(alpha, ridge, noise):
    """Risk, overlap and square of ridge regression of y on one token, from the spectrum alone.

    The eigenvalues of X^T X / D follow the Marchenko-Pastur law of ratio alpha; v* is isotropic.
    """
    low, high = (math.sqrt(alpha) - 1) ** 2, (math.sqrt(alpha) + 1) ** 2
    angle = (np.arange(4000) + 0.5) * math.pi / 4000
    spectrum = (low + high) / 2 + (high - low) / 2 * np.cos(angle)
    weights = ((high - low) / 2 * np.sin(angle)) ** 2 / (2 * math.pi * spectrum) * math.pi / 4000
    spectrum = np.append(spectrum, 0.0)
    weights = np.append(weights, max(0.0, 1 - alpha))
    assert abs(weights.sum() - 1) < 1e-9
    shrunk = spectrum / (spectrum + ridge)
    variance = noise**2 * weights @ (spectrum / (spectrum + ridge) ** 2)
    risk = noise**2 + weights @ (1 - shrunk) ** 2 + variance
    return risk, weights @ shrunk, weights @ shrunk**2 + variance


@pytest.mark.parametrize("activation", ["softmax", "softplus"])
@pytest.mark.parametrize("task", [SpikedSLR(3.0, 1), MaxSLR(2.0, 1)])
@pytest.mark.parametrize("alpha, ridge, noise", [(0.5, 0.3, 0.3), (6.0, 0.1, 0.0),
                                                 (1.0, 0.01, 1.0)])
def test_one_token_is_ridge_regression(task, activation, alpha, ridge, noise):
    limit = solve_erm(task, activation, alpha=alpha, ridge=ridge, noise=noise, samples=2**12,
                      scrambles=8)
    risk, m, q = ridge_regression(alpha, ridge, noise)
    assert (*limit.key,) == pytest.approx((0, 0, 1 / ridge), abs=1e-6)
    for value, error, exact in ((limit.risk, limit.standard_error, risk),
                                (limit.value.m, limit.value_error.m, m),
                                (limit.value.q, limit.value_error.q, q)):
        assert abs(value - exact) < 1e-5 * (1 + exact) + 6 * error
    assert limit.risk == pytest.approx(risk, rel=2e-3)


def test_heavy_ridge_on_the_key_is_ridge_regression_too():
    """With k held at zero, linear attention of one token is z itself."""
    limit = solve_erm(SpikedSLR(1.0, 1), "linear", alpha=2.0, ridge=(1e8, 1.0), noise=0.5,
                      samples=2**13)
    risk, m, q = ridge_regression(2.0, 1.0, 0.5)
    assert limit.risk == pytest.approx(risk, rel=1e-3)
    assert (limit.value.m, limit.value.q) == pytest.approx((m, q), rel=1e-3)


# theory notes, section 4: risk, overlaps (m_k, q_k, m_v, q_v), free energy where known; 3 digits
TABLE = [
    ("softmax", SPIKED, 8, 0.581, (0.638, 0.592, 0.923, 0.934), 2.249),
    ("linear", SPIKED, 8, 0.743, (0.452, 0.396, 0.317, 0.118), 1.906),
    ("softmax", MAX, 8, 0.493, (0.810, 0.792, 0.974, 1.017), None),
    ("linear", MAX, 8, 0.705, (0.532, 0.438, 0.380, 0.166), None),
    ("softmax", SpikedSLR(4.0, 2), 4, 0.437, (0.428, 0.269, 0.783, 0.683), None),
]


@pytest.mark.parametrize("activation, task, alpha, risk, overlaps, free_energy", TABLE)
def test_theory_table(activation, task, alpha, risk, overlaps, free_energy):
    limit = fast(task, activation, alpha=alpha, ridge=1.0)
    assert limit.converged and limit.residual <= 1e-6
    assert abs(limit.risk - risk) < 0.002 + 4 * limit.standard_error
    found = (limit.key.m, limit.key.q, limit.value.m, limit.value.q)
    errors = (limit.key_error.m, limit.key_error.q, limit.value_error.m, limit.value_error.q)
    for value, error, expected in zip(found, errors, overlaps):
        assert abs(value - expected) < 0.002 + 4 * error
    if free_energy is not None:
        assert abs(limit.free_energy - free_energy) < 0.005 + 4 * limit.free_energy_error


@pytest.mark.parametrize("activation, alpha, ridge, risk", [
    ("softmax", 8, 8, 0.926), ("softmax", 8, 0.5, 0.576), ("softmax", 20, 2, 0.521),
    ("softmax", 2, 0.5, 0.818), ("linear", 8, 4, 0.717), ("linear", 20, 8, 0.647),
    ("linear", 2, 1, 1.159), ("linear", 8, 0.25, 0.784),
])
def test_theory_ridge_table(activation, alpha, ridge, risk):
    limit = fast(SPIKED, activation, alpha=alpha, ridge=ridge)
    assert abs(limit.risk - risk) < 0.005 + 4 * limit.standard_error


SETTINGS = [
    (SPIKED, Softmax(), 8.0, 1.0), (SPIKED, Softmax(), 2.0, 0.1), (SPIKED, Linear(), 8.0, (1.0, 0.2)),
    (SPIKED, Erf(offset=-0.5), 6.0, 1.0), (SPIKED, Softplus(offset=-1.0), 8.0, 0.5),
    (MAX, Softmax(), 8.0, 1.0), (MAX, Linear(), 8.0, 1.0), (MaxSLR(3.0, 4), Softmax(), 6.0, 0.5),
    (SpikedSLR(2.0, {1: 0.25, 3: 0.75}), Softmax(), 4.0, 0.5),
    (MaxSLR(math.inf, {1: 0.5, 2: 0.5}), Softplus(), 8.0, 1.0),
    (SPIKED, Sigmoid(offset=-1.5), 8.0, 1.0), (SPIKED, Exponential(), 8.0, 1.0),
    (MAX, Softplus(power=3.0), 8.0, 1.0), (MAX, Softplus(-1.0, 2.0, normalised=False), 8.0, 1.0),
    (SPIKED, Sigmoid(offset=0.0, normalised=True), 8.0, 1.0),
]


@pytest.mark.parametrize("task, activation, alpha, ridge", SETTINGS)
def test_free_energy_is_stationary_in_all_twelve_variables(task, activation, alpha, ridge):
    """The hats come from sums that never look at F; F comes from the value of the minimum alone.

    The draws are the same, so nothing statistical enters: the gradient vanishes to the residual
    and to the error of a central difference.
    """
    equations = ErmEquations(task, activation, alpha=alpha, ridge=ridge, noise=0.3,
                             samples=2**11, seed=0)
    pair = equations.ridge
    start = np.ravel(equations.conjugates(*(Overlap(1.0, 1.1, 1 / (r + alpha / 4)) for r in pair)))
    end = solve(equations.update, start, equations.physical, tolerance=1e-9, max_iterations=200,
                jumped=equations.jumped)
    assert end.reason == ""
    key, value = equations.overlaps(end.x[:3], end.x[3:])
    point = np.array([*key, *value, *end.x])

    def free_energy(x):
        return equations.free_energy(Overlap(*x[:3]), Overlap(*x[3:6]), x[6:9], x[9:])

    for i in range(12):
        step = np.zeros(12)
        step[i] = 1e-4 * max(0.1, abs(point[i]))
        slope = (free_energy(point + step) - free_energy(point - step)) / (2 * step[i])
        # away from the solution the slope is of order alpha (overlaps) or 1 (hats)
        assert abs(slope) < 2e-5 * (alpha if i < 6 else 1)
        moved = point.copy()
        moved[i] += 0.05 * max(0.1, abs(point[i]))
        step *= 0.1
        away = (free_energy(moved + step) - free_energy(moved - step)) / (2 * step[i])
        if i in (0, 1, 2, 3, 4, 5):  # the test can fail: slopes elsewhere are not small
            assert abs(away) > 50 * abs(slope) or abs(away) > 1e-3


def test_minimum_value_in_free_energy_is_that_of_the_public_activation():
    """E M recomputed from scratch, with scipy-free numpy and the draws' own formula."""
    equations = ErmEquations(MAX, "softmax", alpha=8.0, ridge=1.0, noise=0.3, samples=2**9, seed=1)
    key, value = Overlap(0.8, 0.8, 0.4), Overlap(0.97, 1.0, 0.25)
    equations.hats(key, value)
    (part,) = equations._draws
    omega = key.m * part.t + math.sqrt(key.q - key.m**2) * part.b
    w = math.sqrt(value.q) * part.b_v
    w[:, 0] = value.m * part.y / 1.09 + math.sqrt(value.q - value.m**2 / 1.09) * part.b_v[:, 0]
    (shift,) = equations._shifts
    sigma = Softmax()(omega + shift)
    energy = (shift**2).sum(axis=1) / (2 * key.V)
    energy += (part.y - (sigma * w).sum(axis=1)) ** 2 / (
        2 * (1 + value.V * (sigma**2).sum(axis=1)))
    zero = (0.0, 0.0, 0.0)
    assert equations.free_energy(key, value, zero, zero) == pytest.approx(8 * energy.mean(), rel=1e-9)


def test_draws_have_the_law_of_the_task():
    """Joint second moments of labels and projections, against finite-D samples."""
    for task in (SPIKED, MAX, MaxSLR(2.0, 3)):
        equations = ErmEquations(task, "linear", alpha=1.0, ridge=1.0, noise=0.3, samples=2**14,
                                 seed=0)
        (part,) = equations._draws
        m_v, q_v = 0.7, 0.8
        w = math.sqrt(q_v) * part.b_v
        w[:, 0] = m_v * part.y / 1.09 + math.sqrt(q_v - m_v**2 / 1.09) * part.b_v[:, 0]
        assert np.mean(part.y**2) == pytest.approx(1.09, abs=1e-3)
        assert np.mean(part.y * w[:, 0]) == pytest.approx(m_v, abs=1e-3)
        np.testing.assert_allclose((w**2).mean(axis=0), q_v, atol=2e-3)
        if isinstance(task, MaxSLR):
            data = task.sample(40_000, 4, rng=0)
            chi = data.tokens @ data.key_star / 2
            chosen = np.take_along_axis(chi, data.location[:, None], axis=1)[:, 0]
            assert part.t[:, 0].mean() == pytest.approx(chosen.mean(), abs=0.02)
            assert (part.t**2).sum(axis=1).mean() == pytest.approx(3.0, abs=0.02)
            assert part.t.sum(axis=1).mean() == pytest.approx(0.0, abs=0.02)


@pytest.mark.parametrize("task, activation, alpha, ridge", SETTINGS)
def test_risk_is_the_population_risk_at_the_overlaps(task, activation, alpha, ridge):
    limit = solve_erm(task, activation, alpha=alpha, ridge=ridge, noise=0.3, samples=2**12)
    key, value = limit.key, limit.value
    assert value.q >= value.m**2 and key.q >= key.m**2 and key.V > 0 and value.V > 0
    moments = attention_moments(task, activation, key.m, key.q)
    risk = 1.09 - 2 * value.m * moments.signal + value.q * moments.power
    assert limit.risk == pytest.approx(risk, abs=2e-3)
    assert limit.risk > bayes_risk(task, noise=0.3)


@pytest.mark.parametrize("activation", ["softmax", "linear", Erf(offset=-0.5), "softplus"])
@pytest.mark.parametrize("task", [SPIKED, MAX])
def test_no_data_is_the_null_predictor(task, activation):
    limit = fast(task, activation, alpha=1e-3, ridge=1.0)
    assert limit.risk == pytest.approx(1.09, abs=0.01)
    assert abs(limit.value.m) < 0.01


@pytest.mark.parametrize("task, activation", [
    (SPIKED, "softmax"), (SPIKED, "linear"), (SPIKED, "softplus"), (SPIKED, Erf(offset=-0.5)),
    (MAX, "linear"), (MaxSLR(3.0, 3), "softmax")])
def test_infinite_data_is_the_population_risk(task, activation):
    """The excess over the population risk falls with alpha."""
    best = population_risk(task, activation, noise=0.3).risk
    limits = [fast(task, activation, alpha=alpha, ridge=0.1) for alpha in (300, 1200)]
    near, far = (limit.risk - best for limit in limits)
    error = 4 * (limits[0].standard_error + limits[1].standard_error)
    assert abs(far) < 0.005 + error and abs(near) < 0.02 + error and error < 0.02
    assert far < near / 2 + error


def test_bayes_is_below_tuned_softmax_and_softmax_below_tuned_linear():
    best = {name: min(fast(SPIKED, name, alpha=8.0, ridge=ridge).risk for ridge in (0.5, 1.0, 4.0))
            for name in ("softmax", "linear")}
    assert solve_bayes(SPIKED, alpha=8.0, noise=0.3, samples=2**12).risk < best["softmax"] - 0.05
    assert best["softmax"] < best["linear"] - 0.1


def test_one_large_ridge_favours_linear():
    softmax, linear = (fast(SPIKED, name, alpha=20.0, ridge=8.0) for name in ("softmax", "linear"))
    assert softmax.risk > linear.risk + 0.05
    assert softmax.key.m < 1.0 < SPIKED.key_scale  # the ridge holds down the key scale


@pytest.mark.parametrize("task, activation, alpha", [
    (SpikedSLR(4.0, 2), Softmax(), 4), (SPIKED, Sigmoid(offset=-1.5), 6), (SPIKED, Exponential(), 6),
    (SPIKED, Softplus(offset=-1.0, power=2.0), 6), (MAX, Softplus(normalised=False), 6)])
def test_against_training_at_finite_dimension(task, activation, alpha):
    """Objective, loss, risk and overlaps of L-BFGS at D = 400, over independent teachers."""
    limit = fast(task, activation, alpha=alpha, ridge=1.0)
    rows = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        fit = fit_erm(task.sample(alpha * 400, 400, noise=0.3, rng=rng), activation, ridge=1.0,
                      progress=False)
        risk, _ = generalization_error(fit, task, n=2**16, rng=rng, noise=0.3)
        rows.append([fit.free_energy, fit.train_loss, risk, *fit.overlaps[:4]])
    rows = np.array(rows)
    mean, error = rows.mean(axis=0), rows.std(axis=0, ddof=1) / math.sqrt(len(rows))
    theory = [limit.free_energy, limit.train_loss, limit.risk, limit.key.m, limit.key.q,
              limit.value.m, limit.value.q]
    # beyond the error bar, corrections of order 1/D
    assert np.all(np.abs(mean - theory) < 4 * error + 5 / 400)


def test_scramblings_agree_within_their_errors():
    one, other = (fast(SPIKED, "softmax", alpha=8.0, ridge=1.0, seed=seed) for seed in (0, 100))
    assert abs(one.risk - other.risk) < 6 * math.hypot(one.standard_error, other.standard_error)
    assert one.standard_error < 1e-3
    again = fast(SPIKED, "softmax", alpha=8.0, ridge=1.0, seed=0)
    assert again == one  # deterministic


def test_starts_lead_to_one_solution_at_moderate_ridge():
    informed = fast(SPIKED, "softmax", alpha=8.0, ridge=1.0)
    for start in ("uninformed", informed, (0.5, 0.9, 0.3, -0.2, 0.9, 0.3)):
        limit = fast(SPIKED, "softmax", alpha=8.0, ridge=1.0, start=start)
        assert limit.risk == pytest.approx(informed.risk, abs=1e-5)


def test_fixed_points_are_distinct_and_sorted():
    """Linear attention near interpolation: the continuation finds a second solution."""
    found = erm_fixed_points(SPIKED, "linear", alpha=5.0, ridge=0.1, noise=0.3, samples=2**11,
                             scrambles=2)
    assert len(found) >= 2
    energies = [limit.free_energy for limit in found]
    assert energies == sorted(energies) and all(limit.converged for limit in found)
    assert found[0].risk < 1.5 < 4 < max(limit.risk for limit in found)


def test_failure_is_an_error_or_a_fact():
    arguments = dict(task=SPIKED, activation="softmax", alpha=8.0, ridge=1.0, max_iterations=3)
    with pytest.raises(ConvergenceError, match="limit on iterations.*raise max_iterations") as caught:
        fast(**arguments)
    state = caught.value.state
    assert isinstance(state, ErmLimit) and not state.converged and state.residual > 1e-6
    assert caught.value.reason == "the limit on iterations was reached"
    limit = fast(**arguments, strict=False)
    assert not limit.converged and limit.message in str(caught.value)
    assert math.isfinite(limit.risk) and math.isfinite(limit.residual)


def test_sweep_orders_and_warms_its_points():
    solver = partial(fast, SPIKED, noise=0.3)
    grid = {"activation": ["softmax", "linear"], "ridge": [1.0], "alpha": [8.0, 4.0]}
    warm = sweep(solver, grid, progress=False)
    assert [(limit.activation.name, limit.alpha) for limit in warm] == [
        ("softmax", 8.0), ("softmax", 4.0), ("linear", 8.0), ("linear", 4.0)]
    cold = sweep(solver, grid, warm_start=False, progress=False, jobs=2)
    for one, other in zip(warm, cold):
        assert one.risk == pytest.approx(other.risk, abs=1e-5)
    assert warm[0] == cold[0]


def test_sweep_does_not_warm_from_a_failure():
    starts = []

    def solver(alpha, start="default"):
        starts.append(start)
        return fast(SPIKED, "linear", alpha=alpha, ridge=1.0, samples=2**8, strict=False,
                    max_iterations=2 if alpha == 8.0 else 100)

    first, second, third = sweep(solver, {"alpha": [8.0, 6.0, 5.0]}, progress=False)
    assert starts == ["default", "default", second] and not first.converged and third.converged


BAD = [
    (dict(task="spiked"), "task must be a SpikedSLR or a MaxSLR; got 'spiked'"),
    (dict(activation="relu"), "activation must be one of .*; got 'relu'"),
    (dict(activation=Erf()), "offset of erf must be a number here; got None"),
    (dict(activation=Softplus(offset=None)), "offset of softplus must be a number here; got None"),
    (dict(alpha=0.0), "alpha must be a number > 0, finite; got 0.0"),
    (dict(alpha=math.inf), "alpha must be .*; got inf"),
    (dict(alpha=math.nan), "alpha must be .*; got nan"),
    (dict(ridge=0.0), "ridge r_k must be a number > 0, finite; got 0.0"),
    (dict(ridge=(1.0, -1.0)), "ridge r_v must be .*; got -1.0"),
    (dict(ridge=(1.0, 1.0, 1.0)), r"ridge must be a number > 0 or a pair \(r_k, r_v\); got"),
    (dict(ridge="big"), "ridge must be a number > 0 or a pair .*; got 'big'"),
    (dict(noise=-0.1), "noise must be a number >= 0, finite; got -0.1"),
    (dict(samples=1000), "samples must be a power of two; got 1000"),
    (dict(samples=32), "samples must be an integer >= 64; got 32"),
    (dict(scrambles=1), "scrambles must be an integer >= 2; got 1"),
    (dict(seed=-1), "seed must be an integer >= 0; got -1"),
    (dict(tolerance=0.0), "tolerance must be a number > 0, finite; got 0.0"),
    (dict(max_iterations=0), "max_iterations must be an integer >= 1; got 0"),
    (dict(start="cold"), "start must be one of 'informed', 'uninformed'; got 'cold'"),
    (dict(start=(1.0, 0.5, 1.0, 0.0, 1.0, 1.0)), r"start must be .* q >= m\*\*2 and V > 0; got"),
    (dict(start=(0.0, 0.5, 0.0, 0.0, 1.0, 1.0)), "start must be .*; got"),
    (dict(start=(0.0, 0.5)), "start must be .*; got"),
    (dict(task=SpikedSLR(1.0, 10**6)), "length must be at most 7000 here; got 1000000"),
]


@pytest.mark.parametrize("change, message", BAD)
def test_bad_input_names_the_argument(change, message):
    arguments = dict(task=SPIKED, activation="softmax", alpha=8.0, ridge=1.0, noise=0.3) | change
    with pytest.raises(ValueError, match=message):
        solve_erm(**arguments)


@pytest.mark.parametrize("grid, jobs, message", [
    ({}, 1, "grid must give at least one value for each parameter"),
    ({"alpha": []}, 1, "grid must give at least one value for each parameter"),
    ({"alpha": [1.0]}, 0, "jobs must be an integer >= 1, or -1 for all cores; got 0"),
    ({"alpha": [1.0]}, -2, "jobs must be an integer >= -1; got -2")])
def test_bad_sweeps(grid, jobs, message):
    with pytest.raises(ValueError, match=message):
        sweep(fast, grid, jobs=jobs)
