r"""The studies of the chapter "Optimisation": paths, minima, and one-pass stochastic descent."""

from __future__ import annotations

from collections.abc import Sequence
import math
from typing import ClassVar

import numpy as np

from ..activations import Linear
from ..dynamics import OVERLAPS, SgdLimit, run_sgd_overlaps
from ..erm import fit_erm
from ..population import overlap_risk, population_risk
from ..published import Row, Study, own_seeds
from ..tasks import MaxSLR, SpikedSLR

TASKS = {"spiked-2": SpikedSLR(2.0, 3), "max-inf": MaxSLR(math.inf, 3)}
ACTIVATIONS = ("softmax", "linear")
#: Standard deviation of the label noise, everywhere.
NOISE = 0.3
#: A start that knows nothing, in infinite dimension.
UNINFORMED = (0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0)
#: From large to small: each annealed training starts where the one before it ended.
RIDGES = (4.0, 2.0, 1.0, 0.5, 0.25, 0.1)
#: Stochastic descent does not settle: it is stopped at a larger gradient, or after more passes.
OPTIMIZERS = {"lbfgs": {}, "gd": {}, "sgd": {"tolerance": 0.03, "max_iterations": 500}}
#: Passes over the data at which a path is published.
PASSES = (0, 1, 2, 3, 5, 7, 10, 14, 20, 30, 50, 70, 100, 200, 300, 500, 1000, 2000)
#: Sequences per dimension at which one-pass runs are published.
USED = (0, 1, 2, 4, 7, 10, 15, 20, 30, 40, 50, 60)
#: Overlap with one of the hidden directions at which a key counts as having left the start.
ESCAPED = 0.3


class Centred(Linear):
    r"""Linear attention without its constant, :math:`\sigma_\ell = \chi_\ell`.

    The layer is then symmetric under an exchange of key and value, and under a change of both
    signs: its uninformed start is a saddle.
    """

    name: ClassVar[str] = "centred"

    def kernel(self, chi: np.ndarray) -> np.ndarray:
        r"""Return :math:`\phi(\chi) = \chi`."""
        return chi


# --- trainings -----------------------------------------------------------------------------------

def path_rows(task: str, activation: str, optimizer: str, start: str, alpha: float, ridge: float,
              dim: int, seed: int) -> list[Row]:
    """Overlaps and objective along one training."""
    data = TASKS[task].sample(round(alpha * dim), dim, noise=NOISE, rng=seed)
    fit = fit_erm(data, activation, ridge=ridge, start=start, optimizer=optimizer,
                  rng=np.random.default_rng([seed, 1]), progress=False, **OPTIMIZERS[optimizer])
    rows = []
    for passes in PASSES:
        record = [entry for entry in fit.history if entry.iteration <= passes][-1]
        rows.append({"task": task, "activation": activation, "optimizer": optimizer,
                     "start": start, "alpha": alpha, "ridge": ridge, "dim": dim, "seed": seed,
                     "passes": passes, "free_energy": record.objective / dim,
                     "gradient_norm": record.gradient_norm,
                     **dict(zip(OVERLAPS[:4], record.overlaps)), "converged": fit.converged,
                     "iterations": fit.iterations})
    return rows


def minimum_rows(task: str, activation: str, alpha: float, dim: int, starts: int,
                 seed: int) -> list[Row]:
    """Train one data set at falling ridges: from the teacher, from random directions, annealed."""
    data = TASKS[task].sample(round(alpha * dim), dim, noise=NOISE, rng=seed)
    rng = np.random.default_rng([seed, 1])
    random = [rng.standard_normal((2, dim)) for _ in range(starts)]
    annealed = random[0]
    rows = []
    for ridge in RIDGES:
        points = {"informed": "informed", "annealed": annealed,
                  **{f"random {i}": point for i, point in enumerate(random)}}
        for start, point in points.items():
            fit = fit_erm(data, activation, ridge=ridge, start=point, max_iterations=10_000,
                          progress=False)
            if start == "annealed":
                annealed = (fit.key, fit.value)
            risk = overlap_risk(TASKS[task], fit.activation, noise=NOISE, samples=2**12,
                                scrambles=2, **fit.overlaps._asdict())
            rows.append({"task": task, "activation": activation, "alpha": alpha, "ridge": ridge,
                         "dim": dim, "seed": seed, "start": start,
                         "free_energy": fit.free_energy, "risk": risk.risk,
                         **dict(zip(OVERLAPS[:4], fit.overlaps)), "converged": fit.converged,
                         "iterations": fit.iterations})
    return rows


# --- one-pass runs -------------------------------------------------------------------------------

def sgd_rows(task: str, activation: str, dim: int, runs: int, seed: int) -> list[Row]:
    """Mean and standard deviation of the overlaps over runs from random starts."""
    rate = SgdLimit(TASKS[task], activation, noise=NOISE).safe_rate(UNINFORMED)
    path = run_sgd_overlaps(TASKS[task], activation, dim=dim, rate=rate, noise=NOISE, runs=runs,
                            times=rate * np.array(USED), rng=seed, progress=False)
    return [{"task": task, "activation": activation, "dim": dim, "runs": runs, "seed": seed,
             "rate": rate, "used": used, **dict(zip(OVERLAPS, now.mean(axis=0).tolist())),
             **{f"{name}_sd": sd for name, sd in zip(OVERLAPS, now.std(axis=0, ddof=1).tolist())},
             "converged": True}
            for used, now in zip(USED, path)]


