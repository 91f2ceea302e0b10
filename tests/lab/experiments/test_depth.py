from __future__ import annotations

import pytest

from gbgnn_lab.experiments import depth
from gbgnn_lab.experiments.depth import DEPTH, DEPTHS
from gbgnn_lab.experiments.experiment import Options, Shelf
from gbgnn_lab.experiments.records import Record
from gbgnn_lab.experiments.running import Outcome, attempt, run_jobs


def record(system, depth, accuracy, run=0, last=None, failure=None, quick=False):
    identity = {"dataset": "cora", "system": system, "depth": depth, "quick": quick, "run": run}
    results = {} if accuracy is None else {"test_accuracy": accuracy}
    if last is not None:
        results["last_test_accuracy"] = last
    return Record(identity, results=results, failure=failure)


@pytest.fixture
def shelf(tmp_path):
    return Shelf(tmp_path)


def test_depths_double_from_1_to_64():
    assert DEPTHS == (1, 2, 4, 8, 16, 32, 64)


def test_runs_have_the_depth_that_was_asked_for(tiny, shelf):
    asked = DEPTH.options(
        Options(quick=True, systems=("gbgnn", "sgc", "gcn"), depths=(1, 3), runs=2, out=shelf.out)
    )
    (jobs,) = DEPTH.stages({tiny.name: tiny}, asked, shelf)
    run_jobs(jobs, shelf.file("depth"))
    records = shelf.read("depth")
    assert len(records) == 12
    assert all(each.failure is None for each in records)
    for each in records:
        reached = each.results["rounds"] - 1 if each["system"] == "gbgnn" else each.settings["depth"]
        assert reached == each["depth"]
    epochs = {each.settings["epochs"] for each in records if each["system"] != "gbgnn"}
    assert epochs == {50}
    assert "networks other than gbgnn's are trained for 50 epochs" in DEPTH.page(shelf).markdown()
    assert list(DEPTH.figures(shelf)) == ["depth.png"]


def test_without_quick_settings_are_the_published_ones(tiny, shelf, monkeypatch):
    def measured(system, data, run, device, hops, tell):
        return Outcome(dict(system.overrides))

    monkeypatch.setattr(depth, "measure", measured)
    (jobs,) = DEPTH.stages({tiny.name: tiny}, DEPTH.options(Options(systems=("gcn",), depths=(2,))), shelf)
    assert [record.settings for job in jobs for record in attempt(job)] == [{}] * 5


def test_the_table_is_exact(shelf):
    for each in (
        record("gcn", 2, 0.8),
        record("gcn", 64, 0.2),
        record("gbgnn", 64, 0.82, last=0.81),
        record("gbgnn", 2, 0.78, last=0.78),
        record("sgc", 2, None, failure="out of memory"),
    ):
        shelf.file("depth").append(each)
    page = DEPTH.page(shelf)
    assert page.tables[0].markdown() == (
        "| Model | 2 | 64 |\n| --- | ---: | ---: |\n"
        "| gbgnn, Adj | 78.0 | **82.0** |\n"
        "| gbgnn, Adj, last round | 78.0 | **81.0** |\n"
        "| GCN | **80.0** | 20.0 |\n"
        "| SGC | failed | - |"
    )
    assert "Failed, SGC: 1 run: out of memory" in page.notes
    assert "50 epochs" not in page.markdown()
    by_cell = {(row["system"], row["depth"]): row for row in page.data}
    assert by_cell["gbgnn", 64]["last_round_mean"] == 81.0
    assert by_cell["sgc", 2]["mean"] is None


def test_without_a_single_result_there_is_no_figure(shelf):
    shelf.file("depth").append(record("sgc", 2, None, failure="out of memory"))
    assert DEPTH.figures(shelf) == {}
