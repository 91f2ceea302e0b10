from __future__ import annotations

from dataclasses import replace

from gbgnn_lab.experiments.ranking import rank_report, rank_systems
from gbgnn_lab.experiments.records import Record

ON_GPU = {
    "machine": {"cpu": "Abacus", "cores": 2, "gpu": "X1"},
    "versions": {"gbgnn": "1.0"},
    "date": "2026-01-02",
    "command": "gbgnn compare",
}
TITLES = {"gbgnn": "gbgnn", "gcn": "GCN", "sgc": "SGC", "gat": "GAT"}


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
    assert [(each.system, each.rank) for each in rank_systems(records, TITLES)] == [
        ("sgc", 1),
        ("gbgnn", 2),
        ("gcn", 2),
        ("gat", 4),
        ("x", None),
    ]


def test_a_board_of_several_kinds_of_machines_says_which_is_which():
    on_gpu = [replace(run, environment=ON_GPU) for run in runs("sgc", 0.9, 0.9)]
    both = [*runs("gat", 0.7), replace(runs("gat", 0.7)[0], environment=ON_GPU)]
    page = rank_report("Board", [*runs("gcn", 0.8), *on_gpu, *both], TITLES)
    assert page.tables[0].columns[-1] == "On"
    assert [row[-1].text for row in page.tables[0].rows] == ["GPU", "CPU", "CPU and GPU"]
    assert "On" not in rank_report("Board", on_gpu, TITLES).tables[0].columns


def test_a_board_is_exact():
    records = [*runs("gcn", 0.8, 0.81, seconds=2.5, memory=3 * 2**30), *runs("gbgnn", 0.82), failed("gat")]
    page = rank_report(
        "Board", records, TITLES, ["How."], lambda system, name: 81.5 if system == "gcn" else None
    )
    assert page.markdown().split("\n\n")[:3] == [
        "# Board",
        "Cora",
        "| Rank | Model | Test accuracy, % | Cited | Runs | Seconds | Peak MiB |\n"
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |\n"
        "| 1 | gbgnn | **82.0** | - | 1 | 1.00 | 1 |\n"
        "| 2 | GCN | 80.5 ± 0.7 | 81.5 | 2 | 2.50 | 3,072 |\n"
        "| - | GAT | failed | - | 0 | - | - |",
    ]
    assert page.notes[0] == "How."
    assert "Failed, GAT on Cora: 1 run: out of memory" in page.notes
    assert page.data[1] == {
        "dataset": "cora",
        "system": "gcn",
        "rank": 2,
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
    overview, *boards = rank_report("Board", records, TITLES).tables
    assert overview.markdown() == (
        "| Model | Cora | mine | Mean rank |\n| --- | ---: | ---: | ---: |\n"
        "| SGC | 90.0 | 60.0 | 2.5 |\n"
        "| GCN | 80.0 | 70.0 | 2.5 |\n"
        "| GAT | **95.0** | failed | - |\n"
        "| gbgnn | - | **90.0** | - |"
    )
    assert [table.caption for table in boards] == ["Cora", "mine"]
    assert "Cited" not in boards[0].columns


def test_the_order_of_records_does_not_matter():
    records = [*runs("gcn", 0.8, 0.7), *runs("sgc", 0.75), *runs("gbgnn", 0.75, dataset="mine")]
    forward, backward = (rank_report("Board", each, TITLES) for each in (records, records[::-1]))
    assert forward.markdown() == backward.markdown()
    assert forward.csv() == backward.csv()
