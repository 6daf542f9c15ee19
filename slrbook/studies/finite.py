r"""The studies of the chapter "Finite-sample results": limits, and trainings beside them."""

from __future__ import annotations

from collections.abc import Sequence
import math

import numpy as np
from scipy.optimize import minimize

from ..bayes_limit import solve_bayes
from ..erm import Fit, fit_erm
from ..population import overlap_risk
from ..published import Row, Study, own_seeds, same_seed
from ..state_evolution import ErmLimit, erm_fixed_points, solve_erm
from ..tasks import MaxSLR, SpikedSLR

#: The tasks of the finite-sample chapters, by the name in the column ``task``.
TASKS = {"spiked-1": SpikedSLR(1.0, 3), "spiked-2": SpikedSLR(2.0, 3),
         "max-inf": MaxSLR(math.inf, 3)}
ACTIVATIONS = ("softmax", "linear")
#: Samples per dimension: simulated, and in theory.
ALPHAS = (0.5, 1.0, 2.0, 4.0, 8.0, 12.0, 20.0)
FINE_ALPHAS = (0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 20.0)
RIDGES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
#: Standard deviation of the label noise, everywhere.
NOISE = 0.3
_LOG_RIDGES = (-4.0, 5.0)


# --- theory --------------------------------------------------------------------------------------

def _limit_row(limit: ErmLimit) -> Row:
    row: Row = {}
    for name in ("risk", "train_loss", "free_energy"):
        error = "standard_error" if name == "risk" else f"{name}_error"
        row |= {name: getattr(limit, name), f"{name}_error": getattr(limit, error)}
    for side, overlap, error in (("k", limit.key, limit.key_error),
                                 ("v", limit.value, limit.value_error)):
        for name in overlap._fields:
            row |= {f"{name}_{side}": getattr(overlap, name),
                    f"{name}_{side}_error": getattr(error, name)}
    return row | {"converged": limit.converged, "iterations": limit.iterations}


def limit_rows(task: str, activation: str, alpha: float, ridge_k: float, ridge_v: float,
               samples: int, seed: int) -> list[Row]:
    """The limit of ERM at one point, from an informed start."""
    limit = solve_erm(TASKS[task], activation, alpha=alpha, ridge=(ridge_k, ridge_v), noise=NOISE,
                      samples=samples, seed=seed, strict=False)
    return [{"task": task, "activation": activation, "alpha": alpha, "ridge_k": ridge_k,
             "ridge_v": ridge_v, "samples": samples, "seed": seed, **_limit_row(limit)}]


def tuned_rows(task: str, activation: str, alpha: float, samples: int, seed: int) -> list[Row]:
    """The limit at the ridge of least risk: the same for k and v, and one for each.

    The search runs on fixed draws, a quarter as many, so it minimises a smooth function; a point
    where the solver does not converge is never the best. The result is computed anew, on others.
    """
    def risk(logs: np.ndarray) -> float:
        logs = np.broadcast_to(logs, 2)
        if logs.min() < _LOG_RIDGES[0] or logs.max() > _LOG_RIDGES[1]:
            return math.inf
        limit = solve_erm(TASKS[task], activation, alpha=alpha, ridge=tuple(np.exp(logs).tolist()),
                          noise=NOISE, samples=samples // 4, scrambles=2, seed=seed,
                          strict=False)
        return limit.risk if limit.converged else math.inf

    def search(start: np.ndarray) -> np.ndarray:
        corners = np.vstack([start, start + 0.7 * np.eye(len(start))])
        return minimize(risk, start, method="Nelder-Mead",
                        options={"initial_simplex": corners, "xatol": 0.05, "fatol": 2e-5,
                                 "maxfev": 32}).x

    together = search(np.array([math.log(2.0)]))
    apart = search(np.repeat(together, 2))
    rows = []
    for tuning, logs in (("together", np.repeat(together, 2)), ("apart", apart)):
        ridge_k, ridge_v = (float(f"{r:.3g}") for r in np.exp(logs))
        [row] = limit_rows(task, activation, alpha, ridge_k, ridge_v, samples, seed + 1000)
        rows.append({"tuning": tuning, **row})
    return rows


def bayes_rows(task: str, alpha: float, samples: int, seed: int) -> list[Row]:
    """The Bayes-optimal limit at one point, from both starts."""
    rows = []
    for start in ("uninformed", "informed"):
        limit = solve_bayes(TASKS[task], alpha=alpha, noise=NOISE, samples=samples, seed=seed,
                            start=start, strict=False)
        rows.append({"task": task, "alpha": alpha, "start": start, "samples": samples,
                     "seed": seed,
                     "risk": limit.risk, "risk_error": limit.standard_error,
                     "q_k": limit.key_q, "q_k_error": limit.key_q_error,
                     "q_v": limit.value_q, "q_v_error": limit.value_q_error,
                     "free_energy": limit.free_energy,
                     "free_energy_error": limit.free_energy_error, "converged": limit.converged,
                     "iterations": limit.iterations})
    return rows


def branch_rows(task: str, activation: str, alpha: float, ridge: float, samples: int,
                seed: int) -> list[Row]:
    """All solutions of the equations that are found, by rising free energy."""
    found = erm_fixed_points(TASKS[task], activation, alpha=alpha, ridge=ridge, noise=NOISE,
                             samples=samples, seed=seed, max_iterations=150)
    return [{"task": task, "activation": activation, "alpha": alpha, "ridge": ridge,
             "samples": samples, "seed": seed, "branch": branch, **_limit_row(limit)}
            for branch, limit in enumerate(found)]


