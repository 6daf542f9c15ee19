"""Training at finite N and D, against independent references and against the theory."""

import math
import subprocess
import sys

import numpy as np
import pytest
import torch

from slrbook.activations import (Erf, Exponential, Linear, Sigmoid, Softmax, Softplus,
                                 _Elementwise)
from slrbook.erm import _Problem, fit_erm, generalization_error
from slrbook.tasks import MaxSLR, SpikedSLR

ACTIVATIONS = [Softmax(), Linear(), Erf(offset=-0.4), Softplus(offset=0.3),
               Softplus(power=2.0, normalised=False), Exponential(), Sigmoid(offset=-0.5)]
LENGTHS = [3, {1: 0.3, 2: 0.3, 4: 0.4}]
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def sample():
    return SpikedSLR(nu=2.0, length=3).sample(800, 100, noise=0.3, rng=16)


def name(value):
    return getattr(value, "name", str(value))


def problem_of(data, activation, ridge=(0.7, 1.3)):
    return _Problem(data, activation, ridge, CPU)


def naive_objective(data, activation, ridge, key, value):
    """The objective as it is defined, one sequence at a time."""
    dim = key.size
    total = ridge[0] / 2 * key @ key + ridge[1] / 2 * value @ value
    for tokens, mask, label in zip(data.tokens, data.mask, data.label):
        chi, z = tokens[mask] @ key / math.sqrt(dim), tokens[mask] @ value / math.sqrt(dim)
        total += (label - activation(chi) @ z) ** 2 / 2
    return total


# --- the objective and its gradient ---------------------------------------------------------


@pytest.mark.parametrize("length", LENGTHS, ids=str)
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=name)
def test_gradient_against_finite_differences(activation, length):
    data = SpikedSLR(nu=2.0, length=length).sample(25, 6, noise=0.5, rng=1)
    problem = problem_of(data, activation)
    parameters = np.random.default_rng(2).standard_normal((2, 6))
    point = problem.start(parameters)
    assert point.objective == pytest.approx(
        naive_objective(data, activation, (0.7, 1.3), *parameters), rel=1e-12)
    step = 1e-5
    for index in np.ndindex(2, 6):
        shift = np.zeros((2, 6))
        shift[index] = step
        up, down = (naive_objective(data, activation, (0.7, 1.3), *(parameters + sign * shift))
                    for sign in (1, -1))
        assert point.gradient[index] == pytest.approx((up - down) / (2 * step), rel=1e-6, abs=1e-6)


