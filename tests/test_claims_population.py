"""The claims of the chapters "Population risk" and "Nishimori optimality"."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.special import expit, ndtr

from slrbook import (Erf, Linear, MaxSLR, Softmax, Softplus, SpikedSLR, attention_moments,
                     bayes_risk, overlap_risk, population_risk, risk_at)
from slrbook.widgets import RiskCurves, Temperature

INF = math.inf
UNIFORM = {1: 1 / 3, 2: 1 / 3, 3: 1 / 3}
TASKS = [SpikedSLR(4, 3), MaxSLR(4, 3)]


def density(x):
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def expected_maximum(length):
    return quad(lambda x: x * length * density(x) * ndtr(x) ** (length - 1), -12, 12,
                epsabs=1e-12, limit=200)[0]


def two_tokens(nu):
    """The Bayes risk of the spiked task at L = 2, by an integral of one positive function."""
    integral = quad(lambda h: math.exp(-h * h / (4 * nu)) / math.cosh(h / 2), 0, 200,
                    epsabs=0, epsrel=1e-13, limit=500)[0]
    return math.exp(-nu / 4) / math.sqrt(4 * math.pi * nu) * integral


# Population risk

@pytest.mark.parametrize("dim", [5, 300])
@pytest.mark.parametrize("task", TASKS)
def test_the_risk_is_a_function_of_the_overlaps(task, dim):
    rng = np.random.default_rng(21)
    frame = math.sqrt(dim) * np.linalg.qr(rng.standard_normal((dim, 4)))[0].T
    key_star, value_star = frame[:2]
    for k, v in (([0.8, 0.2, 0.3, 0.0], [0.1, 0.5, -0.1, 0.1]),
                 ([1.2, -0.3, 0.0, 0.4], [0.3, 0.4, 0.0, 0.2])):
        k, v = np.array(k) @ frame, np.array(v) @ frame
        theory_at = dict(m_k=k @ key_star, q_k=k @ k, m_v=v @ value_star, q_v=v @ v,
                         k_value_star=k @ value_star, v_key_star=v @ key_star, k_v=k @ v)
        theory_at = {name: value / dim for name, value in theory_at.items()}
        data = task.sample(10_000, dim, rng=22, teacher=(key_star, value_star))
        chi, z = data.tokens @ k / math.sqrt(dim), data.tokens @ v / math.sqrt(dim)
        for activation in (Softmax(), Linear(), Erf(-0.5), Softplus()):
            error = (data.label - (activation(chi) * z).sum(axis=1)) ** 2
            theory = overlap_risk(task, activation, **theory_at)
            deviation = math.hypot(error.std() / 100, theory.standard_error)
            assert abs(error.mean() - theory.risk) < 4 * deviation


@pytest.mark.parametrize("name", ["softmax", "linear", "erf", "softplus"])
@pytest.mark.parametrize("task", TASKS)
def test_a_free_search_ends_on_the_manifold(task, name):
    best = population_risk(task, name)
    activation = {"softmax": Softmax(), "linear": Linear(), "softplus": Softplus()}.get(
        name, Erf(best.offset or 0.0))

    def risk(point, samples, seed):
        k, v = point[:3], point[3:]
        return overlap_risk(task, activation, m_k=k[0], q_k=k @ k, k_value_star=k[1], m_v=v[1],
                            q_v=v @ v, v_key_star=v[0], k_v=k @ v, samples=samples, scrambles=2,
                            seed=seed).risk

    rng = np.random.default_rng(23)
    manifold = np.array([best.key_scale, 0, 0, 0, best.value_scale, 0])
    starts = [0.7 * manifold + 0.4 * rng.standard_normal(6) for _ in range(2)]
    found = min((minimize(risk, start, args=(2**9, 0), options=dict(gtol=1e-3))
                 for start in starts), key=lambda run: run.fun).x
    assert abs(found[[1, 3]]).max() < 0.05
    gains = [risk(manifold, 2**12, seed) - risk(found, 2**12, seed) for seed in range(100, 116, 2)]
    assert np.mean(gains) < 4 * np.std(gains, ddof=1) / math.sqrt(len(gains)) + 1e-6


@pytest.mark.parametrize("length", [2, 3, 10])
def test_rates_of_the_spiked_task(length):
    for nu in (320, 640, 1280, 2400):
        leading = (length - 1) * math.sqrt(math.pi / (4 * nu)) * math.exp(-nu / 4)
        ratio = bayes_risk(SpikedSLR(nu, length)) / leading
        x = math.pi**2 / nu
        assert ratio == pytest.approx(1 - x / 4 + 5 * x**2 / 32, abs=0.3 * x**3)
        linear = population_risk(SpikedSLR(nu, length), "linear").risk * nu / length
        assert linear == pytest.approx(1, abs=2 * length / nu)


def test_the_transition_of_softmax_sharpens_at_twice_log_length():
    def risk(ratio, length):
        return bayes_risk(SpikedSLR(2 * ratio * math.log(length), length))

    lengths = [10**2, 10**4, 10**6, 10**12]
    for ratio, sign in ((0.5, 1), (0.8, 1), (1.2, -1), (2.0, -1)):
        assert np.all(sign * np.diff([risk(ratio, length) for length in lengths]) > 0)
    assert [risk(r, 10**2) for r in (0.5, 1, 2)] == pytest.approx([0.776, 0.424, 0.075], abs=5e-4)
    assert [risk(r, 10**12) for r in (0.5, 1, 2)] == pytest.approx([0.993, 0.465, 6e-4], abs=5e-4)
    for length in lengths:  # at the transition itself: one half, slowly
        nu = 2 * math.log(length)
        assert risk(1, length) == pytest.approx(0.5 - math.log(2) / math.sqrt(2 * math.pi * nu),
                                                abs=0.2 / nu)
        assert population_risk(SpikedSLR(length, length), "linear").risk > 0.45


def test_linear_attention_in_the_max_task():
    risks = []
    for length in (2, 10, 100, 10**4):
        task = MaxSLR(INF, length)
        risks.append(population_risk(task, "linear").risk)
        formula = 1 - (1 + expected_maximum(length) ** 2) / length
        assert risks[-1] == pytest.approx(formula, abs=1e-8)
        assert population_risk(task, "softmax").risk == 0
        assert risk_at(task, "softmax", 100.0) < 0.02
    assert risks == sorted(risks) and risks[-1] > 0.998
    for nu in (0.3, 3, 20):
        for law in (2, 10, UNIFORM):
            task = MaxSLR(nu, law)
            formula = 1 - (1 + (nu * bayes_risk(task)) ** 2) / task.length.mean
            assert population_risk(task, "linear").risk == pytest.approx(formula, abs=1e-12)


def test_where_the_variance_of_the_length_matters():
    def risks(kind, nu, name):
        return [population_risk(kind(nu, law), name).risk for law in (2, UNIFORM, {1: 0.5, 3: 0.5})]

    fixed, varied, extreme = risks(SpikedSLR, 5, "linear")
    assert varied == pytest.approx(fixed, abs=1e-14) and extreme == pytest.approx(fixed, abs=1e-14)
    fixed, varied, extreme = risks(MaxSLR, INF, "linear")
    assert extreme > varied > fixed
    assert (fixed, varied) == pytest.approx((0.34085, 0.38948), abs=5e-6)
    for (kind, nu), values in (((SpikedSLR, 5), (0.08440, 0.07655)),
                               ((MaxSLR, 3), (0.17348, 0.14399))):
        fixed, varied, extreme = risks(kind, nu, "softmax")
        assert fixed > varied > extreme
        assert (fixed, varied) == pytest.approx(values, abs=5e-6)
        by_length = [bayes_risk(kind(nu, length)) for length in (1, 2, 3)]
        assert varied == pytest.approx(np.mean(by_length), abs=1e-13)
    assert risks(MaxSLR, INF, "softmax") == [0, 0, 0]


@pytest.mark.parametrize("kind", [SpikedSLR, MaxSLR])
@pytest.mark.parametrize("nu", [0.5, 5, 20])
def test_bayes_risk_is_concave_in_the_length(kind, nu):
    lengths = np.unique(np.round(np.geomspace(1, 10**5, 60)).astype(int))
    risks = np.array([bayes_risk(kind(nu, int(length))) for length in lengths])
    assert np.all(np.diff(np.diff(risks) / np.diff(lengths)) < 0)


def test_positive_terms_keep_the_digits():
    for nu in (1, 5, 20, 40, 80, 130, 200, 400):
        A, B, deficit = attention_moments(SpikedSLR(nu, 2), "softmax", math.sqrt(nu))
        assert deficit / B == pytest.approx(two_tokens(nu), rel=1e-12)
        if nu >= 130:
            assert abs((1 - A * A / B) / two_tokens(nu) - 1) > 0.1


# Nishimori optimality

MIXED = {1: 0.2, 4: 0.5, 30: 0.3}


def projections(data):
    scale = math.sqrt(data.key_star.size)
    return data.tokens @ data.key_star / scale, data.tokens @ data.value_star / scale


def mean_se(x):
    return x.mean(), x.std() / math.sqrt(len(x))


@pytest.mark.parametrize("task", [SpikedSLR(5, 10), SpikedSLR(5, MIXED), MaxSLR(3, 10),
                                  MaxSLR(3, MIXED)])
def test_softmax_attains_the_bayes_risk(task):
    assert risk_at(task, "softmax", task.key_scale) == pytest.approx(bayes_risk(task), abs=1e-12)
    for factor in (0.1, 0.5, 0.8, 0.95, 1.05, 1.25, 2, 10):
        assert risk_at(task, "softmax", factor * task.key_scale) > bayes_risk(task)
    data = task.sample(20_000, 10, rng=31)
    chi, z = projections(data)
    p = Softmax()(task.key_scale * chi, data.mask)
    error, se = mean_se((data.label - (p * z).sum(axis=1)) ** 2)
    assert abs(error - bayes_risk(task)) < 4 * se
    for name, activation in (("linear", Linear()), ("softplus", Softplus())):
        best = population_risk(task, name)
        w = best.value_scale * activation(best.key_scale * chi, data.mask)
        distance, se = mean_se(np.square(w - p).sum(axis=1))
        assert abs(distance - (best.risk - bayes_risk(task))) < 4 * se


@pytest.mark.parametrize("task", [SpikedSLR(0.5, 2), SpikedSLR(5, 10), SpikedSLR(5, MIXED),
                                  SpikedSLR(20, 10**6), MaxSLR(0.5, 3), MaxSLR(3, 10),
                                  MaxSLR(3, MIXED), MaxSLR(10, 1000)])
def test_nishimori_identities(task):
    A, B, _ = attention_moments(task, "softmax", task.key_scale)
    assert abs(A - B) < 1e-13
    for factor, sign in ((0.3, 1), (0.8, 1), (1.3, -1), (3, -1)):
        A, B, _ = attention_moments(task, "softmax", factor * task.key_scale)
        assert sign * (A - B) > 1e-4
    if task.length.max > 100:
        return
    data = task.sample(40_000, 2, rng=32)
    chi, _ = projections(data)
    rows = np.arange(len(chi))
    for factor in (1, 2):
        p = Softmax()(factor * task.key_scale * chi, data.mask)
        for f in (p, chi, chi**2):
            mean, se = mean_se(f[rows, data.location] - (p * f).sum(axis=1))
            if factor == 1:
                assert abs(mean) < 4 * se
            elif f is not chi**2 and task.nu > 2:
                assert abs(mean) > 40 * se


@pytest.mark.parametrize("kind", [SpikedSLR, MaxSLR])
def test_linear_attention_stays_above_bayes(kind):
    for length in (2, 10, 100, UNIFORM):
        for nu in (0.01, 0.05, 0.3, 1, 5, 20, 100):
            linear = population_risk(kind(nu, length), "linear").risk
            assert linear > bayes_risk(kind(nu, length)) * (1 + 1e-9)
    gap = [population_risk(SpikedSLR(nu, 10), "linear").risk - bayes_risk(SpikedSLR(nu, 10))
           for nu in (0.05, 11, 100)]
    assert gap == pytest.approx([5.3e-4, 0.364, 0.090], abs=5e-4)


def test_many_linear_heads_are_one():
    def features(data):  # all that a sum of linear heads can form
        x = data.tokens
        products = np.einsum("nli,nlj->nij", x, x)[:, *np.triu_indices(4)]
        return np.column_stack([x.sum(axis=1), products])

    for task in (SpikedSLR(5, 10), MaxSLR(3, 5)):
        train = task.sample(100_000, 4, rng=33)
        test = task.sample(100_000, 4, rng=34, teacher=(train.key_star, train.value_star))
        fit = np.linalg.lstsq(features(train), train.label)[0]
        risk, se = mean_se((test.label - features(test) @ fit) ** 2)
        assert abs(risk - population_risk(task, "linear").risk) < 4 * se


def judge(task):
    """The posterior of a token given its own score, in the spiked task."""
    return lambda x: expit(math.sqrt(task.nu) * x - task.nu / 2 - math.log(task.length.mean - 1))


def token_risk(task):
    top = math.sqrt(task.nu)
    return quad(lambda x: density(x - top) * (1 - judge(task)(x)), -12, top + 12,
                points=sorted((top / 2, top)), epsabs=0, epsrel=1e-10, limit=400)[0]


def test_the_best_weight_given_the_own_score():
    for nu, length, values in ((5, 10, (0.45732, 0.45764, 0.35981)),
                               (20, 10**6, (0.7859, 0.7866, 0.7730))):
        task = SpikedSLR(nu, length)
        best = token_risk(task)
        erf = population_risk(task, "erf").risk
        linear = population_risk(task, "linear").risk
        assert (best, erf, bayes_risk(task)) == pytest.approx(values, abs=7e-5)
        assert bayes_risk(task) < best < erf < linear
    for task, weigh, risk in (
            (SpikedSLR(5, 10), judge(SpikedSLR(5, 10)), token_risk(SpikedSLR(5, 10))),
            (SpikedSLR(5, MIXED), judge(SpikedSLR(5, MIXED)), token_risk(SpikedSLR(5, MIXED))),
            (MaxSLR(INF, 10), lambda x: ndtr(x) ** 9, 9 / 19)):
        data = task.sample(40_000, 2, rng=35)
        chi, z = projections(data)
        w = np.where(data.mask, weigh(chi), 0)
        error, se = mean_se((data.label - (w * z).sum(axis=1)) ** 2)
        assert abs(error - risk) < 4 * se
        identity, se = mean_se(w[np.arange(len(w)), data.location] - np.square(w).sum(axis=1))
        assert abs(identity) < 4 * se
    for length in (2, 10, 1000):
        bound = (length - 1) / (2 * length - 1)
        erf = population_risk(MaxSLR(INF, length), "erf").risk
        assert bound - 1e-9 < erf < bound * 1.002
    for length in (2, 10):  # half the exponent of softmax
        ratios = [token_risk(SpikedSLR(nu, length)) / (
            math.sqrt(math.pi * (length - 1) / (2 * nu)) * math.exp(-nu / 8)) for nu in (80, 320)]
        assert ratios[0] < ratios[1] and ratios[1] == pytest.approx(1, abs=0.03)


def test_what_a_wrong_temperature_costs():
    def cost(r):
        s = 1 / (2 * r)
        return 4 / math.pi if s == 1 else 4 * s * (1 - s) / math.sin(math.pi * s)

    assert cost(2) == pytest.approx(1.0607, abs=5e-5)
    for length in (2, 3, 10):
        for r in (0.5, 0.8, 1, 1.25, 2, 4, 16):
            task = SpikedSLR(1000, length)
            ratio = risk_at(task, "softmax", r * task.key_scale) / bayes_risk(task)
            assert ratio == pytest.approx(cost(r), rel=2e-3)
    for r in (0.1, 0.15, 0.2):
        logs = [math.log(risk_at(SpikedSLR(nu, 2), "softmax", r * math.sqrt(nu)))
                for nu in (150, 200)]
        assert (logs[0] - logs[1]) / 50 == pytest.approx(2 * r * (1 - 2 * r), abs=2e-3)
    task = MaxSLR(30, 2)
    for r in (0.25, 0.5, 2, 4):
        limit = quad(lambda h: 2 / (1 + math.exp(min(r * h, 300))) ** 2 / (1 + math.exp(-h)),
                     -60, 60 + 40 / r, limit=400)[0]
        ratio = risk_at(task, "softmax", r * 30) / bayes_risk(task)
        assert ratio == pytest.approx(limit, rel=0.02)


# The interactive figures

@pytest.mark.parametrize("wrong, message", [
    ({"task": "both"}, "task must be one of spiked, max; got 'both'"),
    ({"length": 4}, r"length must be one of \(2, 3, .*\), got 4"),
    ({"index": 61}, "index must lie between 0 and 60, got 61"),
    ({"index": -1}, "index must lie between 0 and 60, got -1"),
])
def test_risk_curves_refuse_what_they_cannot_draw(wrong, message):
    with pytest.raises(ValueError, match=message):
        RiskCurves(**wrong)


@pytest.mark.parametrize("wrong, message", [
    ({"nu": 0}, "nu must be a multiple of 0.5 from 0.5 to 30, got 0"),
    ({"nu": 5.2}, "nu must be a multiple of 0.5 from 0.5 to 30, got 5.2"),
    ({"nu": math.nan}, "nu must be a multiple of 0.5 from 0.5 to 30, got nan"),
    ({"length": 1}, r"length must be one of \(2, 3, .*\), got 1"),
    ({"index": 73}, "index must lie between 0 and 72, got 73"),
])
def test_temperature_refuses_what_it_cannot_draw(wrong, message):
    with pytest.raises(ValueError, match=message):
        Temperature(**wrong)


def test_fallback_tables_hold_the_numbers_of_the_package():
    assert f"{bayes_risk(SpikedSLR(10, 10)):.3g}" in RiskCurves(length=10).fallback()
    figure = Temperature(nu=5.0, length=10)
    assert f"{risk_at(SpikedSLR(5, 10), 'softmax', math.sqrt(5) / 4):.3g}" in figure.fallback()
