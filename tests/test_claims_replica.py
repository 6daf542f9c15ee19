"""The claims of the chapter "The replica derivation"."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from slrbook import MaxSLR, Softmax, SpikedSLR, fit_erm, generalization_error
from slrbook.bayes_limit import solve_bayes
from slrbook.proximal import encode, proximal_points
from slrbook.state_evolution import ErmEquations, solve_erm
from slrbook.widgets import Proximal

TASK, NOISE = SpikedSLR(2, 3), 0.3


def limit(alpha=8, ridge=1.0, task=TASK, activation="softmax"):
    return solve_erm(task, activation, alpha=alpha, ridge=ridge, noise=NOISE, samples=2**12)


def train(seed, D, alpha=8, ridge=1.0, task=TASK, activation="softmax"):
    sample = task.sample(alpha * D, D, noise=NOISE, rng=seed)
    return sample, fit_erm(sample, activation, ridge=ridge, progress=False)


@pytest.mark.parametrize("activation", ["softmax", "linear"])
@pytest.mark.parametrize("task", [TASK, MaxSLR(math.inf, 3)], ids=["spiked", "max"])
def test_trained_layers_agree_with_the_equations(task, activation):
    theory, rows = limit(task=task, activation=activation), []
    for seed in range(12):
        _, layer = train(seed, 150, task=task, activation=activation)
        assert layer.converged
        risk, _ = generalization_error(layer, task, n=10_000, rng=seed, noise=NOISE)
        rows.append([layer.free_energy, layer.train_loss, risk, *layer.overlaps[:4]])
    expected = [theory.free_energy, theory.train_loss, theory.risk, *theory.key[:2],
                *theory.value[:2]]
    mean, error = np.mean(rows, axis=0), np.std(rows, axis=0, ddof=1) / math.sqrt(len(rows))
    assert np.all(abs(mean - expected) < 4 * error)
    assert np.all(error < 0.03 * abs(mean))  # the bars are small enough to mean something


def test_free_energy_is_stationary_and_is_the_sum_of_its_parts():
    theory = limit()
    equations = ErmEquations(TASK, "softmax", alpha=8, ridge=1.0, noise=NOISE, samples=2**12,
                             seed=0)
    kind = type(theory.key)
    x = np.array([*theory.key, *theory.value])
    for _ in range(30):
        hats = equations.hats(kind(*x[:3]), kind(*x[3:]))
        x = np.concatenate(equations.overlaps(*hats))
    point = np.array([x, np.concatenate(hats)])

    def energy(point):
        (key, value), (key_hat, value_hat) = point.reshape(2, 2, 3)
        return equations.free_energy(kind(*key), kind(*value), key_hat, value_hat, search=True)

    h = 1e-4
    for index in np.ndindex(point.shape):
        move = np.zeros_like(point)
        move[index] = h
        assert abs(energy(point + move) - energy(point - move)) / (2 * h) < 1e-4
    shifted = point.copy()
    shifted[0, 0] *= 1.02
    move = np.zeros_like(point)
    move[0, 0] = h
    assert abs(energy(shifted + move) - energy(shifted - move)) / (2 * h) > 1e-3
    parts = 8 * theory.train_loss + (theory.key.q + theory.value.q) / 2
    assert theory.free_energy == pytest.approx(parts, abs=1e-5)


def proximal(omega, w, y, V, start=None):
    shift = np.zeros_like(omega) if start is None else start - omega
    proximal_points(encode(Softmax()), omega, w, y, *V, shift, start is None, 0.0)
    return omega + shift


@pytest.mark.parametrize("alpha, ridge, jumps", [(8, 1.0, False), (2, 0.2, True)])
def test_the_derivative_form_misses_the_jumps(alpha, ridge, jumps):
    theory = limit(alpha, ridge)
    rng, n = np.random.default_rng(8), 2**15
    data = TASK.sample(n, 2, noise=NOISE, rng=rng)
    stars = [data.tokens @ star / math.sqrt(2) for star in (data.key_star, data.value_star)]
    b = rng.standard_normal((2, n, 3))
    spread = [math.sqrt(part.q - part.m**2) for part in (theory.key, theory.value)]
    omega, w = (part.m * star + s * noise for part, star, s, noise
                in zip((theory.key, theory.value), stars, spread, b))
    V, h = (theory.key.V, theory.value.V), 1e-4

    def forces(omega, w, start=None):
        chi = proximal(omega, w, data.label, V, start)
        weights = Softmax()(chi)
        e = data.label - (weights * w).sum(axis=1)
        d = 1 + V[1] * (weights**2).sum(axis=1)
        return chi, ((chi - omega) / V[0], weights * (e / d)[:, None])

    chi, f = forces(omega, w)
    slopes = np.zeros((2, n))
    for token, sign in ((token, sign) for token in range(3) for sign in (1, -1)):
        shift = sign * h * np.eye(3)[token]
        slopes[0] += sign * forces(omega + shift, w, chi)[1][0][:, token] / (2 * h)
        slopes[1] += sign * forces(omega, w + shift, chi)[1][1][:, token] / (2 * h)
    for i in (0, 1):
        stein = -alpha * (f[i] * b[i]).sum(axis=1) / spread[i]
        excess = -alpha * slopes[i] - stein
        error = excess.std() / math.sqrt(n)
        solved = 1 / V[i] - ridge
        assert abs(stein.mean() - solved) < 4 * stein.std() / math.sqrt(n)
        if jumps:
            assert excess.mean() > 4 * error and excess.mean() > 0.05 * solved
        else:
            assert abs(excess.mean()) < 4 * error


def test_v_is_the_trace_of_the_inverse_hessian():
    D, traces = 60, []
    for seed in range(4):
        sample, layer = train(seed, D)
        tokens, label = torch.from_numpy(sample.tokens), torch.from_numpy(sample.label)

        def objective(both):
            chi, z = (tokens @ part / math.sqrt(D) for part in (both[:D], both[D:]))
            error = label - (torch.softmax(chi, dim=1) * z).sum(dim=1)
            return (error @ error + both @ both) / 2

        both = torch.from_numpy(np.concatenate([layer.key, layer.value]))
        inverse = torch.linalg.inv(torch.autograd.functional.hessian(objective, both))
        traces.append([inverse.diagonal()[:D].sum() / D, inverse.diagonal()[D:].sum() / D])
    theory = limit()
    assert np.mean(traces, axis=0) == pytest.approx([theory.key.V, theory.value.V], rel=0.05)


def test_the_proximal_map_is_what_training_does_to_a_sequence():
    D, count = 120, 25
    sample, layer = train(1, D)
    theory, steps, rest = limit(), [], []
    for mu in range(count):
        fewer = sample._replace(**{name: np.delete(getattr(sample, name), mu, axis=0)
                                   for name in ("tokens", "mask", "location", "label")})
        other = fit_erm(fewer, "softmax", ridge=1.0, start=(layer.key, layer.value),
                        progress=False)
        omega, w = (sample.tokens[mu:mu + 1] @ part / math.sqrt(D)
                    for part in (other.key, other.value))
        predicted = proximal(omega, w, sample.label[mu:mu + 1], (theory.key.V, theory.value.V))
        actual = sample.tokens[mu] @ layer.key / math.sqrt(D)
        steps.append(actual - omega[0])
        rest.append(actual - predicted[0])
    assert np.square(rest).mean() < 0.1 * np.square(steps).mean()


def test_one_token_is_ridge_regression():
    alpha, task = 2, SpikedSLR(0, 1)
    for r in (NOISE**2, 0.5):
        half = (r + alpha - 1) / 2
        V = 1 / (half + math.sqrt(half**2 + r))
        m, gain = alpha * V / (1 + V), alpha * (V / (1 + V)) ** 2
        q = (m**2 + gain * (1 + NOISE**2 - 2 * m)) / (1 - gain)
        theory = solve_erm(task, "softmax", alpha=alpha, ridge=(1.0, r), noise=NOISE,
                           samples=2**12)
        close = 1e-4 + 5 * np.array(theory.value_error)
        assert np.all(abs(np.array(theory.value) - [m, q, V]) < close)
        if r == NOISE**2:  # the prior's own ridge
            best = solve_bayes(task, alpha=alpha, noise=NOISE, samples=2**12)
            assert m == pytest.approx(q, abs=1e-12)
            assert best.risk == pytest.approx(1 + NOISE**2 - q,
                                              abs=1e-4 + 5 * best.standard_error)


@pytest.mark.parametrize("state", [(-7.2, 6.0, 2.0, 0.2), (-7.0, 6.0, 2.0, 0.2),
                                   (3.0, 12.0, -3.0, 0.0), (0.0, 0.2, 3.0, 3.0)])
def test_the_figure_finds_the_lowest_minimum(state):
    figure = Proximal(*state)
    omega, v_k, y, v_v = state
    delta, value = figure.minimum()
    grid = np.linspace(-30, 30, 600_001)
    s = 1 / (1 + np.exp(-grid))
    bracket = ((grid - omega) ** 2 / (4 * v_k)
               + (y - s + (1 - s)) ** 2 / (2 * (1 + v_v * (s**2 + (1 - s) ** 2))))
    assert value == pytest.approx(bracket.min(), abs=1e-8)
    assert delta == pytest.approx(grid[bracket.argmin()], abs=1e-3)


def test_the_figure_jumps():
    before, after = (Proximal(omega, 6.0, 2.0, 0.2).minimum() for omega in (-7.1, -7.0))
    assert after[0] - before[0] > 5 and abs(after[1] - before[1]) < 0.1


@pytest.mark.parametrize("wrong, message", [
    ({"omega": 9}, "omega must lie between -8 and 8; got 9"),
    ({"v_k": 0}, "v_k must lie between 0.2 and 12; got 0"),
    ({"y": math.nan}, "y must lie between -3 and 3; got nan"),
    ({"v_v": -1}, "v_v must lie between 0 and 3; got -1"),
])
def test_the_figure_refuses_what_it_cannot_draw(wrong, message):
    with pytest.raises(ValueError, match=message):
        Proximal(**wrong)
