from __future__ import annotations

import pytest

from gbgnn_lab.experiments import depth, rebuild
from gbgnn_lab.experiments.depth import DEPTH, DEPTHS, draw
from gbgnn_lab.experiments.jobs import Outcome, run_job, run_jobs
from gbgnn_lab.experiments.options import Options
from gbgnn_lab.experiments.records import Record, open_records, read_records


def record(system, depth, accuracy, run=0, last=None, failure=None, quick=False):
    identity = {"dataset": "cora", "system": system, "depth": depth, "quick": quick, "run": run}
    results = {} if accuracy is None else {"test_accuracy": accuracy}
    if last is not None:
        results["last_test_accuracy"] = last
    return Record(identity, results=results, failure=failure)


def test_depths_double_from_1_to_64():
    assert DEPTHS == (1, 2, 4, 8, 16, 32, 64)


def test_runs_have_the_depth_that_was_asked_for(tiny, tmp_path):
    asked = DEPTH.choose(
        Options(quick=True, systems=("gbgnn", "sgc", "gcn"), depths=(1, 3), runs=2, out=tmp_path)
    )
    (jobs,) = DEPTH.stages({tiny.name: tiny}, asked)
    run_jobs(jobs, open_records(tmp_path, "depth"))
    records = read_records(tmp_path, "depth")
    assert len(records) == 12
    assert all(each.failure is None for each in records)
    for each in records:
        reached = each.results["rounds"] - 1 if each["system"] == "gbgnn" else each.settings["depth"]
        assert reached == each["depth"]
    epochs = {each.settings["epochs"] for each in records if each["system"] != "gbgnn"}
    assert epochs == {50}
    assert (
        "networks other than gbgnn's are trained for 50 epochs"
        in DEPTH.tabulate(read_records(tmp_path, "depth")).markdown()
    )
    assert list(DEPTH.draw(read_records(tmp_path, "depth"))) == ["depth.png"]


def test_without_quick_settings_are_the_published_ones(tiny, tmp_path, monkeypatch):
    def measured(system, data, device, run, depth, tell):
        return Outcome(dict(system.settings))

    monkeypatch.setattr(depth, "measure", measured)
    (jobs,) = DEPTH.stages(
        {tiny.name: tiny}, DEPTH.choose(Options(systems=("gcn",), depths=(2,), out=tmp_path))
    )
    assert [record.settings for job in jobs for record in run_job(job)] == [{}] * 5


def test_the_table_is_exact(tmp_path):
    for each in (
        record("gcn", 2, 0.8),
        record("gcn", 64, 0.2),
        record("gbgnn", 64, 0.82, last=0.81),
        record("gbgnn", 2, 0.78, last=0.78),
        record("sgc", 2, None, failure="tmp_path of memory"),
    ):
        open_records(tmp_path, "depth").append(each)
    page = DEPTH.tabulate(read_records(tmp_path, "depth"))
    assert page.tables[0].markdown() == (
        "| Model | 2 | 64 |\n| --- | ---: | ---: |\n"
        "| gbgnn, Adj | 78.0 | **82.0** |\n"
        "| gbgnn, Adj, last round | 78.0 | **81.0** |\n"
        "| GCN | **80.0** | 20.0 |\n"
        "| SGC | failed | - |"
    )
    assert "Failed, SGC: 1 run: tmp_path of memory" in page.notes
    assert "50 epochs" not in page.markdown()
    by_cell = {(row["system"], row["depth"]): row for row in page.data}
    assert by_cell["gbgnn", 64]["last_round_mean"] == 81.0
    assert by_cell["sgc", 2]["mean"] is None


def test_without_a_single_result_there_is_no_figure(tmp_path):
    open_records(tmp_path, "depth").append(record("sgc", 2, None, failure="tmp_path of memory"))
    files = rebuild("depth", Options(out=tmp_path)).files
    assert [path.suffix for path in files] == [".md", ".tex", ".csv"]


def labels(figure):
    (legend,) = figure.legends
    return [text.get_text() for text in legend.get_texts()]


def depths(system, means, dataset="cora"):
    return [
        Record(
            {"dataset": dataset, "system": system, "depth": depth, "run": run},
            results={"test_accuracy": mean + shift},
        )
        for depth, mean in means.items()
        for run, shift in enumerate((-0.01, 0.01))
    ]


def test_depth_has_a_panel_per_data_set_and_a_line_per_system():
    records = [
        *depths("gcn", {2: 0.8, 64: 0.2}),
        *depths("gbgnn", {2: 0.78, 64: 0.82}),
        *depths("gbgnn", {2: 0.7}, dataset="citeseer"),
    ]
    figure = draw(records)["depth.png"]
    cora, citeseer = figure.axes
    assert labels(figure) == ["gbgnn, Adj", "GCN"]
    ours, theirs = cora.lines
    assert theirs.get_ydata() == pytest.approx([80, 20])
    assert ours.get_linewidth() > theirs.get_linewidth()
    assert len(citeseer.lines) == 1
    assert [tick.get_text() for tick in cora.get_xticklabels()] == ["2", "64"]


def test_a_system_without_results_has_no_line():
    records = [*depths("gcn", {2: 0.8}), Record({"dataset": "cora", "system": "sgc", "depth": 2, "run": 0})]
    assert labels(draw(records)["depth.png"]) == ["GCN"]
