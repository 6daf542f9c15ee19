"""Draw the figure of the README: risk against the strength of the signal.

    .venv/bin/python book/_ext/readme_figure.py
"""

from pathlib import Path

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np

from slrbook import SpikedSLR, bayes_risk, population_risk
from slrbook.figures import look, use_style

TARGET = Path(__file__).resolve().parents[1] / "_static" / "risk.png"
LENGTH = 20


def main() -> None:
    """Compute the curves and write the picture."""
    use_style()
    nu = np.linspace(0, 20, 41)
    figure, axes = plt.subplots()
    for name in ("linear", "erf", "softplus", "softmax"):
        risk = [population_risk(SpikedSLR(strength, LENGTH), name).risk for strength in nu]
        axes.plot(nu, risk, label=name, **look(name))
    best = [bayes_risk(SpikedSLR(strength, LENGTH)) for strength in nu[::4]]
    axes.plot(nu[::4], best, label="best possible", **look("bayes", points=True))
    axes.set(xlabel=r"strength of the signal $\nu$", ylabel="test error", xlim=(0, 20), ylim=(0, 1.02),
             xticks=range(0, 21, 5))
    axes.legend()
    figure.savefig(TARGET, metadata={"Software": None})


if __name__ == "__main__":
    main()
