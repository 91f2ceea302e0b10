from __future__ import annotations

from dataclasses import replace

import pytest

from gbgnn_lab.experiments import paper_tables, searching
from gbgnn_lab.experiments.experiment import Options, Shelf
from gbgnn_lab.experiments.paper import Cell
from gbgnn_lab.experiments.paper_tables import TABLE1, TABLE4, Place, cells_of
from gbgnn_lab.experiments.running import Outcome, run_jobs

ASKED = Options(datasets=("csbm",), runs=2, trials=2, tune_trials=2, finalists=1, space="quick")


@pytest.fixture
def shelf(tmp_path):
    return Shelf(tmp_path)


@pytest.fixture
def fake(monkeypatch):
    """Searches that take no time: the accuracy of a run is its number in tenths."""

    def search(cell, data, protocol, device, identities, tell):
        return [
            Outcome({"run": run}, {"test_accuracy": run / 10, "finalists": [f"of run {run}"]})
            for run in (identity["run"] for identity in identities)
        ]

    def tune(cell, data, run, protocol, device, before, tell):
        return Outcome({}, {"test_accuracy": 0.9, "began_with": before.results["finalists"]})

    monkeypatch.setattr(paper_tables, "_search", search)
    monkeypatch.setattr(paper_tables, "_search_tuning", tune)


def run_all(experiment, data, options, shelf):
    """Return how many runs each stage had to make."""
    counts = []
    for jobs in experiment.stages({data.name: data}, experiment.options(options), shelf):
        known = {record.key for record in shelf.read(experiment.name)}
        run_jobs(jobs, shelf.file(experiment.name))
        counts.append(len({r.key for r in shelf.read(experiment.name)} - known))
    return counts


def test_table_1_has_four_rows_and_table_4_has_24():
    assert list(map(str, cells_of(TABLE1.options(Options())))) == [
        "GB-GNN-Adj",
        "GB-GNN-Adj + FT",
        "GB-GNN-KTA",
        "GB-GNN-KTA + FT",
    ]
    assert len(cells_of(TABLE4.options(Options()))) == 24


@pytest.mark.parametrize(("population", "teams"), [(None, [[0], [1], [2]]), (2, [[0, 1, 2]])])
def test_with_a_population_the_runs_of_a_cell_are_one_job(tiny, shelf, fake, population, teams):
    asked = replace(ASKED, runs=3, population=population)
    for stage, jobs in enumerate(TABLE1.stages({tiny.name: tiny}, TABLE1.options(asked), shelf)):
        expected = [[0], [1], [2]] if stage else teams  # fine-tuning is for each run by itself
        for variant in ("adj", "kta"):
            own = [job for job in jobs if job.identities[0]["variant"] == variant]
            assert [[identity["run"] for identity in job.identities] for job in own] == expected
        cells = [{(each["variant"], each["fine_tune"]) for each in job.identities} for job in jobs]
        assert all(len(cell) == 1 for cell in cells)
        run_jobs(jobs, shelf.file("table1"))
    searched = [record for record in shelf.read("table1") if not record["fine_tune"]]
    assert all(record.settings == {"run": record["run"]} for record in searched)


@pytest.mark.parametrize("population", [None, 2])
def test_fine_tuning_begins_where_the_same_run_ended(tiny, shelf, fake, population):
    assert run_all(TABLE1, tiny, replace(ASKED, population=population), shelf) == [4, 4]
    tuned = [record for record in shelf.read("table1") if record["fine_tune"]]
    assert all(record.results["began_with"] == [f"of run {record['run']}"] for record in tuned)


@pytest.mark.parametrize("population", [None, 2])
def test_more_runs_go_on_from_those_that_are_there(tiny, shelf, fake, population):
    asked = replace(ASKED, population=population)
    run_all(TABLE1, tiny, asked, shelf)
    assert run_all(TABLE1, tiny, replace(asked, runs=3), shelf) == [2, 2]


