"""The claims of the chapters "A needle in a haystack" and "The model"."""

from __future__ import annotations

import math

import numpy as np
import pytest

from slrbook import Linear, MaxSLR, Softmax, SpikedSLR, bayes_risk, population_risk
from slrbook.widgets import Posterior

MIXED = {2: 1 / 3, 4: 1 / 3, 8: 1 / 3}


def projections(data):
    scale = math.sqrt(data.key_star.size)
    return data.tokens @ data.key_star / scale, data.tokens @ data.value_star / scale


def read(task, activation, data):
    """The weights of the best reader with this activation, and its squared errors."""
    best = population_risk(task, activation)
    chi, z = projections(data)
    weights = best.value_scale * activation(best.key_scale * chi)
    return weights, (data.label - (weights * z).sum(axis=1)) ** 2


def test_the_price_of_softmax_and_what_it_buys():
    d, task = 64, SpikedSLR(25, 4096)
    data = task.sample(4000, 2, rng=11)
    for activation, risk in ((Softmax(), 0.135), (Linear(), 0.994)):
        assert population_risk(task, activation).risk == pytest.approx(risk, abs=5e-4)
        _, error = read(task, activation, data)
        assert abs(error.mean() - risk) < 4 * error.std() / math.sqrt(error.size)

    def multiplications(length):  # softmax visits t keys and t values at step t, linear one matrix
        return sum(2 * t * d for t in range(1, length + 1)), 2 * d * d * length

    soft, linear = multiplications(4096)
    assert soft / linear == pytest.approx(32, abs=0.01)
    soft, linear = multiplications(2 * d - 1)
    assert soft == linear
    task = SpikedSLR(25, 2 * d - 1)
    assert population_risk(task, "softmax").risk < population_risk(task, "linear").risk / 10


def test_linear_attention_finds_the_needle_and_cannot_read_it_alone():
    n, task = 20_000, SpikedSLR(9, 12)
    data = task.sample(n, 50, rng=12)
    for activation, first, risk in ((Softmax(), 0.889, 0.161), (Linear(), 0.878, 0.543)):
        weights, error = read(task, activation, data)
        found = (abs(weights).argmax(axis=1) == data.location).mean()
        assert found == pytest.approx(first, abs=0.01)
        assert population_risk(task, activation).risk == pytest.approx(risk, abs=1e-3)
        needle = weights[np.arange(n), data.location]
        missed_and_spilled = (1 - needle) ** 2 + (weights**2).sum(axis=1) - needle**2
        for estimate in (error, missed_and_spilled, 1 - needle):
            assert abs(estimate.mean() - risk) < 4 * estimate.std() / math.sqrt(n) + 5e-4


@pytest.mark.parametrize("nu, linear, softmax", [(9, 10, 1.6e2), (16, 17, 5.2e3), (25, 26, 4.8e5)])
def test_how_long_a_sequence_each_reader_copes_with(nu, linear, softmax):
    def risk(activation, length):
        return population_risk(SpikedSLR(nu, length), activation).risk

    assert risk("linear", linear) <= 0.5 < risk("linear", linear + 1)
    assert risk("softmax", int(softmax * 0.96)) < 0.5 < risk("softmax", int(softmax * 1.04))


@pytest.mark.parametrize("task", [SpikedSLR(1, MIXED), MaxSLR(2, MIXED), MaxSLR(0.5, 3)])
def test_both_tasks_are_one_weighted_model(task):
    n = 200_000
    blank = SpikedSLR(0, task.length).sample(n, 2, rng=13)  # normal tokens, uniform location
    chi, _ = projections(blank)
    if isinstance(task, SpikedSLR):
        weight = np.exp(math.sqrt(task.nu) * chi[np.arange(n), blank.location] - task.nu / 2)
    else:
        tilt = np.where(blank.mask, np.exp(task.nu * chi), 0)
        weight = (blank.mask.sum(axis=1) * tilt[np.arange(n), blank.location] / tilt.sum(axis=1))

    def statistics(data):
        scores, values = projections(data)
        here = scores[np.arange(n), data.location]
        return np.array([np.ones(n), here, here**2, here**3, scores.sum(axis=1), scores.max(axis=1),
                         np.square(scores).sum(axis=1), data.location, data.label**2,
                         here * data.label, data.mask.sum(axis=1) * here])

    drawn, weighted = statistics(task.sample(n, 2, rng=14)), weight * statistics(blank)
    error = np.sqrt((drawn.var(axis=1) + weighted.var(axis=1)) / n)
    assert np.all(abs(drawn.mean(axis=1) - weighted.mean(axis=1)) < 4 * error)


