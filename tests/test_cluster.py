"""The same sweep and the same studies on a dask cluster, here one of two processes."""

from __future__ import annotations

from functools import partial

from distributed import Client, LocalCluster
from joblib import parallel_config
import pytest

from slrbook import SpikedSLR, published, solve_erm, store, studies, sweep
from slrbook import __main__ as command


@pytest.fixture(scope="module")
def address():
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        yield cluster.scheduler_address


def test_a_sweep_on_dask_is_the_sweep(address):
    solver = partial(solve_erm, SpikedSLR(2.0, 3), ridge=1.0, noise=0.3, samples=2**9)
    grid = {"activation": ["softmax", "linear"], "alpha": [8.0, 4.0]}
    here = sweep(solver, grid, progress=False)
    with Client(address) as client, parallel_config(backend="dask"):
        there = sweep(solver, grid, jobs=-1, progress=False)
        chains = client.run(lambda dask_worker: dask_worker.state.executed_count)
    assert there == here
    assert sum(chains.values()) >= 2, "the cluster has done nothing"


def test_published_results_on_dask_are_the_same(address, tmp_path, monkeypatch, capsys):
    [study] = [study for study in studies.STUDIES if study.name == "bayes_limits"]
    small = published.Study(**{**vars(study), "jobs": tuple(
        {**job, "samples": 2**9} for job in study.jobs[:3])})
    monkeypatch.setattr(studies, "STUDIES", (small,))
    tables = []
    for folder, options in ((tmp_path / "here", ["--jobs", "1"]),
                            (tmp_path / "there", ["--dask", address])):
        folder.mkdir()
        regenerate = partial(published.regenerate, folder=folder, progress=False)
        with monkeypatch.context() as patch:
            patch.setattr(published, "regenerate", regenerate)
            assert command.main(["data", *options]) == 0
        assert capsys.readouterr().out == "bayes_limits: written.\n"
        tables.append([{**row, "seconds": 0} for row in store.read("bayes_limits", folder).rows()])
    assert tables[0] == tables[1] and len(tables[0]) == 6