def test_moving_adds_up_and_blocks_do_not_matter():
    data = SpikedSLR(nu=2.0, length=LENGTHS[1]).sample(40, 7, rng=3)
    problem, blocks = problem_of(data, Softmax()), problem_of(data, Softmax())
    blocks.block = 9  # 40 is no multiple
    here, move = np.random.default_rng(4).standard_normal((2, 2, 7))
    at_once = problem.start(here + move)
    for other in (problem.advance(problem.start(here), move), blocks.start(here + move)):
        assert other.objective == pytest.approx(at_once.objective, rel=1e-12)
        np.testing.assert_allclose(other.gradient, at_once.gradient, rtol=1e-9)
        np.testing.assert_allclose(other.projections, at_once.projections, rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
def test_line_search_meets_the_weak_wolfe_conditions(scale):
    data = SpikedSLR(nu=2.0, length=3).sample(60, 10, noise=0.3, rng=5)
    problem = problem_of(data, Softmax())
    point = problem.start(np.random.default_rng(6).standard_normal((2, 10)))
    move = -scale * problem.safe_steps(point, 60).min() * point.gradient
    length = problem.step_length(point, problem.advance(point, move), 1e-4)
    there = problem.start(point.parameters + length * move)
    slope_0, slope = ((p.gradient * move).sum() for p in (point, there))
    assert slope_0 < 0
    assert there.objective <= point.objective + 1e-4 * length * slope_0
    assert slope >= 0.9 * slope_0
    assert problem.step_length(point, problem.advance(point, -move), 1e-4) is None  # uphill


def test_minimum_has_no_slope_by_autograd():
    data = MaxSLR(nu=math.inf, length=3).sample(400, 50, noise=0.3, rng=7)
    fit = fit_erm(data, "softmax", ridge=(0.5, 2.0))
    key, value = (torch.from_numpy(d).requires_grad_() for d in (fit.key, fit.value))
    chi, z = (torch.from_numpy(data.tokens) @ d / math.sqrt(50) for d in (key, value))
    residual = (torch.softmax(chi, -1) * z).sum(-1) - torch.from_numpy(data.label)
    loss = (residual**2).sum() / 2
    objective = loss + 0.25 * key @ key + value @ value
    objective.backward()
    norm = torch.cat([key.grad, value.grad]).norm() * math.sqrt(50) * 2 / (data.label**2).sum()
    assert fit.converged and norm <= 1.01e-6
    assert fit.objective == pytest.approx(objective.item(), rel=1e-12)
    assert fit.free_energy == fit.objective / 50
    assert fit.train_loss == pytest.approx(loss.item() / 400, rel=1e-12)


# --- closed forms and symmetries ------------------------------------------------------------


def ridge_regression(inputs, label, ridge):
    return np.linalg.solve(inputs.T @ inputs + ridge * np.eye(inputs.shape[1]), inputs.T @ label)


def test_one_token_softmax_is_ridge_regression():
    data = SpikedSLR(nu=1.0, length=1).sample(80, 30, noise=0.2, rng=8)
    fit = fit_erm(data, "softmax", ridge=0.6, start="random", rng=9, tolerance=1e-9)
    exact = ridge_regression(data.tokens[:, 0] / math.sqrt(30), data.label, 0.6)
    np.testing.assert_allclose(fit.value, exact, atol=1e-6)
    np.testing.assert_allclose(fit.key, 0, atol=1e-6)


@pytest.mark.parametrize("length", [1, *LENGTHS], ids=str)
def test_linear_without_a_key_is_ridge_regression_on_the_sum(length):
    data = SpikedSLR(nu=1.0, length=length).sample(80, 30, noise=0.2, rng=10)
    fit = fit_erm(data, "linear", ridge=(1e5, 0.6))
    exact = ridge_regression(data.tokens.sum(axis=1) / math.sqrt(30), data.label, 0.6)
    assert fit.converged
    np.testing.assert_allclose(fit.value, exact, atol=1e-4)  # of order 1/r_k


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=name)
def test_order_of_sequences_and_of_tokens_does_not_matter(activation):
    data = SpikedSLR(nu=2.0, length=LENGTHS[1]).sample(300, 40, noise=0.3, rng=11)
    rows, columns = np.random.default_rng(12).permutation(300), [2, 0, 3, 1]
    shuffled = data._replace(tokens=data.tokens[rows][:, columns],
                             mask=data.mask[rows][:, columns], label=data.label[rows])
    fit, other = (fit_erm(sample, activation, ridge=1.0) for sample in (data, shuffled))
    assert fit.converged and other.converged
    assert other.objective == pytest.approx(fit.objective, rel=1e-9)
    np.testing.assert_allclose(other.key, fit.key, atol=1e-3)


def test_padding_does_not_matter():
    data = SpikedSLR(nu=2.0, length=2).sample(100, 20, noise=0.3, rng=13)
    padded = data._replace(tokens=np.concatenate([data.tokens, np.zeros((100, 3, 20))], axis=1),
                           mask=np.pad(data.mask, ((0, 0), (0, 3))))
    for activation in ACTIVATIONS:
        fit, other = (fit_erm(sample, activation, ridge=1.0) for sample in (data, padded))
        assert other.objective == pytest.approx(fit.objective, rel=1e-9)


def test_overlaps_are_the_scalar_products():
    data = SpikedSLR(nu=2.0, length=3).sample(50, 20, rng=14)
    fit = fit_erm(data, "softmax", ridge=1.0)
    k, v, k_star, v_star = fit.key, fit.value, data.key_star, data.value_star
    expected = [k @ k_star, k @ k, v @ v_star, v @ v, k @ v_star, v @ k_star, k @ v]
    np.testing.assert_allclose(fit.overlaps, np.array(expected) / 20, rtol=1e-9)


def test_very_different_ridges_cost_no_more(sample):
    for ridge in ((0.1, 10.0), (100.0, 1.0)):
        fit = fit_erm(sample, "softmax", ridge=ridge)
        assert fit.converged and fit.iterations < 80


@pytest.mark.filterwarnings("error")
def test_a_start_at_zero_without_a_ridge_on_the_key(sample):
    fits = [fit_erm(sample, "linear", ridge=(0.0, 1.0), start=start)
            for start in (np.zeros((2, 100)), "informed")]
    assert all(fit.converged for fit in fits)
    assert fits[0].objective == pytest.approx(fits[1].objective, rel=1e-9)


