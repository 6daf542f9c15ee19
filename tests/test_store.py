"""Published results: what is written comes back, and anything damaged is refused."""

from __future__ import annotations

from dataclasses import replace
import json
import math

import numpy as np
import pytest

from slrbook import __main__ as command
from slrbook import published, store, studies
from slrbook.store import Journal, StoreError, Table

ROWS = [{"task": "a", "alpha": 0.5, "draw": 0, "converged": True, "risk": 1 / 3},
        {"task": "a", "alpha": 0.5, "draw": 1, "converged": False, "risk": 0.25},
        {"task": "b", "alpha": 1.0, "draw": 0, "converged": True, "risk": -1e-300},
        {"task": "b", "alpha": 1.0, "draw": 1, "converged": True, "risk": 1e300}]


def test_round_trip_keeps_types_values_and_record(tmp_path):
    store.write("t", ROWS, {"seed": 3}, tmp_path)
    table = store.read("t.csv", tmp_path)
    for got, row in zip(table.rows(), ROWS, strict=True):
        assert {name: type(value) for name, value in got.items()} == {
            name: type(value) for name, value in row.items()}
        assert got["risk"] == pytest.approx(row["risk"], rel=1e-9)
        assert got | {"risk": 0} == row | {"risk": 0}
    assert table.record["seed"] == 3 and table.record["rows"] == 4
    assert table.record["versions"]["numpy"] == np.__version__
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.csv", "t.json"]


def test_writing_twice_gives_the_same_bytes(tmp_path):
    store.write("t", ROWS, {}, tmp_path)
    before = (tmp_path / "t.csv").read_bytes()
    store.write("t", store.read("t", tmp_path).rows(), {}, tmp_path)
    assert (tmp_path / "t.csv").read_bytes() == before


def damage_cut(folder):
    path = folder / "t.csv"
    path.write_bytes(path.read_bytes()[:-3])


def damage_number(folder):
    path = folder / "t.csv"
    path.write_text(path.read_text().replace("0.25", "0.26"))


def damage_record(folder):
    path = folder / "t.json"
    path.write_text(path.read_text()[:-20])


def damage_no_record(folder):
    (folder / "t.json").unlink()


def damage_no_table(folder):
    (folder / "t.csv").unlink()


def damage_bare_record(folder):
    (folder / "t.json").write_text("{}")


@pytest.mark.parametrize(("damage", "reason"), [
    (damage_cut, "half-written"), (damage_number, "half-written or was edited"),
    (damage_record, "t.json is damaged"), (damage_no_record, "t.json is missing"),
    (damage_no_table, "t.csv is missing"), (damage_bare_record, "t.json is damaged")])
def test_damaged_results_are_refused(tmp_path, damage, reason):
    store.write("t", ROWS, {}, tmp_path)
    damage(tmp_path)
    with pytest.raises(StoreError, match=reason):
        store.read("t", tmp_path)


def test_a_crash_while_writing_leaves_the_old_file(tmp_path, monkeypatch):
    store.write("t", ROWS, {}, tmp_path)
    before = (tmp_path / "t.csv").read_bytes()

    def crash(_):
        raise OSError("disk full")

    monkeypatch.setattr(store.os, "fsync", crash)
    with pytest.raises(OSError, match="disk full"):
        store.write("t", ROWS[:2], {}, tmp_path)
    assert (tmp_path / "t.csv").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.csv", "t.json"]


@pytest.mark.parametrize(("rows", "reason"), [
    ([], "at least one row"),
    ([{"a": 1.0}, {"b": 1.0}], "must all have the columns"),
    ([{"a": 1.0}, {"a": 1}], "one type"),
    ([{"a": None}], "one type"),
    ([{"a": np.float64(1.0)}], "one type"),
    ([{"a": math.nan}], "finite"),
    ([{"a": math.inf}], "finite")])
def test_rows_that_cannot_be_kept_are_refused(tmp_path, rows, reason):
    with pytest.raises(ValueError, match=reason):
        store.write("t", rows, {}, tmp_path)
    assert not list(tmp_path.iterdir())


