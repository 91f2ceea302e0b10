from __future__ import annotations

from dataclasses import replace

import pytest

from gbgnn_lab.experiments import searching
from gbgnn_lab.experiments.jobs import Outcome, run_jobs
from gbgnn_lab.experiments.options import Options
from gbgnn_lab.experiments.paper import Cell
from gbgnn_lab.experiments.paper_tables import (
    TABLE1,
    TABLE4,
    CellResult,
    list_cells,
    select_results,
    tabulate,
)
from gbgnn_lab.experiments.records import Record, identify_data, open_records, read_records

ASKED = Options(datasets=("csbm",), runs=2, trials=2, tune_trials=2, finalists=1, space="quick")


@pytest.fixture
def fake(monkeypatch):
    """Searches that take no time: the accuracy of a run is its number in tenths."""

    def search(cell, data, runs, protocol, device, tell):
        return [
            Outcome({"run": run}, {"test_accuracy": run / 10, "finalists": [f"of run {run}"]}) for run in runs
        ]

    def fine_tune(cell, data, run, protocol, first, device, tell):
        return Outcome({}, {"test_accuracy": 0.9, "began_with": first.results["finalists"]})

    monkeypatch.setattr(searching, "search", search)
    monkeypatch.setattr(searching, "search_fine_tuning", fine_tune)


def run_all(experiment, data, options, tmp_path):
    """Return how many runs each stage had to make."""
    counts = []
    for jobs in experiment.stages({data.name: data}, experiment.choose(replace(options, out=tmp_path))):
        known = {record.key for record in read_records(tmp_path, experiment.name)}
        run_jobs(jobs, open_records(tmp_path, experiment.name))
        counts.append(len({r.key for r in read_records(tmp_path, experiment.name)} - known))
    return counts


def test_table_1_has_four_rows_and_table_4_has_24():
    assert list(map(str, list_cells(TABLE1.choose(Options())))) == [
        "GB-GNN-Adj",
        "GB-GNN-Adj + FT",
        "GB-GNN-KTA",
        "GB-GNN-KTA + FT",
    ]
    assert len(list_cells(TABLE4.choose(Options()))) == 24


@pytest.mark.parametrize(("population", "teams"), [(None, [[0], [1], [2]]), (2, [[0, 1, 2]])])
def test_with_a_population_the_runs_of_a_cell_are_one_job(tiny, tmp_path, fake, population, teams):
    asked = replace(ASKED, runs=3, population=population)
    for stage, jobs in enumerate(
        TABLE1.stages({tiny.name: tiny}, TABLE1.choose(replace(asked, out=tmp_path)))
    ):
        expected = [[0], [1], [2]] if stage else teams  # fine-tuning is for each run by itself
        for variant in ("adj", "kta"):
            own = [job for job in jobs if job.identities[0]["variant"] == variant]
            assert [[identity["run"] for identity in job.identities] for job in own] == expected
        cells = [{(each["variant"], each["fine_tune"]) for each in job.identities} for job in jobs]
        assert all(len(cell) == 1 for cell in cells)
        run_jobs(jobs, open_records(tmp_path, "table1"))
    searched = [record for record in read_records(tmp_path, "table1") if not record["fine_tune"]]
    assert all(record.settings == {"run": record["run"]} for record in searched)


@pytest.mark.parametrize("population", [None, 2])
def test_fine_tuning_begins_where_the_same_run_ended(tiny, tmp_path, fake, population):
    assert run_all(TABLE1, tiny, replace(ASKED, population=population), tmp_path) == [4, 4]
    tuned = [record for record in read_records(tmp_path, "table1") if record["fine_tune"]]
    assert all(record.results["began_with"] == [f"of run {record['run']}"] for record in tuned)


@pytest.mark.parametrize("population", [None, 2])
def test_more_runs_go_on_from_those_that_are_there(tiny, tmp_path, fake, population):
    asked = replace(ASKED, population=population)
    run_all(TABLE1, tiny, asked, tmp_path)
    assert run_all(TABLE1, tiny, replace(asked, runs=3), tmp_path) == [2, 2]


def test_cells_that_were_searched_elsewhere_are_borrowed(tiny, tmp_path, fake):
    run_all(TABLE1, tiny, replace(ASKED, trials=4), tmp_path)
    four = replace(ASKED, variants=("adj", "ii"), layers=(0, 1))
    # Adj at L = 0, II at L = 0 and 1, II tuned; Adj at L = 1 has more trials in table 1.
    assert run_all(TABLE4, tiny, four, tmp_path) == [6, 2]
    rows = TABLE4.tabulate(read_records(tmp_path, "table1", "table4")).tables[0].rows
    assert [f"{row[0].text}/{row[1].text}" for row in rows] == [
        "GB-GNN-Adj/0",
        "GB-GNN-Adj/1",
        "GB-GNN-Adj + FT/1",
        "GB-GNN-KTA/1",
        "GB-GNN-KTA + FT/1",
        "GB-GNN-II/0",
        "GB-GNN-II/1",
        "GB-GNN-II + FT/1",
    ]


@pytest.mark.parametrize("more", [{"trials": 5}, {"runs": 3}, {"space": "default"}, {"confirm": 2}])
def test_cells_that_were_searched_less_are_searched_again(tiny, tmp_path, fake, more):
    run_all(TABLE1, tiny, replace(ASKED, variants=("adj",)), tmp_path)
    runs = more.get("runs", 2)
    four = replace(ASKED, variants=("adj",), layers=(1,), **more)
    assert run_all(TABLE4, tiny, four, tmp_path) == [runs, runs]


