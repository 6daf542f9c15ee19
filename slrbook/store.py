"""Published results: a table of numbers beside a record of how they came about.

A result is two files: ``NAME.csv`` holds the numbers, ``NAME.json`` the parameters, the versions
and the hash of the code that made them, the time it took, and the hash of the table. A table that
does not match its record, because a run died or somebody edited a number, is refused.
While a long computation runs, finished jobs go to a journal, ``NAME.partial``, from which a later
run resumes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
import csv
from dataclasses import dataclass
import hashlib
from importlib import metadata
import io
import json
import math
import os
from pathlib import Path
import platform

import numpy as np

#: Where the book keeps its published results.
DATA = Path(__file__).resolve().parent.parent / "book" / "data"

Scalar = str | bool | int | float
_TYPES = {"text": str, "bool": bool, "int": int, "float": float}
_LIBRARIES = ("numpy", "scipy", "numba", "torch")


class StoreError(RuntimeError):
    """A published result is missing, damaged, or does not match its record."""


@dataclass(frozen=True, eq=False)
class Table:
    """A published result.

    Attributes
    ----------
    columns : dict of str to (n,) arrays
        The numbers, in the order of the file.
    record : dict
        Parameters, seed, versions, hashes and times.
    """

    columns: dict[str, np.ndarray]
    record: dict

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.columns:
            raise ValueError(f"column must be one of {', '.join(self.columns)}; got {name!r}")
        return self.columns[name]

    def where(self, **wanted: Scalar) -> Table:
        """Return the rows in which every named column has the given value.

        Raises
        ------
        ValueError
            If there is no such column or no such row.

        Examples
        --------
        >>> table = Table({"alpha": np.array([1.0, 2.0]), "risk": np.array([0.9, 0.8])}, {})
        >>> table.where(alpha=2.0)["risk"].tolist()
        [0.8]
        """
        chosen = np.ones(len(self), dtype=bool)
        for name, value in wanted.items():
            chosen &= self[name] == value
        if not chosen.any():
            raise ValueError(f"there must be rows with {wanted}; got none")
        return Table({name: column[chosen] for name, column in self.columns.items()}, self.record)

    def rows(self) -> list[dict[str, Scalar]]:
        """Return the rows as dictionaries of plain Python numbers and strings."""
        lists = (column.tolist() for column in self.columns.values())
        return [dict(zip(self.columns, row)) for row in zip(*lists)]

    def average(self, by: str, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        r"""Average a column over the rows that share a value of another.

        Returns
        -------
        values, mean, standard_error : (k,) arrays
            The distinct values of ``by`` in rising order; over the n rows of each, the mean and
            :math:`s/\sqrt n`, with s the sample standard deviation.

        Raises
        ------
        ValueError
            If a value has fewer than two rows: it has no standard error.

        Examples
        --------
        >>> table = Table({"alpha": np.array([1.0, 1.0]), "risk": np.array([0.9, 0.7])}, {})
        >>> [round(float(x[0]), 3) for x in table.average("alpha", "risk")]
        [1.0, 0.8, 0.1]
        """
        values = np.unique(self[by])
        groups = [self[name][self[by] == value] for value in values]
        if min(len(group) for group in groups) < 2:
            raise ValueError(f"every value of {by} must have at least two rows")
        return (values, np.array([group.mean() for group in groups]),
                np.array([group.std(ddof=1) / math.sqrt(len(group)) for group in groups]))


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _replace(path: Path, content: bytes) -> None:
    """Write a file so that it is either the old one or the new one, never half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.new")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def versions() -> dict[str, str]:
    """Return the versions of Python, of this package and of the libraries that compute."""
    return {"python": platform.python_version(),
            **{name: metadata.version(name) for name in ("slrbook", *_LIBRARIES)}}


def _type_name(name: str, column: Sequence[Scalar]) -> str:
    kinds = {type(value) for value in column}
    for kind, python in _TYPES.items():
        if kinds == {python}:
            break
    else:
        raise ValueError(f"column {name} must hold values of one type, str, bool, int or float; "
                         f"got {sorted(kind.__name__ for kind in kinds)}")
    if kind == "float" and not all(math.isfinite(value) for value in column):
        raise ValueError(f"column {name} must hold finite numbers; got NaN or inf")
    return kind


