"""Single-location regression: the two tasks, their samples and the posterior of the location."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
import math
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from . import _checks
from .lengths import Lengths, as_lengths

#: Tokens are projected in blocks of at most this many numbers, so that no second copy is made.
_BLOCK = 2**22


class Sequences(NamedTuple):
    """``n`` labelled sequences from one teacher.

    Attributes
    ----------
    tokens : (n, Lmax, D) array
        The tokens; rows beyond the length of a sequence are zero.
    mask : (n, Lmax) bool array
        True where there is a token.
    location : (n,) int array
        The index of the relevant token.
    label : (n,) float64 array
        ``y = z*_location + noise * xi``.
    key_star, value_star : (D,) float64 arrays
        The hidden directions, of squared norm D, orthogonal to each other.
    """

    tokens: np.ndarray
    mask: np.ndarray
    location: np.ndarray
    label: np.ndarray
    key_star: np.ndarray
    value_star: np.ndarray


@dataclass(frozen=True)
class _Task:
    nu: float
    length: int | Mapping[int, float] | Lengths

    def __post_init__(self) -> None:
        object.__setattr__(self, "nu", self._check_nu(self.nu))
        object.__setattr__(self, "length", as_lengths(self.length))

    def location_posterior(self, chi: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        r"""Posterior of the location given the tokens and the true key direction.

        .. math:: P(\epsilon = \ell \mid X) = \frac{e^{c_\nu \chi^*_\ell}}
                  {\sum_{\ell'} e^{c_\nu \chi^*_{\ell'}}}

        with :math:`c_\nu` the task's ``key_scale``. At :math:`c_\nu = \infty` the mass is shared
        by the largest entries.

        Parameters
        ----------
        chi : (..., L) array
            Projections :math:`\chi^*_\ell = x_\ell \cdot k^*/\sqrt D`.
        mask : (..., L) bool array, optional
            True where there is a token. Default: everywhere.

        Returns
        -------
        (..., L) array
            Probabilities, zero where ``mask`` is False.

        Raises
        ------
        ValueError
            If ``chi`` holds NaN or infinite entries, or a sequence has no token.

        Source: paper, section 2; theory notes, section 1.

        Examples
        --------
        >>> SpikedSLR(nu=4.0, length=2).location_posterior([1.0, 0.0]).round(4)
        array([0.8808, 0.1192])
        """
        chi = np.asarray(chi, dtype=float)
        if not np.isfinite(chi).all():
            raise ValueError("chi must hold finite numbers; got NaN or inf")
        if mask is not None:
            mask = np.broadcast_to(np.asarray(mask, dtype=bool), chi.shape)
            if not mask.any(axis=-1).all():
                raise ValueError("mask must leave a token in every sequence; got an empty one")
            chi = np.where(mask, chi, -np.inf)
        if math.isinf(self.key_scale):
            top = chi == chi.max(axis=-1, keepdims=True)
            return top / top.sum(axis=-1, keepdims=True)
        if self.key_scale == 0:  # 0 * -inf would be NaN
            return softmax(np.where(np.isinf(chi), chi, 0.0), axis=-1)
        return softmax(self.key_scale * chi, axis=-1)

    def sample(self, n: int, dim: int, *, noise: float = 0.0, rng: np.random.Generator | int,
               teacher: tuple[np.ndarray, np.ndarray] | None = None,
               dtype: type = np.float64) -> Sequences:
        r"""Draw ``n`` labelled sequences in dimension ``dim``.

        .. math:: y = z^*_\epsilon + \Delta \xi, \qquad z^*_\ell = x_\ell \cdot v^*/\sqrt D,
                  \quad \xi \sim N(0, 1).

        The hidden directions are drawn first, uniformly among the pairs with
        :math:`|k^*|^2 = |v^*|^2 = D` and :math:`k^* \cdot v^* = 0`.

        Parameters
        ----------
        n : int
            Number of sequences, at least 1.
        dim : int
            Dimension D of a token, at least 2.
        noise : float
            Standard deviation :math:`\Delta \ge 0` of the label noise.
        rng : numpy Generator or int
            Source of randomness.
        teacher : pair of (D,) arrays, optional
            ``(key_star, value_star)`` to use instead of drawing them: fresh sequences of the
            same teacher.
        dtype : float64 or float32
            Type of the tokens. Projections and labels are float64 either way. The tokens are
            filled in place: no second array of their size is made.

        Returns
        -------
        Sequences

        Raises
        ------
        ValueError
            If an argument is outside its domain.

        Source: paper, section 2; theory notes, section 1.

        Examples
        --------
        >>> data = SpikedSLR(nu=4.0, length=3).sample(5, 100, noise=0.1, rng=0)
        >>> data.tokens.shape, data.label.shape
        ((5, 3, 100), (5,))
        >>> key, value = data.key_star, data.value_star
        >>> round(float(key @ key), 9), round(abs(float(key @ value)), 9)
        (100.0, 0.0)
        """
        n = _checks.integer("n", n, low=1)
        dim = _checks.integer("dim", dim, low=2)
        noise = _checks.real("noise", noise, low=0.0)
        rng = _checks.generator("rng", rng)
        dtype = _checks.choice("dtype", np.dtype(dtype), (np.dtype("f8"), np.dtype("f4")))
        key, value = _draw_teacher(dim, rng) if teacher is None else _check_teacher(teacher, dim)
        lengths = self.length.sample(n, rng)
        mask = np.arange(self.length.max) < lengths[:, None]
        tokens = np.empty((n, self.length.max, dim), dtype=dtype)
        rng.standard_normal(out=tokens, dtype=dtype)
        tokens[~mask] = 0
        location = np.empty(n, dtype=np.int64)
        label = np.empty(n)
        rows = max(1, _BLOCK // tokens[0].size)
        for start in range(0, n, rows):
            part = slice(start, start + rows)
            location[part] = self._place(tokens[part], mask[part], lengths[part], key, rng)
            chosen = tokens[np.arange(start, min(start + rows, n)), location[part]]
            label[part] = chosen.astype(float) @ value / math.sqrt(dim)
        label += noise * rng.standard_normal(n)
        return Sequences(tokens, mask, location, label, key, value)


@dataclass(frozen=True)
class SpikedSLR(_Task):
    r"""The spiked task: the relevant token is shifted along the key direction.

    .. math:: \epsilon \sim \mathrm{Unif}\{1..L\}, \qquad
              x_\ell = \xi_\ell + 1\{\ell = \epsilon\} \sqrt{\nu}\, k^*/\sqrt D,
              \qquad \xi_\ell \sim N(0, I_D).

    The posterior of the location is ``softmax(key_scale * chi*)`` with
    ``key_scale`` :math:`c_\nu = \sqrt\nu`.

    Parameters
    ----------
    nu : float
        Signal-to-noise ratio :math:`\nu \ge 0`, finite.
    length : int or {L: probability}
        Law of the sequence length.

    Raises
    ------
    ValueError
        If ``nu`` or ``length`` is outside its domain.

    Source: paper, section 2; theory notes, section 1.

    Examples
    --------
    >>> task = SpikedSLR(nu=4.0, length={2: 0.5, 3: 0.5})
    >>> task.key_scale, task.length.mean
    (2.0, 2.5)
    """

    @staticmethod
    def _check_nu(nu: float) -> float:
        return _checks.real("nu", nu, low=0.0)

    @property
    def key_scale(self) -> float:
        r"""The inverse temperature :math:`c_\nu = \sqrt\nu` of the location posterior."""
        return math.sqrt(self.nu)

    def _place(self, tokens, mask, lengths, key, rng) -> np.ndarray:
        location = rng.integers(lengths)
        shift = math.sqrt(self.nu / key.size) * key
        tokens[np.arange(len(tokens)), location] += shift.astype(tokens.dtype)
        return location


@dataclass(frozen=True)
class MaxSLR(_Task):
    r"""The max task: the relevant token is the one that points most along the key direction.

    .. math:: x_\ell \sim N(0, I_D), \qquad
              P(\epsilon = \ell \mid X) \propto e^{\nu \chi^*_\ell};

    at :math:`\nu = \infty` the location is :math:`\mathrm{argmax}_\ell \chi^*_\ell`. The
    posterior of the location is ``softmax(key_scale * chi*)`` with ``key_scale``
    :math:`c_\nu = \nu`.

    Parameters
    ----------
    nu : float
        Sharpness :math:`\nu \ge 0`; ``math.inf`` is allowed.
    length : int or {L: probability}
        Law of the sequence length.

    Raises
    ------
    ValueError
        If ``nu`` or ``length`` is outside its domain.

    Source: paper, section 2; theory notes, section 1.

    Examples
    --------
    >>> MaxSLR(nu=math.inf, length=2).location_posterior([[0.3, 0.1], [1.0, 2.0]])
    array([[1., 0.],
           [0., 1.]])
    """

    @staticmethod
    def _check_nu(nu: float) -> float:
        return _checks.real("nu", nu, low=0.0, infinite=True)

    @property
    def key_scale(self) -> float:
        r"""The inverse temperature :math:`c_\nu = \nu` of the location posterior."""
        return self.nu

    def _place(self, tokens, mask, lengths, key, rng) -> np.ndarray:
        chi = tokens.astype(float) @ key / math.sqrt(key.size)
        if not math.isinf(self.nu):  # adding Gumbel variables to nu chi samples the softmax
            chi = self.nu * chi + rng.gumbel(size=chi.shape)
        return np.where(mask, chi, -np.inf).argmax(axis=-1)


def _draw_teacher(dim: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    frame, _ = np.linalg.qr(rng.standard_normal((dim, 2)))
    key, value = frame.T * rng.choice([-1.0, 1.0], size=(2, 1))
    return tuple(vector * math.sqrt(dim / (vector @ vector)) for vector in (key, value))


def _check_teacher(teacher, dim: int) -> tuple[np.ndarray, np.ndarray]:
    key, value = (np.asarray(direction, dtype=float) for direction in teacher)
    for name, direction in (("key_star", key), ("value_star", value)):
        if direction.shape != (dim,):
            raise ValueError(f"teacher's {name} must have shape ({dim},); got {direction.shape}")
        if not abs(direction @ direction / dim - 1) < 1e-6:
            square = direction @ direction
            raise ValueError(f"teacher's {name} must have squared norm D={dim}; got {square!r}")
    return key, value
