"""The executor: what makes a chapter stale, what is stored, what a failure leaves behind."""

from __future__ import annotations

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
import pytest

from slrbook import notebooks
from slrbook.__main__ import main

PACKAGE = {
    "__init__.py": "from .solver import solve as solve\nfrom .tasks import Task as Task\n",
    "tasks.py": "from . import checks\n\n\nclass Task:\n    pass\n",
    "checks.py": "LIMIT = 1\n",
    "solver.py": "from .tasks import Task\n\n\ndef solve():\n    return Task()\n",
    "figures.py": "def use_style():\n    pass\n",
    "widgets/__init__.py": "from .bars import Bars as Bars\nfrom .lines import Lines as Lines\n",
    "widgets/bars.py": "from .base import Figure\n\n\nclass Bars(Figure):\n    pass\n",
    "widgets/lines.py": "from .base import Figure\n\n\nclass Lines(Figure):\n    pass\n",
    "widgets/base.py": "class Figure:\n    pass\n",
}


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A small project with its own package of the same name, and no chapter yet."""
    for name, text in PACKAGE.items():
        file = tmp_path / "slrbook" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (tmp_path / "book" / "data").mkdir(parents=True)
    (tmp_path / "book" / "data" / "curve.csv").write_text("1,2\n")
    (tmp_path / "requirements.txt").write_text("numpy==2.0\npytest==9.0\n")
    (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["numpy>=1"]\n')
    monkeypatch.setattr(notebooks, "ROOT", tmp_path)
    monkeypatch.setattr(notebooks, "BOOK", tmp_path / "book")
    monkeypatch.setattr(notebooks, "PACKAGE", tmp_path / "slrbook")
    return tmp_path


def write(project, name, *cells):
    notebook = new_notebook(cells=[new_code_cell(cell) for cell in cells])
    path = project / "book" / f"{name}.ipynb"
    nbformat.write(notebook, path)
    return path


def reached(source):
    return {file.relative_to(notebooks.PACKAGE).as_posix() for file in notebooks.reached(source)}


@pytest.mark.parametrize("source, files", [
    ("import numpy", set()),
    ("from slrbook import Task", {"tasks.py", "checks.py"}),
    ("from slrbook.tasks import Task", {"tasks.py", "checks.py"}),
    ("from slrbook import solve", {"solver.py", "tasks.py", "checks.py"}),
    ("from slrbook import figures", {"figures.py"}),
    ("def f():\n    from slrbook.figures import use_style", {"figures.py"}),
    ("import slrbook.checks as c", {"checks.py"}),
    ("import slrbook", {"__init__.py", "solver.py", "tasks.py", "checks.py"}),
    ("from slrbook.widgets import Bars", {"widgets/bars.py", "widgets/base.py"}),
])
def test_imports_are_followed_to_the_files_that_matter(project, source, files):
    assert reached(source) == files


def test_fingerprint_changes_with_all_it_depends_on_and_with_nothing_else(project):
    path = write(project, "one", "from slrbook import Task", "open('data/curve.csv').read()")

    def value():
        return notebooks.fingerprint(nbformat.read(path, as_version=4))

    def edit(name, text):
        before = value()
        (project / name).write_text(text)
        return value() != before

    assert edit("slrbook/tasks.py", PACKAGE["tasks.py"].replace("pass", "size = 2"))
    assert edit("slrbook/checks.py", "LIMIT = 2\n")
    assert edit("book/data/curve.csv", "1,3\n")
    assert edit("requirements.txt", "numpy==2.1\npytest==9.0\n")
    assert not edit("requirements.txt", "numpy==2.1\npytest==9.1\n")
    assert not edit("slrbook/solver.py", "def solve():\n    return 3\n")
    assert not edit("slrbook/checks.py", '"""Limits."""\n\nLIMIT = 2  # at most\n')
    assert not edit("book/data/other.csv", "5\n")


def test_fingerprint_changes_with_code_and_not_with_prose(project):
    notebook = new_notebook(cells=[new_markdown_cell("Old words"), new_code_cell("1 + 1")])
    before = notebooks.fingerprint(notebook)
    notebook.cells[0].source = "New words"
    assert notebooks.fingerprint(notebook) == before
    notebook.cells[1].source = "1 + 2"
    assert notebooks.fingerprint(notebook) != before


def test_essence_keeps_a_hash_sign_in_a_string_and_code_beside_a_docstring():
    source = 'x = "# not a comment"  # a comment\n\ndef f(): "says nothing"; return x\n'
    assert notebooks.essence(source).startswith('x = "# not a comment"\ndef f():')
    assert notebooks.essence('def f():\n    """Long\n    text."""\n    return 1') == "def f():\n    return 1"


def test_chapters_are_run_stored_and_then_left_alone(project, capsys):
    path = write(project, "one", "print(6 * 7)", "import os\nos.path.basename(os.getcwd())")
    other = write(project, "two", "'second'")
    assert main(["execute", "--check"]) == 1
    assert "one, two" in capsys.readouterr().err
    assert main(["execute"]) == 0
    stored = nbformat.read(path, as_version=4)
    assert stored.cells[0].outputs[0].text == "42\n"
    assert stored.cells[1].outputs[0].data["text/plain"] == "'book'"
    assert [cell.execution_count for cell in stored.cells] == [1, 2]
    assert "execution" not in stored.cells[0].metadata
    assert set(stored.metadata) == {"kernelspec", "language_info", "slrbook"}
    assert main(["execute", "--check"]) == 0
    before = path.stat().st_mtime_ns, other.stat().st_mtime_ns
    assert main(["execute"]) == 0
    assert (path.stat().st_mtime_ns, other.stat().st_mtime_ns) == before
    stored.cells[0].source = "print(6 * 8)"
    nbformat.write(stored, path)
    assert main(["execute", "--check", "two"]) == 0
    assert main(["execute", "--check"]) == 1
    message = capsys.readouterr().err
    assert "one" in message and "two" not in message


def test_running_twice_stores_the_same_bytes(project):
    path = write(project, "one", "import sys\nprint(1)\nsys.stdout.flush()\nprint(2)\n{'a': 1}")
    assert main(["execute"]) == 0
    first = path.read_bytes()
    assert main(["execute", "--all"]) == 0
    assert path.read_bytes() == first


def test_a_failing_chapter_stays_as_it_was_and_is_named_with_its_cell(project, capsys):
    good, bad = write(project, "good", "1"), write(project, "bad", "a = 1", "print('half')\na / 0")
    before = bad.read_bytes()
    assert main(["execute"]) == 1
    message = capsys.readouterr().err
    assert "bad, code cell 2: ZeroDivisionError: division by zero" in message
    assert "a / 0" in message and "\x1b" not in message
    assert bad.read_bytes() == before
    assert not notebooks.is_stale(good)
    assert sorted(file.name for file in (project / "book").iterdir()) == [
        "bad.ipynb", "data", "good.ipynb"]


def test_a_chapter_that_is_edited_while_it_runs_keeps_the_edit(project, capsys):
    path = write(project, "one", "import pathlib\npathlib.Path('one.ipynb').open('a').write(' ')")
    edited = path.read_bytes() + b" "
    assert main(["execute"]) == 1
    assert "one: was edited while it ran" in capsys.readouterr().err
    assert path.read_bytes() == edited


def test_a_cell_that_never_ends_is_stopped_and_named(project, monkeypatch, capsys):
    monkeypatch.setattr(notebooks, "CELL_TIMEOUT", 1)
    path = write(project, "slow", "1", "import time\ntime.sleep(60)")
    before = path.read_bytes()
    assert main(["execute"]) == 1
    assert "slow, code cell 2" in capsys.readouterr().err
    assert path.read_bytes() == before


@pytest.mark.parametrize("cell, reason", [
    ("import os\nprint(os.getcwd())", "a path of this machine"),
    ("import tempfile\ntempfile.gettempdir()", "a path of this machine"),
    ("import pathlib\npathlib.Path.home()", "a path of this machine"),
    ("import warnings\nwarnings.warn('careful')", "standard error"),
])
def test_outputs_that_must_not_be_published_are_refused(project, capsys, cell, reason):
    path = write(project, "one", "1", cell)
    before = path.read_bytes()
    assert main(["execute"]) == 1
    message = capsys.readouterr().err
    assert "one, code cell 2" in message and reason in message
    assert path.read_bytes() == before


def test_widget_views_are_dropped_and_their_html_stays():
    view = "application/vnd.jupyter.widget-view+json"
    notebook = new_notebook(cells=[new_code_cell("x", outputs=[
        new_output("display_data", {view: {"model_id": "7"}, "text/html": "<p>x</p>"})])])
    notebooks.normalise(notebook, "one")
    assert notebook.cells[0].outputs[0].data == {"text/html": "<p>x</p>"}


def test_unknown_chapters_are_named(capsys):
    assert main(["execute", "nowhere"]) == 2
    assert "No such chapter: nowhere. There are: " in capsys.readouterr().err


def test_stored_outputs_of_the_book_are_up_to_date():
    stale = [path.stem for path in notebooks.chapters() if notebooks.is_stale(path)]
    assert notebooks.chapters() and stale == []
