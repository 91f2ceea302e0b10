from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gbgnn.errors import ParameterError
from gbgnn_lab.experiments import leaderboard
from gbgnn_lab.experiments.jobs import run_jobs
from gbgnn_lab.experiments.leaderboard import (
    COMPARISON,
    cite,
    compare,
    list_searched,
    load_splits,
    plan_jobs,
    rank_report,
    rank_systems,
)
from gbgnn_lab.experiments.options import CompareOptions, Options
from gbgnn_lab.experiments.records import Record, RecordFile, identify_data, open_records, read_records
from gbgnn_lab.experiments.systems import SYSTEMS

TINY = {"n_nodes": 60, "per_class": 5, "n_classes": 3}


@pytest.fixture
def folder(tmp_path, tiny):
    """Two files: one with three splits of its own, one without any."""
    graph = tiny.graph
    plain = {
        "indptr": graph.adjacency.indptr,
        "indices": graph.adjacency.indices,
        "feat": graph.features,
        "y": tiny.y,
    }
    part = np.random.default_rng(0).integers(3, size=(60, 3))
    masks = {f"{name}_mask": part == i for i, name in enumerate(("train", "val", "test"))}
    np.savez(tmp_path / "own.npz", **plain, **masks)
    np.savez(tmp_path / "bare.npz", **plain)
    return tmp_path


@pytest.fixture
def here(monkeypatch):
    """Runs in this process, which is faster."""

    def run(jobs, file, *, is_alone, **rest):
        assert is_alone
        run_jobs(jobs, file, **rest)

    monkeypatch.setattr(leaderboard, "run_jobs", run)


def names(options, name):
    return [data.split_name for data in load_splits(options, str(name))]


def test_own_splits_are_taken_where_there_are_several(folder):
    options = CompareOptions(names=("x",), splits=2)
    assert names(options, folder / "own.npz") == ["public 0 of 3", "public 1 of 3"]
    assert len(names(replace(options, splits=10), folder / "own.npz")) == 3
    first, second = load_splits(options, str(folder / "own.npz"))
    assert first.graph is second.graph
    assert first.train.tolist() != second.train.tolist()


def test_data_without_splits_has_them_drawn(folder):
    options = CompareOptions(names=("x",), splits=2)
    assert names(options, folder / "bare.npz") == ["stratified, seed 0", "stratified, seed 1"]


def test_a_single_split_of_its_own_is_the_only_one():
    options = CompareOptions(names=("csbm",), data_options=TINY)
    assert names(options, "csbm") == ["random, seed 0"]


def test_splits_are_drawn_where_that_is_asked_for(folder):
    options = CompareOptions(names=("x",), splits=2, split="stratified")
    assert names(options, folder / "own.npz") == ["stratified, seed 0", "stratified, seed 1"]


def test_classes_too_small_for_folds_do_no_harm(folder, tiny):
    y = np.array(tiny.y)
    y[y == 2] = 1
    y[0] = 2
    with np.load(folder / "own.npz") as arrays:
        one = {
            key: value[:, 0] if value.ndim == 2 and "mask" in key else value for key, value in arrays.items()
        }
    np.savez(folder / "small.npz", **one | {"y": y})
    assert names(CompareOptions(names=("x",)), folder / "small.npz") == ["public"]


def test_systems_are_ranked_and_failures_shown(folder, here, monkeypatch):
    options = CompareOptions(
        names=(str(folder / "own.npz"),),
        systems=("sgc", "label_propagation"),
        splits=2,
        runs=1,
        out=folder / "board",
    )
    monkeypatch.setattr(leaderboard, "measure", _fail_for_sgc)
    report = compare(options)
    assert report.n_failed == 2
    assert "| - | SGC | failed | 0 | - | - |" in report.markdown()
    assert "Failed, SGC on own: 2 runs: MemoryError: too large" in report.notes
    assert report.notes[0].startswith("own: 2 splits (public 0 of 3 to public 1 of 3; ")
    monkeypatch.undo()
    again = compare(options)
    assert again.n_failed == 0
    assert {row["system"]: row["runs"] for row in again.data} == {"sgc": 2, "label_propagation": 2}
    assert [path.name for path in again.files] == ["table.md", "table.tex", "table.csv"]


