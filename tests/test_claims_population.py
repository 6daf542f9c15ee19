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
        assert risks[-1] == pytest.approx(1 - (1 + expected_maximum(length) ** 2) / length, abs=1e-8)
        assert population_risk(task, "softmax").risk == 0
        assert risk_at(task, "softmax", 1000.0) < 0.02
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
