"""What the comparisons of ``benchmarks/`` share: a cache that loses nothing, places, pages."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from joblib import parallel_config

from gbgnn.datasets import csbm
from gbgnn_lab.experiments.systems import SYSTEMS

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def _beside_the_benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))


def read_lines(cache: Path) -> list[Any]:
    """The finished lines; none where a run is so quick that nobody has made the file yet."""
    text = cache.read_text() if cache.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def test_a_result_is_remembered_as_soon_as_it_is_there(tmp_path: Path) -> None:
    from common import Runner

    cache = tmp_path / "cache.jsonl"

    def run(name: str) -> str:
        # The first waits until the second, which started later, can be read back.
        while name == "first" and not (cache.exists() and "second" in cache.read_text()):
            time.sleep(0.01)
        return name.upper()

    with parallel_config(backend="threading"):
        assert Runner(run, cache, 2)([("first",), ("second",)]) == ["FIRST", "SECOND"]
    assert read_lines(cache) == [['["second"]', "SECOND"], ['["first"]', "FIRST"]]


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_was_finished_before_an_error_is_kept(tmp_path: Path, jobs: int) -> None:
    from common import Runner

    cache, calls = tmp_path / "cache.jsonl", []

    def run(number: int) -> float:
        calls.append(number)
        while number == 0 and len(read_lines(cache)) < 2:
            time.sleep(0.01)
        return 1 / number

    with parallel_config(backend="threading"):
        with pytest.raises(ZeroDivisionError):
            Runner(run, cache, jobs)([(1,), (2,), (0,)])
        assert sorted(read_lines(cache)) == [["[1]", 1.0], ["[2]", 0.5]]
        calls.clear()
        assert Runner(run, cache, jobs)([(2,), (4,), (4,), (1,)]) == [0.5, 0.25, 0.25, 1.0]
    assert calls == [4]


def make_results(
    comparison: Any, figures: dict[tuple[str, str], Any], tmp_path: Path, n_runs: int = 2
) -> Any:
    """Results with made-up records: by system and figure a number, to which that of the run is added."""
    from common import Runner, machine
    from ranking import Results

    runner = Runner(lambda *task: None, tmp_path / "cache.jsonl", 1)
    about = {"seconds": 1.5, "device": "cuda", "command": "python x.py", "machine": machine()}
    for graph in comparison.graphs:
        for kind in comparison.kinds(graph):
            for system in {system for system, _ in figures}:
                for number in range(n_runs):
                    found = {f: figures.get((system, f)) for f in comparison.figures(graph, kind)}
                    told = {f: None if v is None else v + number / 100 for f, v in found.items()}
                    runner.known[json.dumps((graph, kind, number, system))] = {**told, **about}
    return Results(comparison, runner, comparison.graphs, n_runs)


def test_places_are_by_the_mean_and_the_lowest_loss_is_the_best(tmp_path: Path) -> None:
    from ranking import Column, Comparison

    columns = [Column("a", "own", "auc", "AUC"), Column("a", "own", "log_loss", "loss")]
    comparison = Comparison("x", "X", columns, ["gcn", "sgc", "gat"])
    figures = {
        **{("gcn", "auc"): 0.9, ("gcn", "log_loss"): 0.7},
        **{("sgc", "auc"): 0.9, ("sgc", "log_loss"): 0.5},
        **{("mlp", "auc"): 0.6, ("mlp", "log_loss"): 0.6},
    }
    results = make_results(comparison, figures, tmp_path)
    assert results.systems == ["gcn", "sgc", "gat", "mlp"]  # one that was asked for beside the usual ones
    assert [results.rank(columns[0], system) for system in results.systems] == [1, 1, None, 3]
    assert [results.rank(columns[1], system) for system in results.systems] == [3, 1, None, 2]
    assert [results.mean_rank(system) for system in results.systems] == [2.0, 1.0, None, 2.5]
    assert list(results.means(columns[1])) == ["sgc", "mlp", "gcn"]


def test_a_graph_counts_once_however_many_columns_it_has(tmp_path: Path) -> None:
    from ranking import Column, Comparison

    graphs = [("a", "auc"), ("a", "accuracy"), ("a", "macro_f1"), ("b", "average_precision")]
    comparison = Comparison("x", "X", [Column(g, "own", f, f) for g, f in graphs], ["gcn", "sgc"])
    figures = {("gcn", f): 0.5 for _, f in graphs} | {("sgc", f): 0.6 for _, f in graphs}
    figures["sgc", "average_precision"] = 0.4
    results = make_results(comparison, figures, tmp_path)
    assert [results.mean_rank(system) for system in results.systems] == [1.5, 1.5]
    assert results.mean_rank("gcn", ["b"]) == 1.0


def test_missing_runs_have_no_place_and_are_counted(tmp_path: Path) -> None:
    from ranking import Column, Comparison, graph_table, spread

    column = Column("a", "own", "auc", "AUC")
    results = make_results(Comparison("x", "X", [column], ["gcn"]), {("gcn", "auc"): 0.5}, tmp_path)
    del results.runner.known[json.dumps(("a", "own", 1, "gcn"))]
    assert results.rank(column, "gcn") is None
    assert "| GCN | 0.500 ± 0.000 (1 of 2 runs) | 1.5 (GPU) |" in graph_table(results, "a")
    values = [0.1, 0.2, 0.6]
    assert spread(values, 3) == f"{np.mean(values):.3f} ± {np.std(values):.3f}"
    assert spread([], 3) == "-"


def test_the_page_of_few_labels_ranks_by_accuracy(tmp_path: Path) -> None:
    import few_labels

    figures = {
        **{("gbgnn", "accuracy"): 0.85, ("gbgnn", "log_loss"): 0.5},
        **{("grand", "accuracy"): 0.84, ("grand", "log_loss"): 0.4},
    }
    results = make_results(few_labels.COMPARISON, figures, tmp_path)
    page = few_labels.write_page(results)
    assert "| gbgnn, default | 1 | 1 | 1 | 1 | 1 | 1 | 1.00 |" in page
    assert "| GRAND | 2 | 2 | 2 | 2 | 2 | 2 | 2.00 |" in page
    cells = "0.845 ± 0.005 | 0.405 ± 0.005"
    assert f"| GRAND | {cells} | {cells} | 1.5 (GPU) |" in page
    assert any(line.startswith("- GRAND: 85.4 / 75.4 / 82.7 (") for line in page)


def test_systems_for_classes_have_a_mean_of_their_own(tmp_path: Path) -> None:
    import every_graph

    comparison = every_graph.COMPARISON
    figures = {(system, f): 0.5 for system in ("gbgnn", "grand") for f in ("accuracy", "auc", "log_loss")}
    results = make_results(comparison, figures | {("gbgnn", "r2"): 0.3}, tmp_path)
    page = every_graph.write_page(results)
    assert "| gbgnn, default | 1 | 1 | 1 | 1 | 1 | 1 | 1 | 1 | 1 | 1.00 | 1.00 |" in page
    assert "| GRAND | 1 | 1 | 1 | 1 | 1 | - | - | - | - | - | 1.00 |" in page
    assert len(comparison.graphs) == 7
    tasks = comparison.tasks(comparison.graphs, ["grand", "gprgnn"], 10)
    assert len(tasks) == 10 * (5 + 5 + 4)
    assert not {task[0] for task in tasks if task[-1] == "grand"} & set(every_graph.NUMBERS)


def test_random_splits_have_their_sizes_and_no_node_without_y(monkeypatch: pytest.MonkeyPatch) -> None:
    import few_labels
    from ranking import SHARES, draw_split

    known = np.arange(100, 300)
    split = draw_split(known, SHARES["60/20/20"], 3)
    assert [len(part) for part in (split.train, split.val, split.test)] == [120, 40, 40]
    assert sorted(np.concatenate([split.train, split.val, split.test])) == known.tolist()
    monkeypatch.setattr(few_labels, "load", lambda name: csbm(n_nodes=2000))
    first, second = (few_labels.read_data("cora", "random", number) for number in (0, 1))
    assert np.bincount(first.y[first.train]).tolist() == [20] * len(first.classes)
    assert (len(first.val), len(first.test)) == (500, 1000)
    assert set(first.train) != set(second.train)
    assert few_labels.read_data("cora", "public", 0).train.tolist() == csbm(n_nodes=2000).train.tolist()


def test_a_run_has_the_figures_of_its_columns() -> None:
    from ranking import Column, Comparison

    columns = [Column("mine", "own", "accuracy", ""), Column("mine", "own", "log_loss", "")]
    comparison = Comparison("x", "X", columns, ["sgc"], lambda *which: csbm(n_nodes=100, per_class=10))
    record = comparison.run("mine", "own", 0, "sgc", device="cpu", command="x")
    assert list(record)[:2] == ["accuracy", "log_loss"]
    assert record["accuracy"] > 0.6
    json.dumps(record)


def test_a_system_that_is_not_there_is_an_error_that_lists_the_names(tmp_path: Path) -> None:
    cache = tmp_path / "cache.jsonl"
    command = [sys.executable, str(FOLDER / "few_labels.py"), "--no-page", "--cache", str(cache), "--systems"]
    failed = subprocess.run([*command, "gbgnn-bset"], capture_output=True, text=True, check=False)
    assert failed.returncode != 0
    assert "unknown system 'gbgnn-bset'" in failed.stderr
    assert all(name in failed.stderr for name in SYSTEMS)
    subprocess.run(command, check=True)
    assert not cache.exists() or not cache.read_text()