def test_what_was_asked_for_before_does_not_show(folder, here):
    asked = {"names": ("csbm",), "data_options": TINY, "runs": 1, "out": folder / "board"}
    compare(CompareOptions(**asked, systems=("label_propagation", "mlp")))
    report = compare(CompareOptions(**asked, systems=("label_propagation",)))
    assert [row["system"] for row in report.data] == ["label_propagation"]
    assert len(RecordFile(folder / "board" / "records.jsonl").read()) == 2


@pytest.fixture
def prices(folder, numeric):
    """A file with a number for every node."""
    adjacency = numeric.graph.adjacency
    arrays = {"indptr": adjacency.indptr, "indices": adjacency.indices, "feat": numeric.graph.features}
    np.savez(folder / "prices.npz", **arrays, y=numeric.y)
    return folder / "prices.npz"


def test_numbers_are_compared_by_those_who_can(prices, here):
    asked = ("gbgnn-ii", "gcn", "gbgnn-samme", "histgb_1hop")
    options = CompareOptions(
        names=(str(prices),), systems=asked, splits=2, runs=1, out=prices.parent / "board", device="cpu"
    )
    report = compare(options)
    assert sorted(row["system"] for row in report.data) == ["gbgnn-ii", "histgb_1hop"]
    assert all(row["runs"] == 2 and row["failed"] == 0 for row in report.data)
    assert report.tables[0].columns[2:5] == ["Test R2", "MAE", "RMSE"]
    said = "numbers, not all whole: regression. Left out, as they are for classes: gcn, gbgnn-samme."
    assert said in report.markdown()
    means = [row["mean"] for row in report.data]
    assert means == sorted(means, reverse=True)
    records = RecordFile(prices.parent / "board" / "records.jsonl").read()
    assert {record["task"] for record in records} == {"regression"}
    for row in report.data:
        own = [each.results["test_r2"] for each in records if each["system"] == row["system"]]
        assert row["mean"] == pytest.approx(np.mean(own), abs=1e-4)


def test_someone_must_be_able_to_predict_numbers(prices):
    with pytest.raises(
        ParameterError,
        match="prices has numbers to predict, and gcn, sgc can tell classes only; take some of gbgnn,",
    ):
        plan_jobs(CompareOptions(names=(str(prices),), systems=("gcn", "sgc")))


def test_ten_runs_are_shared_among_the_splits(folder):
    jobs, notes = plan_jobs(CompareOptions(names=(str(folder / "own.npz"), "csbm"), systems=("mlp",)))
    assert len(jobs) == 9 + 10
    assert notes[0].endswith("3 seeds each.")
    assert notes[1].endswith("10 seeds each.")


def _fail_for_sgc(system, data, device, run, tell):
    from gbgnn_lab.experiments.systems import measure

    if system.name == "sgc":
        raise MemoryError("too large")
    return measure(system, data, device, run)


ON_GPU = {
    "machine": {"cpu": "Abacus", "cores": 2, "gpu": "X1"},
    "versions": {"gbgnn": "1.0"},
    "date": "2026-01-02",
    "command": "gbgnn compare",
}


def runs(system, *accuracies, dataset="cora", seconds=1.0, memory=2**20):
    return [
        Record(
            {"dataset": dataset, "system": system, "run": run},
            results={"test_accuracy": accuracy, "fit_seconds": seconds, "memory": memory},
        )
        for run, accuracy in enumerate(accuracies)
    ]


def failed(system, dataset="cora"):
    return Record({"dataset": dataset, "system": system, "run": 0}, failure="out of memory")


def test_equal_means_share_a_place():
    records = [*runs("gcn", 0.8), *runs("sgc", 0.9), *runs("gbgnn", 0.8), *runs("gat", 0.5), failed("x")]
    assert [(each.system, each.rank) for each in rank_systems(records)] == [
        ("sgc", 1),
        ("gbgnn", 2),
        ("gcn", 2),
        ("gat", 4),
        ("x", None),
    ]


def test_a_board_of_several_kinds_of_machines_says_which_is_which():
    on_gpu = [replace(run, environment=ON_GPU) for run in runs("sgc", 0.9, 0.9)]
    both = [*runs("gat", 0.7), replace(runs("gat", 0.7)[0], environment=ON_GPU)]
    page = rank_report("Board", [*runs("gcn", 0.8), *on_gpu, *both])
    assert page.tables[0].columns[-1] == "On"
    assert [row[-1].text for row in page.tables[0].rows] == ["GPU", "CPU", "CPU and GPU"]
    assert "On" not in rank_report("Board", on_gpu).tables[0].columns


