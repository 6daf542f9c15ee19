"""Samples of both tasks against their definitions, and the law of the length."""

import math
import tracemalloc

import numpy as np
import pytest

from slrbook import MaxSLR, SpikedSLR, attention_moments, bayes_risk
from slrbook.lengths import as_lengths

INF = math.inf


def projections(data):
    scale = math.sqrt(data.key_star.size)
    return data.tokens @ data.key_star / scale, data.tokens @ data.value_star / scale


def close(sample, expected, errors=4.5):
    """The mean of independent draws is within ``errors`` standard errors of ``expected``."""
    sample = np.asarray(sample, dtype=float)
    standard_error = sample.std(ddof=1) / math.sqrt(sample.size)
    assert abs(sample.mean() - expected) <= errors * standard_error + 1e-12


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("task", [SpikedSLR(3.0, 3), SpikedSLR(2.0, {1: 0.3, 4: 0.7}),
                                  MaxSLR(2.0, {2: 0.5, 3: 0.5}), MaxSLR(INF, 3)])
def test_samples_follow_the_definition(task, dtype):
    data = task.sample(20_000, 30, noise=0.5, rng=1, dtype=dtype)
    chi, z = projections(data)
    rows = np.arange(len(data.label))
    length = data.mask.sum(axis=1)
    assert data.tokens.dtype == dtype and data.label.dtype == np.float64
    assert data.mask[rows, data.location].all() and not data.tokens[~data.mask].any()
    assert (np.diff(data.mask.astype(int), axis=1) <= 0).all()  # padding comes last
    close(length, task.length.mean)
    # the label is the value of the relevant token plus noise
    xi = (data.label - z[rows, data.location]) / 0.5
    close(xi, 0.0)
    close(xi**2, 1.0)
    # the hidden directions
    dim = data.key_star.size
    assert data.key_star @ data.key_star == pytest.approx(dim)
    assert data.value_star @ data.value_star == pytest.approx(dim)
    assert data.key_star @ data.value_star == pytest.approx(0, abs=1e-10)
    # the values are standard normal, and say nothing of the location
    close(z[data.mask], 0.0)
    close(z[data.mask] ** 2, 1.0)
    others = data.mask.copy()
    others[rows, data.location] = False
    if isinstance(task, SpikedSLR):
        close(chi[rows, data.location], math.sqrt(task.nu))
        close(chi[others], 0.0)
        close(chi[others] ** 2, 1.0)
        close(data.location, ((task.length.mean - 1) / 2))
    else:
        close(chi[data.mask], 0.0)
        close(chi[data.mask] ** 2, 1.0)


@pytest.mark.parametrize("task", [SpikedSLR(3.0, 3), MaxSLR(2.0, {2: 0.5, 3: 0.5}),
                                  MaxSLR(INF, 3), SpikedSLR(0.0, 3)])
def test_location_posterior_is_calibrated(task):
    """Where the posterior of token 0 is near p, token 0 is the relevant one a fraction p of times."""
    data = task.sample(60_000, 2, rng=3)
    chi, _ = projections(data)
    posterior = task.location_posterior(chi, data.mask)
    assert posterior.sum(axis=1) == pytest.approx(1.0)
    assert not posterior[~data.mask].any()
    hit = data.location == 0
    for low in np.arange(0, 1, 0.1):
        chosen = (posterior[:, 0] >= low) & (posterior[:, 0] <= low + 0.1)
        if chosen.sum() > 100:
            close(hit[chosen] - posterior[chosen, 0], 0.0)


@pytest.mark.parametrize("task", [SpikedSLR(3.0, 3), SpikedSLR(4.0, {1: 0.2, 3: 0.8}),
                                  MaxSLR(2.0, 4), MaxSLR(INF, {2: 0.5, 5: 0.5})])
def test_simulated_risk_equals_the_population_risk(task):
    """At finite D the predictor along the hidden directions has exactly the population risk."""
    data = task.sample(40_000, 20, noise=0.3, rng=7)
    chi, z = projections(data)
    posterior = task.location_posterior(chi, data.mask)
    close((data.label - (posterior * z).sum(axis=1)) ** 2, bayes_risk(task, noise=0.3))
    for activation, scale in (("softmax", 0.8), ("linear", 0.7), ("softplus", 2.0)):
        from slrbook.activations import as_activation
        signal, power, _ = attention_moments(task, activation, scale)
        weights = as_activation(activation)(scale * chi, data.mask)
        error = data.label - 0.6 * (weights * z).sum(axis=1)
        close(error**2, 0.09 + 1 - 1.2 * signal + 0.36 * power)


def test_a_teacher_can_be_kept():
    task = SpikedSLR(2.0, 2)
    first = task.sample(10, 8, rng=0)
    again = task.sample(10, 8, rng=1, teacher=(first.key_star, first.value_star))
    assert (again.key_star == first.key_star).all() and not (again.tokens == first.tokens).any()


def test_seeds_decide():
    task = MaxSLR(2.0, {1: 0.5, 3: 0.5})
    one, two = task.sample(50, 6, noise=0.1, rng=5), task.sample(50, 6, noise=0.1, rng=5)
    assert all((a == b).all() for a, b in zip(one, two))
    other = task.sample(50, 6, noise=0.1, rng=6)
    assert (one.label != other.label).all()


def test_samples_are_made_in_place():
    """n=20,000, L=3, D=5,000 in float32 takes little more than the 1.2 GB of the tokens."""
    tracemalloc.start()
    data = SpikedSLR(2.0, 3).sample(20_000, 5_000, rng=0, dtype=np.float32)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert data.tokens.nbytes == 1_200_000_000 and peak < 1.15 * data.tokens.nbytes


def test_ties_share_the_posterior():
    posterior = MaxSLR(INF, 3).location_posterior([[1.0, 1.0, 0.0]])
    assert posterior.tolist() == [[0.5, 0.5, 0.0]]
    masked = MaxSLR(0.0, 3).location_posterior([1.0, 5.0, 0.0], [True, False, True])
    assert masked.tolist() == [0.5, 0.0, 0.5]


def test_permuting_tokens_permutes_the_posterior():
    rng = np.random.default_rng(0)
    chi = rng.standard_normal((4, 6))
    order = rng.permutation(6)
    for task in (SpikedSLR(3.0, 6), MaxSLR(2.0, 6), MaxSLR(INF, 6)):
        assert task.location_posterior(chi[:, order]) == pytest.approx(
            task.location_posterior(chi)[:, order])


def test_lengths():
    law = as_lengths({3: 0.25, 1: 0.75, 7: 0.0})
    assert law.values == (1, 3) and law.mean == 1.5 and law.max == 3
    assert law.expect(lambda n: n**2) == 3.0
    draws = law.sample(20_000, np.random.default_rng(0))
    close(draws == 3, 0.25)
    assert as_lengths(law) is law
    assert SpikedSLR(1, {2: 1.0}) == SpikedSLR(1.0, 2) and hash(MaxSLR(INF, 2))
