r"""The activations that turn key scores into attention weights.

An activation maps the scores :math:`\chi \in R^L` of a sequence to weights
:math:`\sigma(\chi) \in R^L`. It has one of two forms:

- *normalised*, :math:`\sigma_\ell = \phi(\chi_\ell) / \sum_{\ell'} \phi(\chi_{\ell'})`;
- *elementwise*, :math:`\sigma_\ell = \phi(\chi_\ell)`.

The kernel :math:`\phi` is all that tells one activation from another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, get_args

import numpy as np
from scipy.special import erfc, expit, log_expit, softmax

from . import _checks


class _Positive:
    """A positive kernel, given by its logarithm and the derivative of that; normalised or not."""

    normalised: bool

    def __call__(self, chi: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        """Return the weights, shape ``(..., L)``; zero where ``mask`` is False."""
        scores = self.log_kernel(np.asarray(chi, dtype=float))
        if mask is not None:
            scores = np.where(mask, scores, -np.inf)
        return softmax(scores, axis=-1) if self.normalised else np.exp(scores)

    def vjp(self, chi: np.ndarray, cotangent: np.ndarray,
            mask: np.ndarray | None = None) -> np.ndarray:
        r"""Return :math:`J^T c`: ``sum_l c_l d sigma_l / d chi_l'``, shape ``(..., L)``."""
        weights = self(chi, mask)
        if self.normalised:
            cotangent = cotangent - (weights * cotangent).sum(axis=-1, keepdims=True)
        return self.log_kernel_slope(np.asarray(chi, dtype=float)) * weights * cotangent