def test_a_board_shows_what_probabilities_are_worth():
    known = {"test_auc": 0.9, "test_average_precision": 0.8, "test_log_loss": 0.4}
    gcn, lp = runs("gcn", 0.8), runs("label_propagation", 0.7)
    gcn = [replace(record, results={**record.results, **known}) for record in gcn]
    page = rank_report("Board", [*gcn, *lp])
    lines = page.markdown().split("\n\n")[2].splitlines()
    assert lines[0] == "| Rank | Model | Test accuracy, % | AUC | AP | Log loss | Runs | Seconds | Peak MiB |"
    assert lines[2] == "| 1 | GCN | **80.0** | 0.900 | 0.800 | 0.400 | 1 | 1.00 | 1 |"
    assert lines[3] == "| 2 | LP | 70.0 | - | - | - | 1 | 1.00 | 1 |"
    assert page.data[0] | known == page.data[0]
    assert "test_auc" not in page.data[1]


def test_a_board_is_exact():
    records = [*runs("gcn", 0.8, 0.81, seconds=2.5, memory=3 * 2**30), *runs("gbgnn", 0.82), failed("gat")]
    page = rank_report("Board", records, ["How."], is_cited=True)
    assert page.markdown().split("\n\n")[:3] == [
        "# Board",
        "Cora",
        "| Rank | Model | Test accuracy, % | Cited | Runs | Seconds | Peak MiB |\n"
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |\n"
        "| 1 | gbgnn | **82.0** | - | 1 | 1.00 | 1 |\n"
        "| 2 | GCN | 80.5 ± 0.7 | 81.5 | 2 | 2.50 | 3,072 |\n"
        "| - | GAT | failed | 83.0 | 0 | - | - |",
    ]
    assert page.notes[0] == "How."
    assert "Failed, GAT on Cora: 1 run: out of memory" in page.notes
    assert page.data[1] == {
        "dataset": "cora",
        "system": "gcn",
        "rank": 2,
        "measure": "accuracy",
        "mean": 80.5,
        "std": 0.707,
        "runs": 2,
        "failed": 0,
        "cited": 81.5,
        "seconds": 2.5,
        "memory": 3 * 2**30,
        "on": "CPU",
    }


def test_several_data_sets_have_an_overview_by_mean_rank():
    records = [
        *runs("gcn", 0.8),
        *runs("sgc", 0.9),
        *runs("gat", 0.95),
        *runs("gcn", 0.7, dataset="mine"),
        *runs("sgc", 0.6, dataset="mine"),
        failed("gat", "mine"),
        *runs("gbgnn", 0.9, dataset="mine"),
    ]
    overview, *boards = rank_report("Board", records).tables
    assert overview.markdown() == (
        "| Model | Cora | mine | Mean rank |\n| --- | ---: | ---: | ---: |\n"
        "| SGC | 90.0 | 60.0 | 2.5 |\n"
        "| GCN | 80.0 | 70.0 | 2.5 |\n"
        "| GAT | **95.0** | failed | - |\n"
        "| gbgnn | - | **90.0** | - |"
    )
    assert [table.caption for table in boards] == ["Cora", "mine"]
    assert "Cited" not in boards[0].columns


def number_runs(system, *scores, dataset="prices"):
    return [
        Record(
            {"dataset": dataset, "task": "regression", "system": system, "run": run},
            results={"test_r2": r2, "test_mae": 1234.5, "test_rmse": 0.5, "fit_seconds": 1.0, "memory": 0},
        )
        for run, r2 in enumerate(scores)
    ]


def test_numbers_are_ranked_by_r2():
    records = [*number_runs("lightgbm", 0.5, 0.6), *number_runs("gbgnn", 0.7, 0.72)]
    page = rank_report("Board", records)
    assert page.tables[0].markdown() == (
        "| Rank | Model | Test R2 | MAE | RMSE | Runs | Seconds | Peak MiB |\n"
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n"
        "| 1 | gbgnn | **0.710 ± 0.014** | 1234 | 0.5 | 2 | 1.00 | 0 |\n"
        "| 2 | LightGBM | 0.550 ± 0.071 | 1234 | 0.5 | 2 | 1.00 | 0 |"
    )
    best = page.data[0]
    assert (best["measure"], best["mean"], best["std"], best["test_mae"]) == ("r2", 0.71, 0.01414, 1234.5)


