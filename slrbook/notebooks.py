"""Run the book's chapters and know which of them must be run again.

A chapter is stored with its outputs and with a *fingerprint* of all that its numbers depend on:
its code cells, the ``slrbook`` modules it reaches through imports (comments and docstrings
aside), the files of ``book/data`` it names, and the pinned versions of the libraries that
compute. A chapter whose fingerprint still holds is left alone.
"""

from __future__ import annotations

import ast
import asyncio
import hashlib
import io
import os
from pathlib import Path
import re
import sys
import tempfile
import time
import tokenize
import tomllib

import nbformat

PACKAGE = Path(__file__).resolve().parent
ROOT = PACKAGE.parent
BOOK = ROOT / "book"

#: Seconds that one cell may take.
CELL_TIMEOUT = 900
#: Chapters that run at the same time, each then limited to one thread.
PROCESSES = 2

_WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
_ONE_THREAD = {name: "1" for name in
               ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")}


class ChapterError(RuntimeError):
    """A chapter did not run to its end, or holds an output that must not be published."""


def chapters() -> list[Path]:
    """Return the notebooks of the book, in alphabetical order."""
    return sorted(BOOK.glob("*.ipynb"))


# --- what a chapter depends on -----------------------------------------------------------------

def essence(source: str) -> str:
    """Return Python source without its comments, docstrings and blank lines.

    Examples
    --------
    >>> essence('def f(x):\\n    "Twice x."\\n    return 2 * x  # doubled\\n')
    'def f(x):\\n    return 2 * x'
    """
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node):
            first, last = node.body[0].lineno, node.body[0].end_lineno
            lines[first - 1] = lines[first - 1][:node.body[0].col_offset]
            lines[first:last] = [""] * (last - first)
    return "\n".join(line.rstrip() for line in lines if line.strip())


def _module_file(name: str) -> Path | None:
    """Return the file of a dotted module name below the package's parent, or None."""
    path = PACKAGE.parent.joinpath(*name.split("."))
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


