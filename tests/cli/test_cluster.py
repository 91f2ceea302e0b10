from __future__ import annotations

import json
from pathlib import Path

import pytest
from distributed import Client

import gbgnn
from gbgnn.dask.layout import find_address


@pytest.fixture(scope="module")
def scheduler():
    with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0") as client:
        yield find_address(client)


def test_a_run_on_a_cluster_is_a_run_like_others(run, scheduler: str) -> None:
    result = run("fit", "karate", *run.quick, "--dask", scheduler, "--out", "r")
    assert f"nodes on 2 workers of {scheduler}, 2 chunks" in result.stderr
    assert "round 4/4" in result.stderr
    assert {p.name for p in Path("r").iterdir()} == run.files
    model = gbgnn.load("r/model.gbgnn")
    assert type(model) is gbgnn.GBGNNClassifier
    run("predict", "r", "--out", "labels.csv")
    run("fit", "karate", *run.quick, "--preset", "fast", "--out", "alone", "-q")
    there, here = (json.loads(Path(name, "metrics.json").read_text())["splits"] for name in ("r", "alone"))
    assert there["test"]["accuracy"] == here["test"]["accuracy"]


def test_numbers_are_fitted_by_a_regressor(run, scheduler: str, tmp_path: Path) -> None:
    people, calls = tmp_path / "people.csv", tmp_path / "calls.csv"
    people.write_text("id,age,spent\n" + "".join(f"{i},{i % 7},{i * 1.5 + i % 3}\n" for i in range(30)))
    calls.write_text("source,target\n" + "".join(f"{i},{(i * 7 + 1) % 30}\n" for i in range(30)))
    tables = ("--nodes", str(people), "--edges", str(calls), "--target", "spent")
    run("fit", *tables, *run.quick, "--dask", scheduler, "--out", "r", "-q")
    assert type(gbgnn.load("r/model.gbgnn")) is gbgnn.GBGNNRegressor


def test_a_scheduler_that_is_not_there_is_an_error(run) -> None:
    result = run("fit", "karate", *run.quick, "--dask", "tcp://127.0.0.1:9", "--out", "r", code=1)
    assert "error: no Dask scheduler answers at 'tcp://127.0.0.1:9'" in result.stderr
    assert not Path("r").exists()