def test_cells_that_were_searched_elsewhere_are_borrowed(tiny, shelf, fake):
    run_all(TABLE1, tiny, replace(ASKED, trials=4), shelf)
    four = replace(ASKED, variants=("adj", "ii"), layers=(0, 1))
    # Adj at L = 0, II at L = 0 and 1, II tuned; Adj at L = 1 has more trials in table 1.
    assert run_all(TABLE4, tiny, four, shelf) == [6, 2]
    rows = TABLE4.page(shelf).tables[0].rows
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
def test_cells_that_were_searched_less_are_searched_again(tiny, shelf, fake, more):
    run_all(TABLE1, tiny, replace(ASKED, variants=("adj",)), shelf)
    runs = more.get("runs", 2)
    four = replace(ASKED, variants=("adj",), layers=(1,), **more)
    assert run_all(TABLE4, tiny, four, shelf) == [runs, runs]


def test_a_space_that_has_changed_is_searched_again(tiny, shelf, fake, monkeypatch):
    asked = replace(ASKED, variants=("adj",))
    run_all(TABLE1, tiny, asked, shelf)
    assert run_all(TABLE1, tiny, asked, shelf) == [0, 0]
    assert run_all(TABLE4, tiny, replace(asked, layers=(1,)), shelf) == [0, 0]
    cell_space = searching.cell_space
    monkeypatch.setattr(searching, "cell_space", lambda *given: cell_space(*given).changed({"n_rounds": 7}))
    assert run_all(TABLE1, tiny, replace(asked, runs=1), shelf) == [1, 1]
    assert run_all(TABLE4, tiny, replace(asked, layers=(1,)), shelf) == [2, 2]
    # Two runs of one space and one of another are no three runs.
    assert TABLE1.page(shelf).data[0]["runs"] == 2


def test_cells_on_other_data_are_searched_again(tiny, scrambled, shelf, fake):
    run_all(TABLE1, tiny, replace(ASKED, variants=("adj",)), shelf)
    assert run_all(TABLE4, scrambled, replace(ASKED, variants=("adj",), layers=(1,)), shelf) == [2, 2]


def test_what_cannot_be_searched_cannot_be_tuned(tiny, shelf, fake, monkeypatch):
    monkeypatch.undo()

    def broken(*args, tell):
        raise MemoryError("too large")

    monkeypatch.setattr(paper_tables, "_search", broken)
    run_all(TABLE1, tiny, replace(ASKED, variants=("adj",), runs=1), shelf)
    searched, tuned = shelf.read("table1")
    assert searched.failure == "MemoryError: too large"
    assert (
        "nothing to fine-tune: the search without fine-tuning failed (MemoryError: too large)"
        in tuned.failure
    )


def test_a_real_cell_is_recorded_whole(tiny, shelf):
    run_all(TABLE1, tiny, replace(ASKED, variants=("adj",), runs=1), shelf)
    searched, tuned = shelf.read("table1")
    assert searched.identity == Place(tiny).identity(Cell("adj"), 0, ASKED.protocol)
    assert (searched.failure, tuned.failure) == (None, None)
    assert tuned.settings["fine_tune"] is True
    assert set(tuned.results) == {
        "val_accuracy",
        "test_accuracy",
        "search_accuracy",
        "best_round",
        "boosted_accuracy",
    }
    assert "csbm" in TABLE1.page(shelf).markdown()


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_population_searches_wherever_its_job_is_run(tiny, shelf, n_jobs):
    """A process of its own among them, which may start no others."""
    asked = TABLE1.options(replace(ASKED, variants=("adj",), population=2, device="cpu"))
    run_jobs(next(TABLE1.stages({tiny.name: tiny}, asked, shelf)), shelf.file("table1"), n_jobs=n_jobs)
    records = shelf.read("table1")
    assert [(record["run"], record.failure) for record in records] == [(0, None), (1, None)]
    assert [record.results["counts"]["complete"] for record in records] == [2, 2]