def test_an_activation_of_the_reader_works():
    class Cubic(_Elementwise):
        name = "cubic"

        def kernel(self, chi):
            return 1 + chi + chi**3 / 10

        def kernel_slope(self, chi):
            return 1 + 0.3 * chi**2

    data = SpikedSLR(nu=2.0, length=3).sample(800, 100, noise=0.3, rng=15)
    fit = fit_erm(data, Cubic(), ridge=1.0)
    assert fit.converged and fit.activation.name == "cubic"
    assert fit.objective < fit_erm(data, "linear", ridge=1.0, max_iterations=0).objective


# --- the optimisers -------------------------------------------------------------------------


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=name)
def test_gradient_descent_finds_the_minimum_of_lbfgs(sample, activation):
    fits = [fit_erm(sample, activation, ridge=1.0, optimizer=optimizer)
            for optimizer in ("lbfgs", "gd")]
    assert all(fit.converged for fit in fits)
    assert fits[1].objective == pytest.approx(fits[0].objective, rel=1e-9)
    np.testing.assert_allclose(fits[1].key, fits[0].key, atol=1e-3)
    for fit in fits:
        falls = np.diff([record.objective for record in fit.history])
        assert (falls <= 1e-10 * fit.objective).all()


def test_gradient_descent_with_a_given_rate_takes_those_steps(sample):
    fit = fit_erm(sample, "linear", ridge=1.0, optimizer="gd", learning_rate=0.01,
                  max_iterations=2)
    problem = problem_of(sample, Linear(), (1.0, 1.0))
    parameters = problem.stars
    for _ in range(2):
        parameters = parameters - 0.01 * problem.start(parameters).gradient
    np.testing.assert_allclose([fit.key, fit.value], parameters, rtol=1e-9)


@pytest.mark.parametrize("activation", ["softmax", "linear"])
def test_sgd_comes_near_the_minimum(sample, activation):
    best = fit_erm(sample, activation, ridge=1.0).objective
    options = dict(ridge=1.0, optimizer="sgd", start="random", max_iterations=30)
    fit = fit_erm(sample, activation, rng=17, **options)
    objectives = [record.objective for record in fit.history]
    assert objectives[0] > 2 * best
    assert best < objectives[-1] < 1.05 * best and objectives[-1] < objectives[3]
    assert not fit.converged and "raise max_iterations" in fit.message


def test_sgd_with_one_whole_batch_is_gradient_descent(sample):
    one = fit_erm(sample, "softmax", ridge=(0.0, 0.5), optimizer="sgd", batch=800, rng=0,
                  learning_rate=0.02, max_iterations=5)
    other = fit_erm(sample, "softmax", ridge=(0.0, 0.5), optimizer="gd", learning_rate=0.02,
                    max_iterations=5)
    np.testing.assert_allclose(one.key, other.key, rtol=1e-9)