def test_a_space_that_has_changed_is_searched_again(tiny, tmp_path, fake, monkeypatch):
    asked = replace(ASKED, variants=("adj",))
    run_all(TABLE1, tiny, asked, tmp_path)
    assert run_all(TABLE1, tiny, asked, tmp_path) == [0, 0]
    assert run_all(TABLE4, tiny, replace(asked, layers=(1,)), tmp_path) == [0, 0]
    cell_space = searching.cell_space
    monkeypatch.setattr(searching, "cell_space", lambda *given: cell_space(*given).changed({"n_rounds": 7}))
    assert run_all(TABLE1, tiny, replace(asked, runs=1), tmp_path) == [1, 1]
    assert run_all(TABLE4, tiny, replace(asked, layers=(1,)), tmp_path) == [2, 2]
    # Two runs of one space and one of another are no three runs.
    assert TABLE1.tabulate(read_records(tmp_path, "table1")).data[0]["runs"] == 2


def test_cells_on_other_data_are_searched_again(tiny, scrambled, tmp_path, fake):
    run_all(TABLE1, tiny, replace(ASKED, variants=("adj",)), tmp_path)
    assert run_all(TABLE4, scrambled, replace(ASKED, variants=("adj",), layers=(1,)), tmp_path) == [2, 2]


def test_what_cannot_be_searched_cannot_be_tuned(tiny, tmp_path, fake, monkeypatch):
    monkeypatch.undo()

    def broken(*args, **given):
        raise MemoryError("too large")

    monkeypatch.setattr(searching, "search", broken)
    run_all(TABLE1, tiny, replace(ASKED, variants=("adj",), runs=1), tmp_path)
    searched, tuned = read_records(tmp_path, "table1")
    assert searched.failure == "MemoryError: too large"
    assert (
        "nothing to fine-tune: the search without fine-tuning failed (MemoryError: too large)"
        in tuned.failure
    )


def test_a_real_cell_is_recorded_whole(tiny, tmp_path):
    run_all(TABLE1, tiny, replace(ASKED, variants=("adj",), runs=1), tmp_path)
    searched, tuned = read_records(tmp_path, "table1")
    space = searching.cell_space(Cell("adj"), "quick", len(tiny.train)).checksum()
    assert searched.identity == identify_data(tiny) | {
        "variant": "adj",
        "hidden_layers": 1,
        "fine_tune": False,
        "run": 0,
        "protocol": ASKED.protocol.to_document(fine_tune=False),
        "space": space[:16],
    }
    assert (searched.failure, tuned.failure) == (None, None)
    assert tuned.settings["fine_tune"] is True
    assert set(tuned.results) == {
        "val_accuracy",
        "test_accuracy",
        "search_accuracy",
        "best_round",
        "boosted_accuracy",
    }
    assert "csbm" in TABLE1.tabulate(read_records(tmp_path, "table1")).markdown()


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_population_searches_wherever_its_job_is_run(tiny, tmp_path, n_jobs):
    """A process of its own among them, which may start no others."""
    asked = TABLE1.choose(replace(ASKED, variants=("adj",), population=2, device="cpu", out=tmp_path))
    run_jobs(next(TABLE1.stages({tiny.name: tiny}, asked)), open_records(tmp_path, "table1"), n_jobs=n_jobs)
    records = read_records(tmp_path, "table1")
    assert [(record["run"], record.failure) for record in records] == [(0, None), (1, None)]
    assert [record.results["counts"]["complete"] for record in records] == [2, 2]


ADJ, TUNED = Cell("adj"), Cell("adj", fine_tune=True)


def runs(cell_run, *accuracies, **options):
    return [cell_run(accuracy, run=run, **options) for run, accuracy in enumerate(accuracies)]


def test_the_table_is_exact(cell_run):
    records = [
        *runs(cell_run, 0.80, 0.81),
        *runs(cell_run, 0.70, 0.70, dataset="citeseer"),
        *runs(cell_run, 0.79, 0.82, fine_tune=True),
    ]
    page = tabulate("Table 1", records)
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
    page = tabulate("T", [record])
    assert "| GB-GNN-KTA + FT | 79.3 |" in page.markdown()
    assert "The paper's mean" not in page.markdown()


def test_layers_have_a_column_where_there_are_several(cell_run):
    records = [cell_run(0.8, layers=0), cell_run(0.8, layers=1)]
    page = tabulate("T", records)
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
    text = tabulate("T", records).markdown()
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
    page = tabulate("T", records)
    assert "Failed, GB-GNN-Adj on Cora: 1 run: out of memory" in page.notes
    assert (page.data[0]["runs"], page.data[0]["failed"], page.data[0]["mean"]) == (2, 1, 80.0)
    none = tabulate("T", records[1:])
    assert "| failed (79.9 ± 0.8) |" in none.markdown()
    assert none.data[0]["mean"] is None


def test_a_protocol_is_a_sentence():
    base = {"trials": 1000, "population": None, "seeds_per_trial": 1, "confirm": 0, "space": "default"}

    def told(n_runs, **changes):
        return CellResult(ADJ, "cora", [Record({"protocol": base | changes})] * n_runs)

    assert told(1).protocol == (
        "1 run, each a search of 1,000 trials (TPE, median stopping) in the narrower default space."
    )
    assert told(2, population=8, seeds_per_trial=3, confirm=4).protocol == (
        "2 runs, each a search of 1,000 trials with 3 seeds each (TPE, median stopping, 8 at a time) in the "
        "narrower default space; the best 4 were trained again with five other seeds, and the settings and "
        "number of rounds with the best mean validation accuracy taken."
    )
    assert told(1).fine_tuning == ""
    assert told(1, finalists=1, tune_trials=1).fine_tuning == (
        "Fine-tuning (FT): from the model of the best trial, a search of 1 trial."
    )
