"""The law of the sequence length L: a fixed integer, or a finite probability mass function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral
import math

import numpy as np

from . import _checks

#: The longest sequence that is accepted. Beyond it 1/L is lost in the rounding of 1 - 1/L.
LONGEST = 10**12


@dataclass(frozen=True)
class Lengths:
    r"""A law :math:`P_L` on the positive integers with finite support.

    .. math:: P(L = \ell_i) = p_i, \qquad \sum_i p_i = 1.

    Parameters
    ----------
    values : tuple of int
        Support, increasing, each at least 1.
    probabilities : tuple of float
        Their probabilities, positive, summing to 1.

    Examples
    --------
    >>> law = as_lengths({1: 0.25, 3: 0.75})
    >>> law.mean, law.max
    (2.5, 3)
    >>> law.expect(lambda length: 1 / length)
    0.5
    """

    values: tuple[int, ...]
    probabilities: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean length."""
        return self.expect(float)

    @property
    def max(self) -> int:
        """The longest length."""
        return self.values[-1]

    def expect(self, function: Callable[[int], float]) -> float:
        """Return ``E function(L)``; ``function`` may return arrays."""
        return sum(p * function(length) for length, p in zip(self.values, self.probabilities))

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw ``n`` lengths, an int64 array of shape ``(n,)``."""
        if len(self.values) == 1:
            return np.full(n, self.values[0], dtype=np.int64)
        return rng.choice(np.array(self.values, dtype=np.int64), size=n, p=self.probabilities)


def as_lengths(length: int | Mapping[int, float] | Lengths) -> Lengths:
    r"""Return the law of L described by ``length``.

    Parameters
    ----------
    length : int, mapping or Lengths
        A fixed length ``L >= 1``, or ``{L: probability}`` with non-negative probabilities that
        sum to 1 (within 1e-9). Entries of probability zero are left out.

    Returns
    -------
    Lengths

    Raises
    ------
    ValueError
        If a length is not an integer between 1 and 10**12, or the probabilities are negative,
        not finite, or do not sum to 1.

    Examples
    --------
    >>> as_lengths(3)
    Lengths(values=(3,), probabilities=(1.0,))
    >>> as_lengths({2: 0.5, 0: 0.5})
    Traceback (most recent call last):
    ...
    ValueError: length must be an integer between 1 and 10**12; got 0
    """
    if isinstance(length, Lengths):
        return length
    if not isinstance(length, Mapping):
        return Lengths((_one_length(length),), (1.0,))
    if not length:
        raise ValueError("length must be an integer or {L: probability} with an entry; got {}")
    law = {}
    for value in sorted(length, key=_one_length):
        name = f"the probability of length {value}"
        probability = _checks.real(name, length[value], low=0.0)
        if probability > 0:
            law[int(value)] = probability
    total = math.fsum(law.values())
    if abs(total - 1) > 1e-9:
        raise ValueError(f"the probabilities of length must sum to 1; they sum to {total!r}")
    return Lengths(tuple(law), tuple(p / total for p in law.values()))


def _one_length(value: object) -> int:
    if not isinstance(value, Integral) or isinstance(value, bool) or not 1 <= value <= LONGEST:
        raise ValueError(f"length must be an integer between 1 and 10**12; got {value!r}")
    return int(value)