@pytest.mark.parametrize("optimizer", ["lbfgs", "sgd"])
def test_the_seed_decides(sample, optimizer):
    runs = [fit_erm(sample, "softmax", ridge=1.0, start="random", optimizer=optimizer, rng=seed,
                    max_iterations=3) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(runs[0].key, runs[1].key)
    assert np.abs(runs[0].key - runs[2].key).max() > 1e-3


def test_start_is_where_the_history_begins(sample):
    key, value = 0.5 * sample.key_star, 2 * sample.value_star
    fit = fit_erm(sample, "softmax", ridge=1.0, start=(key, value), max_iterations=0)
    np.testing.assert_allclose(fit.overlaps[:4], [0.5, 0.25, 2, 4], rtol=1e-9)
    assert fit.iterations == 0 and not fit.converged
    again = fit_erm(sample, "softmax", ridge=1.0, start=(key, value))
    assert again.history[0] == fit.history[-1]
    done = fit_erm(sample, "softmax", ridge=1.0, start=(again.key, again.value), rng=None)
    assert done.converged and done.iterations == 0


def test_history_is_bounded_and_ends_at_the_end(sample):
    fit = fit_erm(sample, "softmax", ridge=1.0, optimizer="gd", learning_rate=1e-4,
                  max_iterations=700)
    iterations = [record.iteration for record in fit.history]
    assert iterations[0] == 0 and iterations[-1] == fit.iterations == 700
    assert 128 <= len(iterations) <= 257 and len(set(np.diff(iterations)[:-1])) == 1
    assert fit.history[-1].objective == fit.objective
    assert fit.history[-1].overlaps == fit.overlaps


@pytest.mark.parametrize("optimizer", ["gd", "sgd"])
def test_too_large_a_rate_is_reported_and_nothing_infinite_returned(sample, optimizer):
    fit = fit_erm(sample, "linear", ridge=1.0, optimizer=optimizer, learning_rate=100.0, rng=0)
    assert not fit.converged and "lower learning_rate" in fit.message
    assert np.isfinite([fit.objective, fit.train_loss, fit.gradient_norm, *fit.overlaps]).all()
    assert np.isfinite(fit.key).all() and np.isfinite(fit.value).all()


def test_an_impossible_tolerance_is_reported(sample):
    fit = fit_erm(sample, "softmax", ridge=1.0, tolerance=1e-18)
    assert not fit.converged and "lost in rounding" in fit.message
    assert fit.gradient_norm < 1e-8


# --- types, memory, devices -----------------------------------------------------------------


@pytest.mark.parametrize("activation", ["softmax", "linear"])
def test_float32_tokens_give_the_same_minimum(activation):
    narrow = SpikedSLR(nu=2.0, length=3).sample(2000, 250, noise=0.3, rng=18, dtype=np.float32)
    wide = narrow._replace(tokens=narrow.tokens.astype(float))
    fits = [fit_erm(data, activation, ridge=1.0) for data in (narrow, wide)]
    assert all(fit.converged for fit in fits)
    assert fits[0].objective == pytest.approx(fits[1].objective, rel=1e-10)
    np.testing.assert_allclose(fits[0].key, fits[1].key, atol=2e-4)
    # what is reported for float32 tokens is true in float64
    problem = problem_of(wide, fits[0].activation, (1.0, 1.0))
    true = problem.gradient_norm(problem.start(np.stack([fits[0].key, fits[0].value])))
    assert true == pytest.approx(fits[0].gradient_norm, rel=1e-3)


@pytest.mark.filterwarnings("error")
def test_tokens_may_be_read_only_and_are_left_alone(sample, tmp_path):
    np.save(tmp_path / "tokens.npy", sample.tokens)
    mapped = sample._replace(tokens=np.load(tmp_path / "tokens.npy", mmap_mode="r"))
    before = sample.tokens.copy()
    fits = [fit_erm(data, "softmax", ridge=1.0) for data in (sample, mapped)]
    np.testing.assert_array_equal(fits[0].key, fits[1].key)
    np.testing.assert_array_equal(sample.tokens, before)


def test_no_second_copy_of_the_tokens():
    script = """
import resource, numpy as np
from slrbook.erm import fit_erm
from slrbook.tasks import SpikedSLR
task = SpikedSLR(nu=2.0, length=3)
fit_erm(task.sample(500, 500, rng=0, dtype=np.float32), "softmax", ridge=1.0)
data = task.sample(12_000, 1_500, rng=0, dtype=np.float32)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
fit_erm(data, "softmax", ridge=1.0, max_iterations=4)
fit_erm(data, "softmax", ridge=1.0, max_iterations=1, optimizer="sgd", rng=0)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(1024 * (after - before) / data.tokens.nbytes)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert float(run.stdout) < 0.2


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cuda_finds_the_same_minimum(dtype):
    data = SpikedSLR(nu=2.0, length=LENGTHS[1]).sample(2000, 250, noise=0.3, rng=19, dtype=dtype)
    fits = [fit_erm(data, "softmax", ridge=1.0, device=device) for device in ("cpu", "cuda")]
    assert fits[1].converged
    assert fits[1].objective == pytest.approx(fits[0].objective, rel=1e-9)


def test_quick_work_shows_no_progress(sample, capsys):
    fit_erm(sample, "softmax", ridge=1.0)
    assert capsys.readouterr() == ("", "")


# --- the risk -------------------------------------------------------------------------------


def full_risk(fit, data):
    """Mean squared error and its standard error, from the tokens themselves."""
    chi, z = (data.tokens @ d / math.sqrt(fit.key.size) for d in (fit.key, fit.value))
    squares = (data.label - (fit.activation(chi, data.mask) * z).sum(axis=-1)) ** 2
    return squares.mean(), squares.std(ddof=1) / math.sqrt(len(squares))


@pytest.mark.parametrize("task", [SpikedSLR(2.0, 3), SpikedSLR(3.0, LENGTHS[1]),
                                  MaxSLR(math.inf, LENGTHS[1]), MaxSLR(2.0, 2)], ids=str)
@pytest.mark.parametrize("activation", [*ACTIVATIONS[:4], Sigmoid(offset=-0.5)],
                         ids=name)  # squares of steeper ones have no error bar at this key
def test_projected_risk_is_the_risk_of_whole_sequences(task, activation):
    data = task.sample(2, 30, noise=0.4, rng=20)
    k_star, v_star = data.key_star, data.value_star
    key = 0.7 * k_star + 0.3 * v_star + 0.5 * np.random.default_rng(21).standard_normal(30)
    fit = fit_erm(data, activation, ridge=1.0, start=(key, 0.8 * v_star - 0.4 * k_star + 0.3 * key),
                  max_iterations=0)  # far from the manifold
    assert min(np.abs(fit.overlaps[4:])) > 0.1
    fresh = task.sample(20_000, 30, noise=0.4, rng=22, teacher=(data.key_star, data.value_star))
    risk, error = generalization_error(fit, task, n=20_000, rng=23, noise=0.4)
    full, full_error = full_risk(fit, fresh)
    assert abs(risk - full) < 4 * math.hypot(error, full_error)
    assert error == pytest.approx(full_error, rel=0.2)


@pytest.mark.parametrize("dim", [2, 3, 4, 5])
def test_projected_risk_in_few_dimensions(dim):
    task = SpikedSLR(2.0, 3)
    data = task.sample(10, dim, noise=0.4, rng=24)
    fit = fit_erm(data, "softmax", ridge=1.0)
    fresh = task.sample(40_000, dim, noise=0.4, rng=25, teacher=(data.key_star, data.value_star))
    risk, error = generalization_error(fit, task, n=40_000, rng=26, noise=0.4)
    full, full_error = full_risk(fit, fresh)
    assert abs(risk - full) < 4 * math.hypot(error, full_error)


def test_risk_at_the_optimal_directions_is_the_bayes_risk():
    task = SpikedSLR(nu=2.0, length=3)  # theory notes, section 3: 0.35242327
    data = task.sample(10, 1000, rng=27)
    optimal = (task.key_scale * data.key_star, data.value_star)
    fit = fit_erm(data, "softmax", ridge=1.0, start=optimal, max_iterations=0)
    risk, error = generalization_error(fit, task, n=1_000_000, rng=28, noise=0.5)
    assert error < 1.2e-3
    assert abs(risk - (0.35242327 + 0.25)) < 4 * error


@pytest.mark.parametrize("activation, risk, overlaps, free_energy", [
    ("softmax", 0.581, (0.638, 0.592, 0.923, 0.934), 2.249),
    ("linear", 0.743, (0.452, 0.396, 0.317, 0.118), 1.906),
])
def test_theory_at_finite_alpha(activation, risk, overlaps, free_energy):
    """Theory notes, section 4: spiked, nu = 2, L = 3, alpha = 8, ridge 1, noise 0.3.

    The allowance beside 4 standard errors is 0.005, the accuracy of those values; corrections
    of order 1/D are of the same size at D = 400.
    """
    task = SpikedSLR(nu=2.0, length=3)
    measured = []
    for seed in range(8):
        data = task.sample(3200, 400, noise=0.3, rng=seed)
        fit = fit_erm(data, activation, ridge=1.0)
        assert fit.converged
        fresh, _ = generalization_error(fit, task, n=50_000, rng=1000 + seed, noise=0.3)
        measured.append([fresh, *fit.overlaps[:4], fit.free_energy, *fit.overlaps[4:]])
    errors = np.std(measured, axis=0, ddof=1) / math.sqrt(8)
    expected = np.array([risk, *overlaps, free_energy, 0, 0, 0])
    assert errors[0] < 0.01  # the comparison means something
    assert (np.abs(np.mean(measured, axis=0) - expected) < 4 * errors + 0.005).all()


# --- bad input ------------------------------------------------------------------------------

TINY = SpikedSLR(nu=1.0, length=2).sample(6, 4, rng=0)


@pytest.mark.parametrize("changes, message", [
    (dict(sequences=[1, 2]), "sequences must be Sequences, from task.sample; got list"),
    (dict(sequences=TINY._replace(tokens=TINY.tokens[0])),
     r"sequences.tokens must be a float32 or float64 array of shape \(n, L, D\); got float64"),
    (dict(sequences=TINY._replace(tokens=TINY.tokens.astype(int))), "got int64 of shape"),
    (dict(sequences=TINY._replace(label=TINY.label[:3])),
     r"sequences.label must have shape \(6,\); got \(3,\)"),
    (dict(sequences=TINY._replace(key_star=np.ones(5))),
     r"sequences.key_star must have shape \(4,\); got \(5,\)"),
    (dict(sequences=TINY._replace(mask=np.zeros((6, 2), bool))), "leave a token in every"),
    (dict(sequences=TINY._replace(label=np.full(6, np.nan))), "sequences.label must be finite"),
    (dict(sequences=TINY._replace(label=np.zeros(6))), "not zero everywhere; got values from 0"),
    (dict(sequences=TINY._replace(tokens=TINY.tokens * np.nan)), "sequences.tokens holds NaN"),
    (dict(activation="relu"), "activation must be one of .* got 'relu'"),
    (dict(activation="erf"), "offset of erf must be a number here; got None"),
    (dict(activation=Softplus(offset=None)), "offset of softplus must be a number here"),
    (dict(ridge=-1.0), "ridge must be a number >= 0, finite; got -1.0"),
    (dict(ridge=(1.0, math.nan)), "ridge must be a number >= 0, finite; got nan"),
    (dict(ridge=(1.0, 1.0, 1.0)), r"ridge must be a number or a pair \(r_k, r_v\); got \(1.0"),
    (dict(ridge=None), "ridge must be a number >= 0, finite; got None"),
    (dict(start="warm"), "start must be one of 'informed', 'random'; got 'warm'"),
    (dict(start=3), r"start must be 'informed', 'random' or a pair .* shape \(4,\); got 3"),
    (dict(start=(np.ones(4), np.ones(3))), r"a pair \(key, value\) of arrays of shape \(4,\)"),
    (dict(start=(np.ones(4), np.full(4, np.inf))), "start must hold finite numbers"),
    (dict(start="random"), "rng must be a numpy Generator or a seed .* got None"),
    (dict(optimizer="sgd"), "rng must be a numpy Generator or a seed .* got None"),
    (dict(optimizer="adam"), "optimizer must be one of 'lbfgs', 'gd', 'sgd'; got 'adam'"),
    (dict(device="tpu"), "device must be one of 'auto', 'cpu', 'cuda'; got 'tpu'"),
    (dict(tolerance=-1e-6), "tolerance must be a number >= 0, finite; got -1e-06"),
    (dict(max_iterations=-1), "max_iterations must be an integer >= 0; got -1"),
    (dict(max_iterations=1.5), "max_iterations must be an integer >= 0; got 1.5"),
    (dict(optimizer="gd", learning_rate=0.0), "learning_rate must be a number > 0, finite"),
    (dict(learning_rate=0.1), "learning_rate must be None for 'lbfgs'; got 0.1"),
    (dict(optimizer="gd", batch=2), "batch must be None for 'gd'; got 2"),
    (dict(optimizer="sgd", rng=0, batch=0), "batch must be an integer >= 1; got 0"),
    (dict(optimizer="sgd", rng=0, batch=7), "batch must be at most the number of sequences, 6"),
])
def test_bad_input_to_fit_erm(changes, message):
    arguments = dict(sequences=TINY, activation="softmax", ridge=1.0) | changes
    with pytest.raises(ValueError, match=message):
        fit_erm(arguments.pop("sequences"), arguments.pop("activation"), **arguments)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_cuda_is_not_promised_where_it_is_missing():
    with pytest.raises(ValueError, match="device must be 'auto' or 'cpu' on a machine without"):
        fit_erm(TINY, "softmax", ridge=1.0, device="cuda")


@pytest.mark.parametrize("changes, message", [
    (dict(n=1), "n must be an integer >= 2; got 1"),
    (dict(n=1e6), "n must be an integer >= 2; got 1000000.0"),
    (dict(rng=None), "rng must be a numpy Generator or a seed"),
    (dict(noise=-0.1), "noise must be a number >= 0, finite; got -0.1"),
])
def test_bad_input_to_generalization_error(changes, message):
    fit = fit_erm(TINY, "softmax", ridge=1.0, max_iterations=0)
    arguments = dict(n=100, rng=0, noise=0.1) | changes
    with pytest.raises(ValueError, match=message):
        generalization_error(fit, SpikedSLR(nu=1.0, length=2), **arguments)
