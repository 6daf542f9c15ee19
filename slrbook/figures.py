"""One look for every plot of the book.

Colours are told apart by readers with any common colour blindness, and every curve also has its
own dash and marker, so that a figure reads in grey. Text is sized for a plot that is shown 350
pixels wide on a telephone. The ground is white on light and on dark pages alike.
"""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
import matplotlib.pyplot as plt
import numpy as np

#: Width and height of a plot, in inches.
SIZE = (5.6, 3.6)

_LOOK: dict[str, dict[str, Any]] = {
    "softmax": {"color": "#0072b2", "linestyle": "-", "marker": "o"},
    "linear": {"color": "#b34700", "linestyle": "--", "marker": "s"},
    "erf": {"color": "#00795a", "linestyle": ":", "marker": "^"},
    "softplus": {"color": "#a8447f", "linestyle": "-.", "marker": "D"},
    "exponential": {"color": "#866500", "linestyle": (0, (5, 1, 1, 1, 1, 1)), "marker": "v"},
    "sigmoid": {"color": "#6a4fb3", "linestyle": (0, (6, 2)), "marker": "P"},
    "bayes": {"color": "#444444", "linestyle": (0, (1, 1)), "marker": "x"},
}


def use_style() -> None:
    """Give all later plots the look of the book."""
    mpl.rcParams.update({
        "figure.figsize": SIZE,
        "figure.dpi": 180,
        "figure.constrained_layout.use": True,
        "figure.facecolor": "white",
        "savefig.facecolor": "white",
        "font.size": 12,
        "axes.labelsize": 12.5,
        "axes.titlesize": 12.5,
        "legend.fontsize": 11,
        "legend.frameon": False,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.color": "#dddddd",
        "grid.linewidth": 0.7,
        "axes.axisbelow": True,
        "lines.linewidth": 2.0,
        "lines.markersize": 6.0,
        "errorbar.capsize": 3.0,
        "mathtext.fontset": "stix",
        "svg.hashsalt": "slrbook",
        "axes.prop_cycle": plt.cycler(
            color=[look["color"] for look in _LOOK.values()],
            linestyle=[look["linestyle"] for look in _LOOK.values()]),
    })


def look(name: str, *, points: bool = False) -> dict[str, Any]:
    """Return the colour and dash of an activation, the same in every figure.

    Parameters
    ----------
    name : str
        The name of an activation, or "bayes".
    points : bool
        For simulated points: the marker of the activation and no line.

    Returns
    -------
    dict
        Keyword arguments for ``Axes.plot``, without a label.

    Raises
    ------
    ValueError
        If the name is none of these.

    Examples
    --------
    >>> look("linear")
    {'color': '#b34700', 'linestyle': '--'}
    """
    if name not in _LOOK:
        raise ValueError(f"name must be one of {', '.join(_LOOK)}; got {name!r}")
    chosen = dict(_LOOK[name])
    if points:
        return chosen | {"linestyle": "none"}
    del chosen["marker"]
    return chosen


def plot_simulation(axes: Axes, x: np.ndarray, mean: np.ndarray, standard_error: np.ndarray,
                    name: str, **options: Any) -> None:
    """Draw simulated means with bars of two standard errors, in the look of an activation.

    Parameters
    ----------
    axes : matplotlib Axes
        Where to draw.
    x, mean, standard_error : (n,) arrays
        Positions, means, and the standard errors of the means.
    name : str
        As in :func:`look`.
    **options
        Passed on to ``Axes.errorbar``, for instance ``label``.
    """
    axes.errorbar(x, mean, yerr=2 * np.asarray(standard_error), markerfacecolor="white",
                  markeredgewidth=1.6, elinewidth=1.6, **look(name, points=True) | options)
