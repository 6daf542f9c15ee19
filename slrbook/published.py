r"""Published results: studies that ``python -m slrbook data`` runs, and their tables.

A study is a list of jobs, each a set of keyword arguments, and a function that turns one job into
rows of the table. Jobs are independent, carry their own seed, and run in parallel through joblib.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
import hashlib
import inspect
import json
from pathlib import Path
import time

from joblib import Parallel, delayed
from tqdm import tqdm

from . import notebooks, store

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
    fixed : dict
        Parameters that all jobs share, for the record.
    """

    name: str
    about: str
    compute: Callable[..., list[Row]]
    jobs: tuple[dict, ...]
    modules: tuple[str, ...]
    fixed: dict[str, store.Scalar] = field(default_factory=dict)

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
        "parameters": {**study.fixed, **{name: _values(study.jobs, name) for name in names}},
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


def own_seeds(seed: int, points: Sequence[dict]) -> tuple[dict, ...]:
    """Give every job a seed of its own."""
    return tuple({**point, "seed": seed + i} for i, point in enumerate(points))


def same_seed(seed: int, samples: int, points: Sequence[dict]) -> tuple[dict, ...]:
    """Give every job the same seed, so that neighbouring points share their draws."""
    return tuple({**point, "samples": samples, "seed": seed} for point in points)