def _imports(tree: ast.AST, package: str) -> list[tuple[str, str | None]]:
    """List ``(module, name)`` for every import of this package; name is None for a whole module."""
    found: list[tuple[str, str | None]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")[:len(package.split(".")) - node.level + 1]
                base = ".".join(parents + ([base] if base else []))
            found += [(base, alias.name) for alias in node.names]
    top = PACKAGE.name
    return [(module, name) for module, name in found
            if module == top or module.startswith(top + ".")]


def _home(module: str, name: str | None) -> str:
    """Return the module that defines ``name``, following re-exports of ``__init__`` files."""
    if name is None:
        return module
    if _module_file(f"{module}.{name}"):
        return f"{module}.{name}"
    file = _module_file(module)
    if file is not None and file.name == "__init__.py":
        for origin, exported in _imports(ast.parse(file.read_text(encoding="utf8")), module):
            if exported == name:
                return _home(origin, name)
    return module


def reached(source: str) -> set[Path]:
    """Return the modules of this package that a piece of source reaches through its imports.

    The scripts of interactive figures are not among them: a stored output holds the state of a
    figure, never its script.
    """
    waiting = [_home(*item) for item in _imports(ast.parse(source), "")]
    files: set[Path] = set()
    while waiting:
        name = waiting.pop()
        file = _module_file(name)
        if file is None or file in files:
            continue
        files.add(file)
        package = name if file.name == "__init__.py" else name.rpartition(".")[0]
        imports = _imports(ast.parse(file.read_text(encoding="utf8")), package)
        waiting += [_home(*item) for item in imports]
    return files


def pins() -> list[str]:
    """Return the pinned versions of the libraries that the package declares it computes with."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))
    wanted = {re.match(r"[\w-]+", item)[0] for item in declared["project"]["dependencies"]}
    lines = (ROOT / "requirements.txt").read_text(encoding="utf8").splitlines()
    return sorted(line.strip() for line in lines if line.partition("==")[0] in wanted)


def code(notebook: nbformat.NotebookNode) -> list[str]:
    """Return the sources of the code cells."""
    return [cell.source for cell in notebook.cells if cell.cell_type == "code"]


def fingerprint(notebook: nbformat.NotebookNode) -> str:
    """Return the hash of all that the outputs of a notebook depend on."""
    cells = code(notebook)
    # Line magics are not Python; everything else must parse.
    source = "\n".join(re.sub(r"(?m)^\s*[%!].*$", "", cell) for cell in cells)
    files = reached(source)
    data = BOOK / "data"
    if data.is_dir():
        files |= {path for path in data.iterdir() if path.is_file() and path.name in source}
    digest = hashlib.sha256()

    def add(label: str, content: bytes) -> None:
        digest.update(f"{label}\0{len(content)}\0".encode() + content)

    for cell in cells:
        add("cell", cell.encode())
    for file in sorted(files):
        content = file.read_bytes()
        if file.suffix == ".py":
            content = essence(content.decode("utf8")).encode()
        add(file.relative_to(ROOT).as_posix(), content)
    for pin in pins():
        add("pin", pin.encode())
    return digest.hexdigest()[:16]


def is_stale(path: Path) -> bool:
    """Say whether a chapter's stored outputs no longer belong to what it depends on."""
    notebook = nbformat.read(path, as_version=4)
    return notebook.metadata.get("slrbook", {}).get("fingerprint") != fingerprint(notebook)


# --- running -------------------------------------------------------------------------------------

def _machine_paths() -> list[str]:
    return [str(ROOT), str(Path.home()), tempfile.gettempdir()]


def normalise(notebook: nbformat.NotebookNode, chapter: str) -> None:
    """Bring outputs to the one form that is stored, in place.

    Widget views are dropped (their model exists only in the kernel that made it; the HTML form
    beside them stays), as are timings. Anything that could only come from this machine, and
    anything on standard error, is an error.
    """
    paths = "|".join(re.escape(path) + r"(?![\w-])" for path in _machine_paths())
    for number, cell in enumerate((c for c in notebook.cells if c.cell_type == "code"), start=1):
        cell.metadata.pop("execution", None)
        for output in cell.outputs:
            if output.get("name") == "stderr":
                raise ChapterError(
                    f"{chapter}, code cell {number}: writes to standard error, which would be "
                    f"published:\n{output.text}\nRemove the cause (a warning, a progress bar).")
            output.get("data", {}).pop(_WIDGET_VIEW, None)
            texts = [output.get("text", "")] + [
                value for kind, value in output.get("data", {}).items()
                if not kind.startswith("image/") or kind == "image/svg+xml"]
            for text in texts:
                found = re.search(paths, str(text))
                if found:
                    raise ChapterError(
                        f"{chapter}, code cell {number}: the output holds {found[0]!r}, a path "
                        "of this machine. Print something that is the same everywhere.")
    notebook.metadata = nbformat.from_dict({
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python", "file_extension": ".py", "pygments_lexer": "ipython3"},
        "slrbook": {"fingerprint": fingerprint(notebook)},
    })


def _write(notebook: nbformat.NotebookNode, path: Path) -> None:
    """Write a notebook so that the file is either the old one or the new one, never half."""
    nbformat.validate(notebook)
    temporary = path.with_name(f".{path.stem}.partial")
    try:
        temporary.write_text(nbformat.writes(notebook) + "\n", encoding="utf8")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


async def _run(path: Path, gate: asyncio.Semaphore, threads: dict[str, str]) -> str | None:
    """Run one chapter and store it; return the reason if that failed."""
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    name = path.stem
    async with gate:
        text = path.read_text(encoding="utf8")
        notebook = nbformat.reads(text, as_version=4)
        total, number, started = len(code(notebook)), 0, time.perf_counter()

        def before(cell: nbformat.NotebookNode, **_: object) -> None:
            nonlocal number
            if cell.cell_type == "code" and cell.source.strip():
                number += 1
                if sys.stdout.isatty():
                    print(f"  {name}: cell {number} of {total}", flush=True)

        print(f"  {name}: running {total} cells", flush=True)
        client = NotebookClient(
            notebook, timeout=CELL_TIMEOUT, kernel_name="python3", record_timing=False,
            store_widget_state=False, coalesce_streams=True, on_cell_start=before,
            extra_arguments=["--log-level=ERROR"],
            resources={"metadata": {"path": str(path.parent)}})
        try:
            await client.async_execute(env=os.environ | threads)
            normalise(notebook, name)
            if path.read_text(encoding="utf8") != text:
                raise ChapterError(f"{name}: was edited while it ran, and is left as edited. "
                                   "Run it again.")
            _write(notebook, path)
        except CellExecutionError as error:
            trace = re.sub(r"\x1b\[[0-9;]*m", "", error.traceback)
            return f"{name}, code cell {number}: {error.ename}: {error.evalue}\n{trace}"
        except (CellTimeoutError, DeadKernelError) as error:
            return f"{name}, code cell {number}: {error}"
        except (ChapterError, SyntaxError) as error:
            return f"{name}: {error}" if isinstance(error, SyntaxError) else str(error)
        print(f"  {name}: done in {time.perf_counter() - started:.1f} s", flush=True)
    return None


def execute(paths: list[Path]) -> list[str]:
    """Run chapters, two at a time, and store those that ran to their end.

    Parameters
    ----------
    paths
        The notebooks to run. Each kernel starts in the folder of its notebook.

    Returns
    -------
    list of str
        One text for each chapter that failed: its name, the cell and the traceback. A chapter
        that failed is left as it was.
    """
    async def everything() -> list[str | None]:
        gate = asyncio.Semaphore(PROCESSES)
        threads = _ONE_THREAD if len(paths) > 1 else {}
        return await asyncio.gather(*(_run(path, gate, threads) for path in paths))

    return [reason for reason in asyncio.run(everything()) if reason is not None]