# --- simulation ----------------------------------------------------------------------------------

def _fit_row(fit: Fit, task: str) -> Row:
    risk = overlap_risk(TASKS[task], fit.activation, noise=NOISE, **fit.overlaps._asdict())
    return {"risk": risk.risk, "train_loss": fit.train_loss, "free_energy": fit.free_energy,
            **fit.overlaps._asdict(), "converged": fit.converged, "iterations": fit.iterations}


def fit_rows(task: str, activations: Sequence[str], ridges: Sequence[float], alpha: float,
             dim: int, seed: int) -> list[Row]:
    """Train every activation at every ridge on one data set, from the teacher.

    The risk is that of the trained directions on the whole law of sequences, from all seven of
    their overlaps; it needs no test set.
    """
    data = TASKS[task].sample(round(alpha * dim), dim, noise=NOISE, rng=seed, dtype=np.float32)
    return [{"task": task, "activation": activation, "alpha": alpha, "ridge": ridge, "dim": dim,
             "seed": seed,
             **_fit_row(fit_erm(data, activation, ridge=ridge, progress=False), task)}
            for activation in activations for ridge in ridges]


def start_rows(task: str, activation: str, alpha: float, ridge: float, dim: int, starts: int,
               seed: int) -> list[Row]:
    """Train from the teacher (start 0) and from random directions, on one data set."""
    data = TASKS[task].sample(round(alpha * dim), dim, noise=NOISE, rng=seed, dtype=np.float32)
    rng = np.random.default_rng([seed, 1])
    return [{"task": task, "activation": activation, "alpha": alpha, "ridge": ridge, "dim": dim,
             "seed": seed, "start": start,
             **_fit_row(fit_erm(data, activation, ridge=ridge, progress=False, rng=rng,
                                start="random" if start else "informed"), task)}
            for start in range(starts)]


# --- the studies ---------------------------------------------------------------------------------

STUDIES = (
    Study("erm_limits", "Limit of ERM against alpha and the ridge, equal for k and v.", limit_rows,
          same_seed(0, 2**13, [dict(task=task, activation=activation, alpha=alpha, ridge_k=ridge,
                                  ridge_v=ridge)
                             for task in TASKS for activation in ACTIVATIONS for ridge in RIDGES
                             for alpha in FINE_ALPHAS]), ("state_evolution",), {"noise": NOISE}),
    Study("erm_tuned", "Limit of ERM at the ridge of least risk.", tuned_rows,
          same_seed(100, 2**13, [dict(task=task, activation=activation, alpha=alpha)
                               for task in TASKS for activation in ACTIVATIONS
                               for alpha in ALPHAS if alpha != 12]), ("state_evolution",), {"noise": NOISE}),
    Study("bayes_limits", "Bayes-optimal limit against alpha.", bayes_rows,
          same_seed(300, 2**15, [dict(task=task, alpha=alpha) for task in TASKS
                               for alpha in FINE_ALPHAS]), ("bayes_limit",), {"noise": NOISE}),
    Study("erm_fits", "ERM at D = 1000 by L-BFGS, several draws of teacher and data.", fit_rows,
          own_seeds(10_000, [dict(task=task, activations=ACTIVATIONS, ridges=(1.0, 8.0), alpha=alpha,
                              dim=1000)
                         for task in TASKS for alpha in ALPHAS for _ in range(10)]),
          ("erm", "population"), {"noise": NOISE}),
    Study("erm_sizes", "ERM in rising dimension at one point.", fit_rows,
          own_seeds(20_000, [dict(task="spiked-2", activations=("softmax",), ridges=(1.0,), alpha=4.0,
                              dim=dim)
                         for dim, draws in ((100, 400), (200, 200), (400, 100), (800, 50),
                                            (1600, 25), (3200, 12)) for _ in range(draws)]),
          ("erm", "population"), {"noise": NOISE}),
    Study("erm_branches", "Solutions of the equations at small ridge.", branch_rows,
          same_seed(200, 2**13, [dict(task="spiked-2", activation=activation, alpha=alpha,
                                    ridge=ridge)
                               for activation in ACTIVATIONS for alpha in (2.0, 4.0)
                               for ridge in (1.0, 0.5, 0.25, 0.1)]), ("state_evolution",), {"noise": NOISE}),
    Study("erm_starts", "ERM at D = 500 and small ridge from several starts.", start_rows,
          own_seeds(30_000, [dict(task="spiked-2", activation=activation, alpha=alpha, ridge=ridge,
                              dim=500, starts=4)
                         for activation in ACTIVATIONS for alpha in (2.0, 4.0)
                         for ridge in (1.0, 0.5, 0.25, 0.1) for _ in range(2)]),
          ("erm", "population"), {"noise": NOISE}),
    Study("erm_large", "ERM at N D = 10^8.", fit_rows,
          own_seeds(40_000, [dict(task=task, activations=ACTIVATIONS, ridges=(1.0,), alpha=4.0,
                              dim=5000)
                         for task in ("spiked-2", "max-inf") for _ in range(3)]),
          ("erm", "population"), {"noise": NOISE}),
)
