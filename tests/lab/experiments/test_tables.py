from __future__ import annotations

import pytest

from gbgnn_lab.experiments.paper import Cell
from gbgnn_lab.experiments.records import Record
from gbgnn_lab.experiments.tables import select_results, tabulate_accuracy

ADJ, TUNED = Cell("adj"), Cell("adj", fine_tune=True)


def runs(cell_run, *accuracies, **options):
    return [cell_run(accuracy, run=run, **options) for run, accuracy in enumerate(accuracies)]


def test_the_table_is_exact(cell_run):
    records = [
        *runs(cell_run, 0.80, 0.81),
        *runs(cell_run, 0.70, 0.70, dataset="citeseer"),
        *runs(cell_run, 0.79, 0.82, fine_tune=True),
    ]
    page = tabulate_accuracy("Table 1", [ADJ, TUNED], ["cora", "citeseer"], records)
    title, caption, table, verdict, protocol, how, made, command = page.markdown().split("\n\n")
    assert title == "# Table 1"
    assert caption.startswith(
        "Test accuracy in percent, mean ± standard deviation over runs; in brackets the"
    )
    assert table == (
        "| Model | Cora | CiteSeer |\n| --- | ---: | ---: |\n"
        "| GB-GNN-Adj | **80.5 ± 0.7 (79.9 ± 0.8)** | 70.0 ± 0.0 (70.5 ± 0.8) |\n"
        "| GB-GNN-Adj + FT | **80.5 ± 2.1 (80.4 ± 0.8)** | - |"
    )
    assert verdict == (
        "The paper's mean is reached in 2 of 3 cells (furthest below: GB-GNN-Adj on CiteSeer, -0.5)."
    )
    assert protocol == (
        "2 runs, each a search of 100 trials (TPE, median stopping) in the paper's space. Fine-tuning (FT): "
        "from the models of the 3 best trials, a search of 50 trials."
    )
    assert how.endswith("chosen by validation accuracy; the search is not given the test labels.")
    assert made == "Made on Abacus, 2 cores, with gbgnn 1.0, torch 2.9; 2026-01-02; 6.0 minutes of runs."
    assert command == "Command: `gbgnn reproduce table1`\n"
    assert page.data[2] == {
        "variant": "adj",
        "hidden_layers": 1,
        "fine_tune": True,
        "dataset": "cora",
        "runs": 2,
        "failed": 0,
        "mean": 80.5,
        "std": 2.121,
        "paper_mean": 80.4,
        "paper_std": 0.8,
        "difference": 0.1,
        "finalists": 3,
        "tune_trials": 50,
        "trials": 100,
        "population": None,
        "seeds_per_trial": 1,
        "confirm": 0,
        "space": "paper",
    }


@pytest.mark.parametrize(("mean", "difference"), [(0.7986, 0.0), (0.7984, -0.1), (0.805, 0.6)])
def test_means_are_compared_as_they_are_printed(cell_run, mean, difference):
    result = select_results([cell_run(mean)])[ADJ, "cora"]
    assert result.difference == difference
    assert result.make_entry("").strong is (difference >= 0)


def test_the_cell_that_the_paper_leaves_empty_is_filled(cell_run):
    record = cell_run(0.793, variant="kta", fine_tune=True, dataset="pubmed")
    page = tabulate_accuracy("T", [Cell("kta", fine_tune=True)], ["pubmed"], [record])
    assert "| GB-GNN-KTA + FT | 79.3 |" in page.markdown()
    assert "The paper's mean" not in page.markdown()


def test_layers_have_a_column_where_there_are_several(cell_run):
    records = [cell_run(0.8, layers=0), cell_run(0.8, layers=1)]
    page = tabulate_accuracy("T", [Cell("adj", 0), ADJ], ["cora"], records)
    assert page.tables[0].columns == ["Model", "L", "Cora"]
    assert "smallest lead: GB-GNN-Adj, +0.1" not in page.markdown()
    assert "(smallest lead: GB-GNN-Adj on Cora, +0.1)" in page.markdown()


def test_of_several_protocols_that_with_most_runs_counts_then_that_with_most_trials(cell_run):
    few, many = runs(cell_run, 0.7, 0.7, 0.7), runs(cell_run, 0.8, 0.8, trials=1000)
    assert select_results([*few, *many])[ADJ, "cora"].summary.mean == pytest.approx(70)
    many = runs(cell_run, 0.8, 0.8, 0.8, trials=1000)
    for records in ([*few, *many], [*many, *few]):
        assert select_results(records)[ADJ, "cora"].summary.mean == pytest.approx(80)


def test_protocols_that_differ_are_marked(cell_run):
    records = [*runs(cell_run, 0.8), *runs(cell_run, 0.7, dataset="citeseer", trials=7, population=4)]
    text = tabulate_accuracy("T", [ADJ], ["cora", "citeseer"], records).markdown()
    assert "(79.9 ± 0.8)** <sup>a</sup> |" in text
    assert "\n\na: 1 run, each a search of 100 trials" in text
    assert "\n\nb: 1 run, each a search of 7 trials (TPE, median stopping, 4 at a time)" in text


def test_the_same_runs_on_other_data_are_another_result(cell_run):
    one, other = cell_run(0.8, run=0), cell_run(0.6, run=1)
    moved = Record({**other.identity, "data": {"graph": "x"}}, results=other.results)
    assert len(select_results([one, moved])[ADJ, "cora"].records) == 1


def test_a_space_that_was_changed_takes_the_place_of_the_one_before(cell_run):
    before, after = (
        [Record({**run.identity, "space": space}, results=run.results) for run in runs(cell_run, accuracy)]
        for space, accuracy in (("wide", 0.7), ("narrow", 0.8))
    )
    assert select_results([*before, *after])[ADJ, "cora"].summary.mean == pytest.approx(80)
    assert select_results([*after, *before])[ADJ, "cora"].summary.mean == pytest.approx(70)


def test_failures_are_shown(cell_run):
    records = [cell_run(0.8), cell_run(None, run=1, failure="out of memory")]
    page = tabulate_accuracy("T", [ADJ], ["cora"], records)
    assert "Failed, GB-GNN-Adj on Cora: 1 run: out of memory" in page.notes
    assert (page.data[0]["runs"], page.data[0]["failed"], page.data[0]["mean"]) == (2, 1, 80.0)
    none = tabulate_accuracy("T", [ADJ], ["cora"], records[1:])
    assert "| failed (79.9 ± 0.8) |" in none.markdown()
    assert none.data[0]["mean"] is None
