"""Values, derivatives and symmetries of the activations."""

import mpmath
import numpy as np
import pytest

from slrbook import Erf, Exponential, Linear, Sigmoid, Softmax, Softplus
from slrbook.activations import as_activation

ALL = [Softmax(), Linear(), Erf(-0.7), Softplus(), Softplus(-3.0), Softplus(power=2.5),
       Softplus(power=0.5, normalised=False), Exponential(), Sigmoid(-0.4),
       Sigmoid(1.0, normalised=True)]


@pytest.mark.parametrize("activation", ALL)
def test_vjp_against_finite_differences(activation):
    rng = np.random.default_rng(0)
    chi, cotangent = rng.standard_normal((2, 5, 4))
    mask = np.arange(4) < np.array([4, 3, 1, 4, 2])[:, None]
    step = 1e-5
    expected = np.empty_like(chi)
    for token in range(4):
        move = step * np.eye(4)[token]
        change = activation(chi + move, mask) - activation(chi - move, mask)
        expected[:, token] = (change * cotangent).sum(axis=1) / (2 * step)
    assert activation.vjp(chi, cotangent, mask) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("activation", ALL)
def test_permutation_and_mask(activation):
    rng = np.random.default_rng(1)
    chi = rng.standard_normal((3, 5))
    order = rng.permutation(5)
    assert activation(chi[:, order]) == pytest.approx(activation(chi)[:, order])
    mask = np.array([True, True, True, False, False])
    masked = activation(chi, np.broadcast_to(mask, chi.shape))
    assert masked[:, :3] == pytest.approx(activation(chi[:, :3])) and not masked[:, 3:].any()
    if activation.normalised:
        assert masked.sum(axis=1) == pytest.approx(1.0)


@pytest.mark.parametrize("chi", [-800.0, -40.0, -30.0, -29.9, -3.0, 0.0, 5.0, 40.0, 800.0])
def test_softplus_keeps_its_digits(chi):
    with mpmath.workdps(400):
        exact = mpmath.log(mpmath.log1p(mpmath.exp(chi)))
        slope = mpmath.diff(lambda x: mpmath.log(mpmath.log1p(mpmath.exp(x))), chi)
    assert float(Softplus().log_kernel(np.array(chi))) == pytest.approx(float(exact), rel=1e-13)
    assert float(Softplus().log_kernel_slope(np.array(chi))) == pytest.approx(float(slope),
                                                                              rel=1e-12)


@pytest.mark.parametrize("chi", [-20.0, -5.0, 0.0, 5.0])
def test_erf_keeps_its_digits(chi):
    assert float(Erf(0.0)(chi)) == pytest.approx(float(mpmath.erfc(-chi)), rel=1e-13)


def test_softplus_with_a_low_offset_is_softmax():
    chi = np.array([0.3, -1.0, 2.0])
    assert Softplus(-40.0)(chi) == pytest.approx(Softmax()(chi), rel=1e-12)
    assert Sigmoid(-40.0, normalised=True)(chi) == pytest.approx(Softmax()(chi), rel=1e-12)
    assert Softplus(-40.0, power=3.0)(chi) == pytest.approx(Softmax()(3 * chi), rel=1e-12)


def test_elementwise_softplus_lies_between_the_exponential_and_linear_attention():
    chi = np.array([0.3, -1.0, 2.0])
    low, high = Softplus(-40.0, normalised=False), Softplus(1e6, normalised=False)
    assert low(chi) * np.exp(40) == pytest.approx(Exponential()(chi), rel=1e-12)
    assert high(1e6 * chi / 4) / 1e6 == pytest.approx(Linear()(chi / 4), rel=1e-9)


def test_sigmoid_is_the_logistic_function():
    chi = np.linspace(-30, 30, 7)
    assert Sigmoid(0.3)(chi) == pytest.approx(1 / (1 + np.exp(-chi - 0.3)), rel=1e-14)


def test_extreme_scores_give_finite_weights():
    chi = np.array([[1e6, -1e6, 0.0], [-1e6, -1e6, -1e6]])
    for activation in (Softmax(), Softplus(), Softplus(power=3.0),
                       Sigmoid(0.0, normalised=True)):
        weights = activation(chi)
        assert np.isfinite(weights).all() and weights.sum(axis=1) == pytest.approx(1.0)
        assert np.isfinite(activation.vjp(chi, np.ones_like(chi))).all()


def test_names():
    assert as_activation("erf") == Erf() and as_activation("softmax") == Softmax()
    assert as_activation(Erf(1.0)) == Erf(1.0)
    assert as_activation("exponential") == Exponential() and as_activation("sigmoid") == Sigmoid()
