from __future__ import annotations

import json
from pathlib import Path

import pytest

from gbgnn_lab.experiments import searching

SMALL = ("--dataset", "csbm", "--data-option", "n_nodes=60", "--data-option", "per_class=5")
FEW = ("--quick", "--runs", "1", "--trials", "2", "--tune-trials", "2", "--device", "cpu")


def test_a_quick_table_1_is_written_and_shown(run):
    result = run("reproduce", "table1", *SMALL, *FEW, "--variant", "adj")
    folder = Path("results/quick/table1")
    assert {path.name for path in folder.glob("[!.]*")} == {
        "records.jsonl",
        "table.md",
        "table.tex",
        "table.csv",
    }
    for text in (result.stdout, (folder / "table.md").read_text()):
        assert "GB-GNN-Adj + FT" in text
        assert "Quick run" in text
    assert "written to results/quick/table1" in result.stdout
    assert "1/1  csbm (random, seed 0), adj, L = 1, fine-tuned, run 0: val " in result.stderr


def test_the_same_command_goes_on_and_the_tables_can_be_made_again(run):
    words = ("reproduce", "table1", *SMALL, *FEW, "--variant", "adj")
    run(*words, "--quiet")
    records = Path("results/quick/table1/records.jsonl")
    before = records.read_bytes()
    assert "0 runs to make, 1 recorded" in run(*words).stderr
    assert records.read_bytes() == before
    Path("results/quick/table1/table.tex").unlink()
    result = run("reproduce", "table1", "--quick", "--tables-only", "--json")
    report = json.loads(result.stdout)
    assert report["failed"] == 0
    assert [row["fine_tune"] for row in report["data"]] == [False, True]
    assert Path("results/quick/table1/table.tex").exists()


def test_an_interrupt_says_how_to_go_on_and_keeps_what_had_ended(run, monkeypatch):
    search = searching.search

    def interrupted(cell, data, runs, **rest):
        if runs == [1]:
            raise KeyboardInterrupt
        return search(cell, data, runs, **rest)

    words = ("reproduce", "table1", *SMALL, *FEW[:1], "--runs", "2", *FEW[3:], "--variant", "adj")
    with monkeypatch.context() as patch:
        patch.setattr(searching, "search", interrupted)
        result = run(*words, code=130)
    assert "runs that had ended are recorded, and the same command goes on from there" in result.stderr
    assert "1 runs to make, 1 recorded" in run(*words).stderr


def test_with_a_population_the_runs_of_a_cell_are_made_together(run, monkeypatch):
    teams: list[list[int]] = []
    search = searching.search

    def noted(cell, data, runs, **rest):
        teams.append(runs)
        return search(cell, data, runs, **rest)

    monkeypatch.setattr(searching, "search", noted)
    words = ("reproduce", "table1", *SMALL, "--quick", *FEW[3:], "--variant", "adj", "--population", "2")
    assert "2/2  csbm (random, seed 0), adj, L = 1, run 1: val " in run(*words, "--runs", "2").stderr
    result = run(*words, "--runs", "3")
    assert "1 runs to make, 2 recorded" in result.stderr
    assert "2 trials (TPE, median stopping, 2 at a time)" in " ".join(result.stdout.split())
    assert teams == [[0, 1], [2]]


def test_figures_are_drawn(run):
    run("reproduce", "depth", *SMALL, *FEW[:3], "--system", "sgc", "--depth", "1", "--depth", "2", "--quiet")
    assert Path("results/quick/depth/depth.png").stat().st_size > 10_000


def test_failures_are_a_warning(run, monkeypatch):
    monkeypatch.setattr(searching, "search", lambda *args, **rest: 1 / 0)
    result = run("reproduce", "table1", *SMALL, *FEW, "--variant", "adj", "--layers", "0")
    assert "warning: 1 run failed; the same command tries again." in result.stderr
    assert "ZeroDivisionError" in result.stdout


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (
            ("tabel1",),
            2,
            "EXPERIMENT must be one of table1, table4, figures, comparison, depth; got 'tabel1'",
        ),
        (("table1", "--runs", "0"), 1, "Options.runs must be an integer >= 1, or None; got 0"),
        (("table1", "--space", "wide"), 1, "Options.space must be one of paper, default, quick; got 'wide'"),
        (("table1", "--tables-only"), 1, "there are no records in results/table1/records.jsonl"),
    ],
)
def test_what_cannot_be_is_said_in_a_line(run, words, code, message):
    assert message in run("reproduce", *words, code=code).stderr