def test_an_overview_may_have_classes_and_numbers():
    records = [*runs("gcn", 0.8), *runs("gbgnn", 0.9), *number_runs("gbgnn", 0.7)]
    overview, *_ = rank_report("Board", records).tables
    assert overview.caption == "Test accuracy in percent or R2 over 2 data sets"
    assert [[entry.text for entry in row] for row in overview.rows] == [
        ["gbgnn", "90.0", "0.700", "1.0"],
        ["GCN", "80.0", "-", "-"],
    ]


def test_the_order_of_records_does_not_matter():
    records = [*runs("gcn", 0.8, 0.7), *runs("sgc", 0.75), *runs("gbgnn", 0.75, dataset="mine")]
    forward, backward = (rank_report("Board", each) for each in (records, records[::-1]))
    assert forward.markdown() == backward.markdown()
    assert forward.csv() == backward.csv()


def searched(data, accuracy, run=0, **cell):
    place = {"variant": "adj", "hidden_layers": 1, "fine_tune": False} | cell
    results = {"search_accuracy": accuracy}
    return Record(
        {**identify_data(data), **place, "run": run}, settings={"n_rounds": 1 + run}, results=results
    )


def runs_of(data, tmp_path, **options):
    asked = COMPARISON.choose(Options(**options, out=tmp_path))
    (jobs,) = COMPARISON.stages({data.name: data}, asked)
    return [identity for job in jobs for identity in job.identities]


def test_every_system_runs_ten_times_by_default(tiny, tmp_path):
    planned = runs_of(tiny, tmp_path)
    assert [identity["run"] for identity in planned[:10]] == list(range(10))
    assert len(planned) == 10 * len(SYSTEMS)
    assert COMPARISON.is_alone


def test_the_papers_variants_have_the_find_settings_their_best_search(tiny, scrambled, tmp_path):
    for record in (
        searched(tiny, 0.7, 0),
        searched(tiny, 0.9, 1),
        searched(tiny, 0.9, 2),
        searched(scrambled, 0.99, 3),
        searched(tiny, 0.99, 4, hidden_layers=2),
    ):
        open_records(tmp_path, "table1").append(record)
    open_records(tmp_path, "table4").append(searched(tiny, 0.6, 5, variant="ii", fine_tune=True))
    found = list_searched(read_records(tmp_path, "table1", "table4"), identify_data(tiny))
    assert [(system.name, system.settings) for system in found] == [
        ("GB-GNN-Adj", {"n_rounds": 2}),
        ("GB-GNN-II + FT", {"n_rounds": 6}),
    ]
    own = runs_of(tiny, tmp_path, systems=("gcn",), runs=1)
    assert [(identity["system"], identity.get("settings")) for identity in own] == [
        ("gcn", None),
        ("GB-GNN-Adj", {"n_rounds": 2}),
        ("GB-GNN-II + FT", {"n_rounds": 6}),
    ]


def test_published_numbers_are_the_papers_where_it_has_any():
    assert cite("tagcn", "pubmed") == 79.4
    assert cite("monet", "citeseer") is None
    assert cite("GB-GNN-KTA + FT", "pubmed") is None
    assert cite("GB-GNN-KTA", "citeseer") == 73.1
    assert cite("gcnii", "pubmed") == 80.2
    assert cite("gcn", "mine") is None


def test_the_page_says_where_cited_numbers_differ(tmp_path):
    for system, accuracy in (("sgc", 0.8), ("gcn", 0.81), ("GB-GNN-Adj", 0.82)):
        results = {"test_accuracy": accuracy, "fit_seconds": 1.0, "memory": 0}
        open_records(tmp_path, "comparison").append(
            Record({"dataset": "cora", "system": system, "run": 0}, results=results)
        )
    page = COMPARISON.tabulate(read_records(tmp_path, "comparison"))
    assert "| 1 | GB-GNN-Adj | **82.0** | 79.9 | 1 | 1.00 | 0 |" in page.markdown()
    differing = [note for note in page.notes if "in brackets what is cited" in note]
    assert differing == [
        "SGC: its paper has 81.0 on Cora (83.0), 71.9 on CiteSeer (72.5), 78.9 on PubMed (79.0); in brackets "
        "what is cited."
    ]
