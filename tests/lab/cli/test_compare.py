from __future__ import annotations

import json
from pathlib import Path

SMALL = ("csbm", "--data-option", "n_nodes=60", "--data-option", "per_class=5")


def test_a_leaderboard_is_written_and_shown(run):
    words = ("compare", *SMALL, "--system", "label_propagation", "--model", "sgc", "--runs", "1")
    result = run(*words, "--device", "cpu")
    assert {path.name for path in Path("results/compare").glob("[!.]*")} == {
        "records.jsonl",
        "table.md",
        "table.tex",
        "table.csv",
    }
    assert "Peak MiB" in result.stdout
    assert "2/2  csbm (random, seed 0), " in result.stderr
    again = run(*words, "--device", "cpu", "--json", "--quiet")
    rows = json.loads(again.stdout)["data"]
    assert sorted(row["rank"] for row in rows) in ([1, 2], [1, 1])
    assert {row["system"] for row in rows} == {"label_propagation", "sgc"}


def test_own_tables_are_compared_on(run, tables):
    result = run("compare", tables, "--system", "mlp", "--runs", "2", "--quiet", "--out", "board")
    assert (
        "people: 1 split (public; 2 training, 1 validation and 1 test nodes), 2 seeds each." in result.stdout
    )
    assert Path("board/table.csv").read_text().startswith("dataset,system,rank,mean,std,runs,failed")


def test_what_cannot_be_is_said_in_a_line(run):
    assert (
        "unknown system 'gcnn'. Did you mean 'gcn'?"
        in run("compare", "csbm", "--system", "gcnn", code=1).stderr
    )
    assert "karate has no val nodes" in run("compare", "karate", "--system", "mlp", code=1).stderr
    assert (
        "CompareOptions.splits must be an integer >= 1"
        in run("compare", "csbm", "--splits", "0", code=1).stderr
    )