def test_selecting_and_averaging(tmp_path):
    store.write("t", ROWS, {}, tmp_path)
    table = store.read("t", tmp_path)
    assert table.where(task="a", draw=1)["risk"].tolist() == [0.25]
    with pytest.raises(ValueError, match="there must be rows"):
        table.where(task="c")
    with pytest.raises(ValueError, match="column must be one of"):
        table["nu"]
    values, mean, error = table.where(task="a").average("alpha", "risk")
    assert values.tolist() == [0.5]
    assert mean[0] == pytest.approx((1 / 3 + 0.25) / 2)
    assert error[0] == pytest.approx((1 / 3 - 0.25) / 2)  # s/sqrt(2) of two numbers
    with pytest.raises(ValueError, match="at least two rows"):
        table.where(draw=0).average("alpha", "risk")
    assert isinstance(table.where(task="a"), Table)


def test_journal_survives_a_torn_line_and_drops_another_computation(tmp_path):
    journal = Journal("t", {"code": "x"}, tmp_path)
    journal.append("one", rows=[1])
    journal.append("two", rows=[2])
    with open(journal.path, "a") as file:
        file.write('{"key": "three", "ro')
    resumed = Journal("t", {"code": "x"}, tmp_path)
    assert list(resumed.done) == ["one", "two"]
    resumed.append("three", rows=[3])
    assert list(Journal("t", {"code": "x"}, tmp_path).done) == ["one", "two", "three"]
    assert not Journal("t", {"code": "y"}, tmp_path).done


# --- studies -------------------------------------------------------------------------------------

calls = []


def squares(x, seed):
    calls.append(x)
    if x == "crash":
        raise RuntimeError("power cut")
    return [{"x": x, "seed": seed, "square": x * x}]


STUDY = published.Study("squares", "Squares.", squares,
                        tuple({"x": x, "seed": 7} for x in (1.0, 2.0, 3.0)), ("lengths",),
                        {"noise": 0.3})


def run(study, folder):
    calls.clear()
    return published.regenerate(study, folder=folder, progress=False)


def test_a_study_is_computed_once(tmp_path):
    assert run(STUDY, tmp_path) and calls == [1.0, 2.0, 3.0]
    assert not run(STUDY, tmp_path) and not calls
    record = store.read("squares", tmp_path).record
    assert record["parameters"] == {"noise": 0.3, "x": [1.0, 2.0, 3.0], "seed": [7]}
    assert record["code"] == STUDY.code() and record["wall_seconds"] >= 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["squares.csv", "squares.json"]


def test_a_run_that_died_is_resumed(tmp_path):
    broken = replace(STUDY, jobs=STUDY.jobs[:2] + ({"x": "crash", "seed": 7},))
    with pytest.raises(RuntimeError, match="power cut"):
        run(broken, tmp_path)
    with pytest.raises(StoreError):
        store.read("squares", tmp_path)
    assert run(STUDY, tmp_path) and calls == [3.0]
    assert store.read("squares", tmp_path)["square"].tolist() == [1.0, 4.0, 9.0]


def test_changed_code_and_changed_jobs_are_recomputed(tmp_path):
    run(STUDY, tmp_path)
    assert run(replace(STUDY, modules=("lengths", "gaussian")), tmp_path) and len(calls) == 3
    assert run(replace(STUDY, jobs=STUDY.jobs[1:]), tmp_path)
    assert store.read("squares", tmp_path)["x"].tolist() == [2.0, 3.0]


def test_the_hash_covers_what_the_modules_reach():
    theory = next(study for study in studies.STUDIES if study.name == "erm_limits")
    files = {path.name for path in published.notebooks.reached("import slrbook.state_evolution")}
    assert {"proximal.py", "fixed_point.py", "tasks.py", "gaussian.py"} <= files
    assert theory.code() != replace(theory, modules=("erm",)).code()
    assert theory.code() != replace(theory, compute=squares).code()


def test_the_command_names_what_it_knows(capsys):
    assert command.main(["data", "nothing"]) == 2
    assert "No such result: nothing. There are: erm_limits" in capsys.readouterr().err


def test_every_record_is_json_that_a_person_can_read():
    for study in studies.STUDIES:
        assert json.loads(json.dumps(list(study.jobs)))
        keys = [json.dumps(job) for job in study.jobs]
        assert len(set(keys)) == len(keys), f"{study.name} has a job twice"