def _text(value: Scalar) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def write(name: str, rows: Sequence[Mapping[str, Scalar]], record: Mapping,
          folder: Path = DATA) -> None:
    """Write a table and its record, each whole or not at all.

    Parameters
    ----------
    name : str
        Name of the result, without a suffix.
    rows : sequence of mappings
        The rows, all with the same columns: str, bool, int or finite float, one type a column.
        Floats keep ten digits.
    record : mapping
        How the table was made; must be writable as JSON. Versions and the table's own columns,
        number of rows and hash are added.
    folder : Path
        Where the files go.

    Raises
    ------
    ValueError
        If there are no rows, or they differ in their columns, or hold anything else.
    """
    if not rows:
        raise ValueError("rows must hold at least one row; got none")
    names = list(rows[0])
    for row in rows:
        if list(row) != names:
            raise ValueError(f"rows must all have the columns {names}; got {list(row)}")
    types = {column: _type_name(column, [row[column] for row in rows]) for column in names}
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([_text(value) for value in row.values()] for row in rows)
    table = stream.getvalue().encode()
    full = {**record, "versions": versions(), "columns": types, "rows": len(rows),
            "sha256": _hash(table)}
    _replace(folder / f"{name}.csv", table)
    _replace(folder / f"{name}.json", (json.dumps(full, indent=1) + "\n").encode())


def read(name: str, folder: Path = DATA) -> Table:
    """Read a published result.

    Parameters
    ----------
    name : str
        Name of the result, with or without ``.csv``.
    folder : Path
        Where the files are.

    Returns
    -------
    Table

    Raises
    ------
    StoreError
        If a file is missing, half-written, or the table is not the one that the record is of.
    """
    name = name.removesuffix(".csv")
    try:
        record = json.loads((folder / f"{name}.json").read_text(encoding="utf8"))
        content = (folder / f"{name}.csv").read_bytes()
        types, expected = record["columns"], record["sha256"]
    except FileNotFoundError as error:
        raise StoreError(f"{name}: {Path(error.filename).name} is missing. Run `make data`.") \
            from None
    except (ValueError, KeyError) as error:
        raise StoreError(f"{name}.json is damaged ({error!r}). Run `make data`.") from None
    if _hash(content) != expected:
        raise StoreError(f"{name}.csv is not the table that {name}.json describes: it is "
                         "half-written or was edited. Run `make data`.")
    head, *lines = csv.reader(io.StringIO(content.decode("utf8")))
    parse = {**_TYPES, "bool": "True".__eq__}
    columns = {column: np.array([parse[types[column]](line[i]) for line in lines])
               for i, column in enumerate(head)}
    return Table(columns, record)


class Journal:
    """The finished jobs of a computation that may be interrupted at any time.

    One line of JSON per job, after a first line that says which computation it is. A last line
    that was cut short is dropped. A journal of another computation is discarded.

    Parameters
    ----------
    name : str
        Name of the result.
    identity : mapping
        What must agree for jobs to be kept: code, versions.
    folder : Path
        Where the journal is.

    Attributes
    ----------
    done : dict of str to dict
        What was appended, by the job's key.
    """

    def __init__(self, name: str, identity: Mapping, folder: Path = DATA) -> None:
        self.path = folder / f"{name}.partial"
        self.done: dict[str, dict] = {}
        head = json.dumps(dict(identity), sort_keys=True)
        whole = self._whole_lines()
        if not whole or whole[0] != head:
            whole = [head]
        for line in whole[1:]:
            entry = json.loads(line)
            self.done[entry["key"]] = entry
        _replace(self.path, ("\n".join(whole) + "\n").encode())

    def _whole_lines(self) -> Iterable[str]:
        if not self.path.exists():
            return []
        *whole, _ = self.path.read_text(encoding="utf8").split("\n")  # no newline: not whole
        return whole

    def append(self, key: str, **entry: object) -> None:
        """Keep a finished job, at once."""
        self.done[key] = {"key": key, **entry}
        with open(self.path, "a", encoding="utf8") as file:
            file.write(json.dumps(self.done[key]) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def remove(self) -> None:
        """Delete the journal, once the result is written."""
        self.path.unlink()