class _Elementwise:
    """Weights that look at one token at a time; subclasses give ``kernel`` and ``slope``."""

    normalised: ClassVar[bool] = False

    def __call__(self, chi: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        """Return the weights, shape ``(..., L)``; zero where ``mask`` is False."""
        weights = self.kernel(np.asarray(chi, dtype=float))
        return weights if mask is None else np.where(mask, weights, 0.0)

    def vjp(self, chi: np.ndarray, cotangent: np.ndarray,
            mask: np.ndarray | None = None) -> np.ndarray:
        r"""Return :math:`J^T c`: ``sum_l c_l d sigma_l / d chi_l'``, shape ``(..., L)``."""
        product = self.kernel_slope(np.asarray(chi, dtype=float)) * cotangent
        return product if mask is None else np.where(mask, product, 0.0)


class _ExponentialKernel(_Positive):
    def log_kernel(self, chi: np.ndarray) -> np.ndarray:
        r"""Return :math:`\log \phi(\chi) = \chi`."""
        return chi

    def log_kernel_slope(self, chi: np.ndarray) -> np.ndarray:
        r"""Return the derivative of :math:`\log \phi`."""
        return np.ones_like(chi)


@dataclass(frozen=True)
class Softmax(_ExponentialKernel):
    r"""Softmax attention, :math:`\phi(\chi) = e^\chi`, normalised.

    Examples
    --------
    >>> Softmax()([0.0, 0.0, 0.0]).round(4)
    array([0.3333, 0.3333, 0.3333])
    """

    name: ClassVar[str] = "softmax"
    normalised: ClassVar[bool] = True


@dataclass(frozen=True)
class Exponential(_ExponentialKernel):
    r"""Softmax without its denominator, :math:`\sigma_\ell = e^{\chi_\ell}`.

    An offset would be a factor, which the value direction has already.

    Examples
    --------
    >>> Exponential()([0.0, 1.0]).round(4)
    array([1.    , 2.7183])
    """

    name: ClassVar[str] = "exponential"
    normalised: ClassVar[bool] = False


@dataclass(frozen=True)
class Softplus(_Positive):
    r"""Softplus to a power, :math:`\phi(\chi) = \log(1 + e^{\chi + c})^p`.

    It falls as :math:`e^{p\chi}` on the left and grows as :math:`\chi^p` on the right.

    Parameters
    ----------
    offset : float or None
        The offset c. ``None`` leaves it free: ``population_risk`` minimises over it, and the
        finite-sample functions ask for a number.
    power : float
        The power p > 0.
    normalised : bool
        Whether the weights are divided by their sum.

    Examples
    --------
    >>> Softplus()([0.0, 3.0]).round(4)
    array([0.1852, 0.8148])
    >>> Softplus(power=2.0, normalised=False)([0.0, 3.0]).round(4)
    array([0.4805, 9.2939])
    """

    name: ClassVar[str] = "softplus"
    offset: float | None = 0.0
    power: float = 1.0
    normalised: bool = True

    def __post_init__(self) -> None:
        _check_offset(self)
        _check_normalised(self)
        object.__setattr__(self, "power", _checks.real("power", self.power, low=0.0, strict=True))

    def log_kernel(self, chi: np.ndarray) -> np.ndarray:
        r"""Return :math:`p \log \log(1 + e^{\chi + c})`, accurate on both sides."""
        x = chi + fixed_offset(self)
        # log1p(e^x) = e^x (1 - e^x/2 + ...) on the far left, where the logarithm is x itself
        return self.power * np.where(x < -30, x, np.log(-log_expit(-np.maximum(x, -30))))

    def log_kernel_slope(self, chi: np.ndarray) -> np.ndarray:
        r"""Return the derivative of :math:`\log \phi`."""
        x = chi + fixed_offset(self)
        right = np.maximum(x, -30)
        return self.power * np.where(x < -30, 1.0, expit(right) / -log_expit(-right))


@dataclass(frozen=True)
class Sigmoid(_Positive):
    r"""Sigmoid attention, :math:`\phi(\chi) = 1/(1 + e^{-\chi - c})`.

    Parameters
    ----------
    offset : float or None
        The offset c. ``None`` (the default) leaves it free: ``population_risk`` minimises over
        it, and the finite-sample functions ask for a number.
    normalised : bool
        Whether the weights are divided by their sum.

    Examples
    --------
    >>> Sigmoid(offset=0.0)([0.0, 1.0]).round(4)
    array([0.5   , 0.7311])
    """

    name: ClassVar[str] = "sigmoid"
    offset: float | None = None
    normalised: bool = False

    def __post_init__(self) -> None:
        _check_offset(self)
        _check_normalised(self)

    def log_kernel(self, chi: np.ndarray) -> np.ndarray:
        r"""Return :math:`\log \phi(\chi)`."""
        return log_expit(chi + fixed_offset(self))

    def log_kernel_slope(self, chi: np.ndarray) -> np.ndarray:
        r"""Return the derivative of :math:`\log \phi`."""
        return expit(-chi - fixed_offset(self))


@dataclass(frozen=True)
class Linear(_Elementwise):
    r"""Linear attention, :math:`\sigma_\ell = 1 + \chi_\ell`.

    Examples
    --------
    >>> Linear()([0.5, -2.0])
    array([ 1.5, -1. ])
    """

    name: ClassVar[str] = "linear"

    def kernel(self, chi: np.ndarray) -> np.ndarray:
        r"""Return :math:`\phi(\chi)`."""
        return 1 + chi

    def kernel_slope(self, chi: np.ndarray) -> np.ndarray:
        r"""Return :math:`\phi'(\chi)`."""
        return np.ones_like(chi)


@dataclass(frozen=True)
class Erf(_Elementwise):
    r"""Erf attention, :math:`\sigma_\ell = 1 + \mathrm{erf}(c + \chi_\ell)`.

    Parameters
    ----------
    offset : float or None
        The offset c. ``None`` (the default) leaves it free: ``population_risk`` minimises over
        it, and the finite-sample functions ask for a number.

    Examples
    --------
    >>> Erf(offset=0.0)([0.0, 1.0]).round(4)
    array([1.    , 1.8427])
    """

    name: ClassVar[str] = "erf"
    offset: float | None = None

    def __post_init__(self) -> None:
        _check_offset(self)

    def kernel(self, chi: np.ndarray) -> np.ndarray:
        r"""Return :math:`\phi(\chi)`."""
        return erfc(-chi - fixed_offset(self))  # 1 + erf would lose its digits on the left

    def kernel_slope(self, chi: np.ndarray) -> np.ndarray:
        r"""Return :math:`\phi'(\chi)`."""
        return 2 / np.sqrt(np.pi) * np.exp(-(chi + fixed_offset(self)) ** 2)


Activation = Softmax | Linear | Erf | Softplus | Exponential | Sigmoid

_BY_NAME = {kind.name: kind for kind in get_args(Activation)}


def as_activation(activation: str | Activation) -> Activation:
    """Return the activation, which may be given by its name.

    Raises
    ------
    ValueError
        If the name is unknown.

    Examples
    --------
    >>> as_activation("softplus")
    Softplus(offset=0.0, power=1.0, normalised=True)
    >>> as_activation("relu")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: activation must be one of 'softmax', 'linear', ..., 'sigmoid'; got 'relu'
    """
    if isinstance(activation, (_Positive, _Elementwise)):  # a reader's own too
        return activation
    return _BY_NAME[_checks.choice("activation", activation, tuple(_BY_NAME))]()


def fixed_offset(activation: Erf | Softplus | Sigmoid) -> float:
    """Return the activation's offset.

    Raises
    ------
    ValueError
        If the offset is free (``None``).
    """
    if activation.offset is None:
        raise ValueError(f"offset of {activation.name} must be a number here; got None (free)")
    return activation.offset


def _check_offset(activation: Erf | Softplus | Sigmoid) -> None:
    if activation.offset is not None:
        object.__setattr__(activation, "offset", _checks.real("offset", activation.offset))


def _check_normalised(activation: Softplus | Sigmoid) -> None:
    _checks.choice("normalised", activation.normalised, (True, False))
    object.__setattr__(activation, "normalised", bool(activation.normalised))