@pytest.mark.parametrize("task", [SpikedSLR(4, MIXED), MaxSLR(2, MIXED)])
def test_the_posterior_is_calibrated_and_a_doubled_scale_is_not(task):
    n = 100_000
    data = task.sample(n, 2, rng=15)
    chi, _ = projections(data)

    def deviations(posterior):
        """In each bin: observed minus expected hits, in standard deviations given the tokens."""
        found = []
        for low in np.arange(0, 1, 0.1):
            inside = (posterior > low) & (posterior <= low + 0.1) & data.mask
            mass = (posterior * inside).sum(axis=1)
            hits = inside[np.arange(n), data.location].sum()
            found.append((hits - mass.sum()) / math.sqrt((mass * (1 - mass)).sum()))
        return np.abs(found)

    assert deviations(task.location_posterior(chi, data.mask)).max() < 4
    assert deviations(task.location_posterior(2 * chi, data.mask)).max() > 20


def test_a_doubled_scale_observes_what_the_ledger_says():
    task = SpikedSLR(4, MIXED)
    data = task.sample(100_000, 2, rng=4)
    chi, _ = projections(data)
    posterior = task.location_posterior(2 * chi, data.mask)
    inside = (posterior > 0.7) & (posterior <= 0.8) & data.mask
    observed = inside[np.arange(100_000), data.location].sum() / inside.sum()
    assert posterior[inside].mean() == pytest.approx(0.75, abs=0.01)
    assert observed == pytest.approx(0.57, abs=0.02)


def test_tokens_alone_betray_the_key_in_the_spiked_task_only():
    dim, n, length, nu = 200, 2000, 3, 4
    cosine = {}
    for task in (SpikedSLR(nu, length), MaxSLR(nu, length)):
        squares = []
        for seed in range(8):
            data = task.sample(n, dim, rng=seed)
            mean = data.tokens.mean(axis=(0, 1))
            squares.append((mean @ data.key_star) ** 2 / (mean @ mean * dim))
        cosine[type(task)] = np.mean(squares)
    signal = nu / length**2
    assert cosine[SpikedSLR] == pytest.approx(signal / (signal + dim / (n * length)), abs=0.01)
    assert cosine[MaxSLR] < 0.03  # 1/D on average, were the mean a random direction


@pytest.mark.parametrize("kind, nu", [(SpikedSLR, 0.5), (SpikedSLR, 5), (MaxSLR, 0.5), (MaxSLR, 3)])
def test_the_best_reader_gains_from_variable_length(kind, nu):
    fixed, varied, extreme = (bayes_risk(kind(nu, length))
                              for length in (2, {1: 1 / 3, 2: 1 / 3, 3: 1 / 3}, {1: 0.5, 3: 0.5}))
    assert fixed > varied > extreme
    by_length = np.array([bayes_risk(kind(nu, length)) for length in range(1, 30)])
    assert np.all(np.diff(by_length) > 0) and np.all(np.diff(by_length, 2) < 0)


@pytest.mark.parametrize("task", ["spiked", "max"])
@pytest.mark.parametrize("nu, length", [(0.0, 1), (3.0, 5), (25.0, 20)])
def test_the_posterior_figure_follows_the_definition(task, nu, length):
    figure = Posterior(rng=5, task=task, nu=nu, length=length)
    kind = {"spiked": SpikedSLR, "max": MaxSLR}[task]
    for sequence in range(len(figure.normals)):
        figure.sequence = sequence
        base = figure.normals[sequence][:length]
        location = figure.location()
        assert 0 <= location < length
        shift = math.sqrt(nu) if task == "spiked" else 0.0
        assert figure.scores()[location] == base[location] + shift
        tilt = np.exp(kind(nu, length).key_scale * np.array(figure.scores()))
        assert figure.posterior() == pytest.approx(tilt / tilt.sum())
    assert len(figure.posterior()) == length


def test_the_posterior_figure_draws_locations_with_the_right_frequency():
    hits = []
    for seed in range(300):
        figure = Posterior(rng=seed, task="max", nu=1.5, length=4)
        for sequence in range(len(figure.normals)):
            figure.sequence = sequence
            posterior = figure.posterior()
            top = int(np.argmax(posterior))
            hits.append((figure.location() == top) - posterior[top])
    assert abs(np.mean(hits)) < 4 * np.std(hits) / math.sqrt(len(hits))


@pytest.mark.parametrize("wrong, message", [
    ({"task": "both"}, "task must be one of spiked, max; got 'both'"),
    ({"nu": -1}, "nu must lie between 0 and 25; got -1"),
    ({"nu": math.nan}, "nu must lie between 0 and 25; got nan"),
    ({"length": 0}, "length must lie between 1 and 20; got 0"),
    ({"length": 21}, "length must lie between 1 and 20; got 21"),
])
def test_the_posterior_figure_refuses_what_it_cannot_draw(wrong, message):
    with pytest.raises(ValueError, match=message):
        Posterior(**wrong)
