r"""The long computations behind the chapters, as studies that ``python -m slrbook data`` runs.

A study is a list of jobs, each a set of keyword arguments, and a function that turns one job into
rows of the table. Jobs are independent, carry their own seed, and run in parallel through joblib.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
import hashlib
import inspect
import json
import math
from pathlib import Path
import time

from joblib import Parallel, delayed
import numpy as np
from scipy.optimize import minimize
from tqdm import tqdm

from . import notebooks, store
from .bayes_limit import solve_bayes
from .erm import Fit, fit_erm
from .population import overlap_risk
from .state_evolution import ErmLimit, erm_fixed_points, solve_erm
from .tasks import MaxSLR, SpikedSLR

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

Row = dict[str, store.Scalar]


@dataclass(frozen=True)
class Study:
    """One published table.

    Attributes
    ----------
    name : str
        Of the table.
    about : str
        One sentence for its record.
    compute : callable
        Turns the keyword arguments of a job into rows.
    jobs : tuple of dict
        The keyword arguments: values that JSON can write.
    modules : tuple of str
        The modules of this package that do the work: the table is out of date when they change.
    """

    name: str
    about: str
    compute: Callable[..., list[Row]]
    jobs: tuple[dict, ...]
    modules: tuple[str, ...]

    def code(self) -> str:
        """Return the hash of the function and of all modules that it reaches."""
        source = "\n".join(f"import slrbook.{module}" for module in self.modules)
        parts = [path.relative_to(notebooks.ROOT).as_posix() + "\n"
                 + notebooks.essence(path.read_text(encoding="utf8"))
                 for path in sorted(notebooks.reached(source))]
        parts.append(notebooks.essence(inspect.getsource(self.compute)))
        return _short_hash("\0".join(parts))


def regenerate(study: Study, *, jobs: int = 1, folder: Path = store.DATA,
               progress: bool = True) -> bool:
    """Compute what a study's table lacks, and write it.

    Parameters
    ----------
    study : Study
    jobs : int
        Processes of joblib, -1 for all cores.
    folder : Path
        Where the table, and the journal of a run that was interrupted, are.
    progress : bool
        Whether to show a progress bar.

    Returns
    -------
    bool
        False if the table was up to date and nothing was done.
    """
    keys = {json.dumps(job): job for job in study.jobs}
    identity = {"code": study.code(), "jobs": _short_hash("\n".join(keys))}
    try:
        record = store.read(study.name, folder).record
        if all(record[name] == value for name, value in identity.items()):
            return False
    except store.StoreError:
        pass
    journal = store.Journal(study.name, {"code": identity["code"]}, folder)
    waiting = [key for key in keys if key not in journal.done]
    started = time.perf_counter()
    earlier = sum(entry["wall"] for entry in journal.done.values())
    results = Parallel(n_jobs=jobs, return_as="generator_unordered")(
        delayed(_timed)(study.compute, key, keys[key]) for key in waiting)
    elapsed = 0.0
    with tqdm(total=len(keys), initial=len(keys) - len(waiting), desc=study.name, unit="job",
              disable=not progress) as bar:
        for key, rows, seconds in results:
            now = time.perf_counter() - started
            journal.append(key, rows=rows, seconds=seconds, wall=now - elapsed)
            elapsed = now
            bar.update()
    finished = [journal.done[key] for key in keys]
    rows = [{**row, "seconds": round(entry["seconds"] / len(entry["rows"]), 2)}
            for entry in finished for row in entry["rows"]]
    names = {name: None for job in study.jobs for name in job}
    store.write(study.name, rows, {
        "about": study.about, "compute": study.compute.__name__, "modules": list(study.modules),
        "parameters": {"noise": NOISE, **{name: _values(study.jobs, name) for name in names}},
        **identity, "wall_seconds": round(earlier + elapsed, 1), "processes": jobs}, folder)
    journal.remove()
    return True


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _values(jobs: Sequence[dict], name: str) -> list:
    """The distinct values of a parameter, in order; of many seeds the first and the last."""
    values = list(dict.fromkeys(json.dumps(job[name]) for job in jobs))
    values = [json.loads(value) for value in values]
    return values if name != "seed" or len(values) == 1 else [values[0], values[-1]]


def _timed(compute: Callable[..., list[Row]], key: str, job: dict) -> tuple[str, list[Row], float]:
    started = time.perf_counter()
    return key, compute(**job), time.perf_counter() - started


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

def _jobs(seed: int, points: Sequence[dict]) -> tuple[dict, ...]:
    """Give every job a seed of its own."""
    return tuple({**point, "seed": seed + i} for i, point in enumerate(points))


def _theory(seed: int, samples: int, points: Sequence[dict]) -> tuple[dict, ...]:
    """Give every job the same seed, so that neighbouring points share their draws."""
    return tuple({**point, "samples": samples, "seed": seed} for point in points)


STUDIES = (
    Study("erm_limits", "Limit of ERM against alpha and the ridge, equal for k and v.", limit_rows,
          _theory(0, 2**13, [dict(task=task, activation=activation, alpha=alpha, ridge_k=ridge,
                                  ridge_v=ridge)
                             for task in TASKS for activation in ACTIVATIONS for ridge in RIDGES
                             for alpha in FINE_ALPHAS]), ("state_evolution",)),
    Study("erm_tuned", "Limit of ERM at the ridge of least risk.", tuned_rows,
          _theory(100, 2**13, [dict(task=task, activation=activation, alpha=alpha)
                               for task in TASKS for activation in ACTIVATIONS
                               for alpha in ALPHAS if alpha != 12]), ("state_evolution",)),
    Study("bayes_limits", "Bayes-optimal limit against alpha.", bayes_rows,
          _theory(300, 2**15, [dict(task=task, alpha=alpha) for task in TASKS
                               for alpha in FINE_ALPHAS]), ("bayes_limit",)),
    Study("erm_fits", "ERM at D = 1000 by L-BFGS, several draws of teacher and data.", fit_rows,
          _jobs(10_000, [dict(task=task, activations=ACTIVATIONS, ridges=(1.0, 8.0), alpha=alpha,
                              dim=1000)
                         for task in TASKS for alpha in ALPHAS for _ in range(10)]),
          ("erm", "population")),
    Study("erm_sizes", "ERM in rising dimension at one point.", fit_rows,
          _jobs(20_000, [dict(task="spiked-2", activations=("softmax",), ridges=(1.0,), alpha=4.0,
                              dim=dim)
                         for dim, draws in ((100, 400), (200, 200), (400, 100), (800, 50),
                                            (1600, 25), (3200, 12)) for _ in range(draws)]),
          ("erm", "population")),
    Study("erm_branches", "Solutions of the equations at small ridge.", branch_rows,
          _theory(200, 2**13, [dict(task="spiked-2", activation=activation, alpha=alpha,
                                    ridge=ridge)
                               for activation in ACTIVATIONS for alpha in (2.0, 4.0)
                               for ridge in (1.0, 0.5, 0.25, 0.1)]), ("state_evolution",)),
    Study("erm_starts", "ERM at D = 500 and small ridge from several starts.", start_rows,
          _jobs(30_000, [dict(task="spiked-2", activation=activation, alpha=alpha, ridge=ridge,
                              dim=500, starts=4)
                         for activation in ACTIVATIONS for alpha in (2.0, 4.0)
                         for ridge in (1.0, 0.5, 0.25, 0.1) for _ in range(2)]),
          ("erm", "population")),
    Study("erm_large", "ERM at N D = 10^8.", fit_rows,
          _jobs(40_000, [dict(task=task, activations=ACTIVATIONS, ridges=(1.0,), alpha=4.0,
                              dim=5000)
                         for task in ("spiked-2", "max-inf") for _ in range(3)]),
          ("erm", "population")),
)
