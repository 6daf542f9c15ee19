"""The ledger of claims: every entry is whole, tested, and its numbers are computed afresh."""

from __future__ import annotations

import ast
import math
from pathlib import Path
import re

import numpy as np
import pytest
import yaml

import slrbook
from slrbook import Linear, Softmax, SpikedSLR, population_risk

ROOT = Path(__file__).resolve().parents[1]
CLAIMS = yaml.safe_load((ROOT / "book" / "claims.yml").read_text(encoding="utf8"))
REQUIRED = {"id", "claim", "source", "chapter", "test", "claimed", "measured", "verdict"}
OPTIONAL = {"tolerance", "compute", "note"}
NUMBERS = [claim for claim in CLAIMS if "compute" in claim]

every_claim = pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim["id"])


def test_names_are_unique_and_fit_for_an_anchor():
    names = [claim["id"] for claim in CLAIMS]
    assert len(names) == len(set(names)) > 0
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in names)


@every_claim
def test_entry_is_whole(claim):
    assert REQUIRED <= set(claim) <= REQUIRED | OPTIONAL
    assert claim["verdict"] in ("holds", "refined", "contradicted")
    assert (claim["verdict"] == "holds") or claim["note"].strip()
    numeric = isinstance(claim["measured"], (int, float))
    assert numeric == ("compute" in claim) == ("tolerance" in claim)
    if numeric and isinstance(claim["claimed"], (int, float)):
        agree = abs(claim["claimed"] - claim["measured"]) <= claim["tolerance"]
        assert agree == (claim["verdict"] == "holds")


@every_claim
def test_chapter_is_part_of_the_book(claim):
    assert (ROOT / "book" / f"{claim['chapter']}.ipynb").is_file()
    assert f"book/{claim['chapter']}" in (ROOT / "_toc.yml").read_text(encoding="utf8")


@every_claim
def test_the_test_of_a_claim_exists_and_runs(claim):
    file, *names = claim["test"].split("::")
    body = ast.parse((ROOT / file).read_text(encoding="utf8")).body
    for name in names:
        found = [node for node in body if getattr(node, "name", None) == name]
        assert len(found) == 1, f"{claim['test']}: no such test"
        assert not any("skip" in ast.unparse(mark) or "xfail" in ast.unparse(mark)
                       for mark in found[0].decorator_list)
        body = found[0].body
    assert names and names[-1].startswith("test_")


@pytest.mark.parametrize("claim", NUMBERS, ids=[claim["id"] for claim in NUMBERS])
def test_measured_number_is_what_the_package_computes(claim):
    names = {name: getattr(slrbook, name) for name in dir(slrbook) if not name.startswith("_")}
    value = eval(claim["compute"], {"np": np, "math": math} | names)
    assert abs(value - claim["measured"]) <= claim["tolerance"]


def test_softmax_focuses_where_linear_attention_spreads():
    task = SpikedSLR(9, 12)
    data = task.sample(20_000, 50, rng=2)
    scores = data.tokens @ data.key_star / np.sqrt(50)
    focused = {}
    for activation in (Softmax(), Linear()):
        weights = abs(activation(population_risk(task, activation).key_scale * scores))
        share = weights[np.arange(20_000), data.location] / weights.sum(axis=1)
        focused[activation.name] = (share > 0.5).mean()
    assert focused["softmax"] == pytest.approx(0.87, abs=0.01)
    assert focused["linear"] == pytest.approx(0.003, abs=0.002)
