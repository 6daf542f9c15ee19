"""Checks of arguments: each raises a ``ValueError`` that names the argument, its value and what is allowed."""

from __future__ import annotations

import math
from numbers import Integral, Real


def real(name: str, value: object, *, low: float = -math.inf, strict: bool = False,
         infinite: bool = False) -> float:
    """Return ``value`` as a float in ``[low, inf)`` (``(low, inf)`` if strict; ``inf`` if allowed)."""
    allowed = "a real number" if low == -math.inf else f"a number {'>' if strict else '>='} {low:g}"
    allowed += " (inf is allowed)" if infinite else ", finite"
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or math.isnan(value):
        raise ValueError(f"{name} must be {allowed}; got {value!r}")
    if value < low or (strict and value == low) or (math.isinf(value) and not infinite):
        raise ValueError(f"{name} must be {allowed}; got {value!r}")
    return float(value)


def integer(name: str, value: object, *, low: int) -> int:
    """Return ``value`` as an int ``>= low``."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < low:
        raise ValueError(f"{name} must be an integer >= {low}; got {value!r}")
    return int(value)


def choice(name: str, value: object, allowed: tuple) -> object:
    """Return ``value`` if it is one of ``allowed``."""
    if value not in allowed:
        options = ", ".join(repr(option) for option in allowed)
        raise ValueError(f"{name} must be one of {options}; got {value!r}")
    return value


def generator(name: str, value: object):
    """Return ``value`` as a numpy ``Generator``; a seed (an int) is accepted, ``None`` is not."""
    import numpy as np

    if isinstance(value, np.random.Generator):
        return value
    if isinstance(value, Integral) and not isinstance(value, bool) and value >= 0:
        return np.random.default_rng(int(value))
    raise ValueError(f"{name} must be a numpy Generator or a seed (an integer >= 0); got {value!r}")