def rate_rows(task: str, activation: str, multiple: float, dim: int, runs: int,
              seed: int) -> list[Row]:
    """The risk at which runs from the best layer settle, at a multiple of the safe rate."""
    limit = SgdLimit(TASKS[task], activation, noise=NOISE)
    rate = multiple * limit.safe_rate(UNINFORMED)
    best = population_risk(TASKS[task], activation, noise=NOISE)
    a, b = best.key_scale, best.value_scale
    path = run_sgd_overlaps(TASKS[task], activation, dim=dim, rate=rate, noise=NOISE, runs=runs,
                            times=np.linspace(0.0, 40.0, 9), rng=seed, progress=False,
                            start=(a, a * a, b, b * b, 0.0, 0.0, 0.0))
    risks = np.array([[limit.velocity(overlaps).risk for overlaps in now] for now in path[5:]])
    means = risks.mean(axis=0)  # of each run, over late times
    return [{"task": task, "activation": activation, "multiple": multiple, "dim": dim,
             "runs": runs, "seed": seed, "rate": rate, "risk": float(means.mean()),
             "risk_error": float(means.std(ddof=1) / math.sqrt(runs)), "converged": True}]


def escape_rows(task: str, activation: str, dim: int, runs: int, rate: float, end: float,
                seed: int) -> list[Row]:
    """The learning time after which keys from random starts have found a hidden direction."""
    times = np.linspace(0.0, end, 401)
    path = run_sgd_overlaps(TASKS[task], Centred() if activation == "centred" else activation,
                            dim=dim, rate=rate, noise=NOISE, runs=runs, times=times, rng=seed,
                            progress=False)
    found = abs(path[:, :, [OVERLAPS.index("m_k"), OVERLAPS.index("k_value_star")]]).max(axis=2)
    found[0] = 0.0  # a start that is beyond by chance counts as one that leaves at once
    after = found >= ESCAPED
    row = after.argmax(axis=0)
    column = np.arange(runs)
    before = found[row - 1, column]
    share = (ESCAPED - before) / (found[row, column] - before)
    escape = times[row - 1] + share * (times[row] - times[row - 1])
    return [{"task": task, "activation": activation, "dim": dim, "runs": runs, "rate": rate,
             "seed": seed, "escape": float(escape.mean()),
             "escape_error": float(escape.std(ddof=1) / math.sqrt(runs)),
             "escape_sd": float(escape.std(ddof=1)), "converged": bool(after.any(axis=0).all())}]


# --- the studies ---------------------------------------------------------------------------------

def _same_data(seed: int, draws: int, points: Sequence[dict]) -> tuple[dict, ...]:
    """Every point on the same data sets, one seed each."""
    return tuple({**point, "seed": seed + draw} for point in points for draw in range(draws))


STUDIES = (
    Study("optim_paths", "Overlaps along trainings at D = 400.", path_rows,
          _same_data(50_000, 5, [dict(task=task, activation=activation, optimizer=optimizer,
                                      start=start, alpha=4.0, ridge=1.0, dim=400)
                                 for task in TASKS for activation in ACTIVATIONS
                                 for optimizer in OPTIMIZERS for start in ("informed", "random")]),
          ("erm",), {"noise": NOISE}),
    Study("optim_minima", "Minima at D = 200 that trainings reach from several starts.",
          minimum_rows,
          _same_data(51_000, 4, [dict(task=task, activation=activation, alpha=alpha, dim=200,
                                      starts=6)
                                 for task, activation in (("spiked-2", "softmax"),
                                                          ("max-inf", "softmax"),
                                                          ("spiked-2", "linear"))
                                 for alpha in (1.0, 2.0, 4.0, 8.0)]),
          ("erm", "population"), {"noise": NOISE}),
    Study("optim_sgd", "One-pass stochastic descent from random starts, in rising dimension.",
          sgd_rows,
          own_seeds(52_000, [dict(task=task, activation=activation, dim=dim, runs=64)
                             for task in TASKS for activation in ACTIVATIONS
                             for dim in (100, 300, 1000, 2000)]),
          ("dynamics",), {"noise": NOISE}),
    Study("optim_rates", "Risk at which one-pass descent settles, against its rate, D = 300.",
          rate_rows,
          own_seeds(53_000, [dict(task="spiked-2", activation="softmax", multiple=multiple,
                                  dim=300, runs=48)
                             for multiple in (0.5, 1.0, 2.0, 3.0, 4.0)]),
          ("dynamics",), {"noise": NOISE}),
    Study("optim_escape", "Time to leave a random start by one-pass descent, against D.",
          escape_rows,
          own_seeds(54_000, [dict(task="spiked-2", activation=activation, dim=dim, runs=100,
                                  rate=rate, end=end)
                             for activation, rate, end in (("softmax", 0.375, 12.0),
                                                           ("centred", 0.1, 14.0))
                             for dim in (100, 300, 1000, 3000, 10_000)]),
          ("dynamics",), {"noise": NOISE, "escaped": ESCAPED}),
)
