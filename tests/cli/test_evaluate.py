from __future__ import annotations

import json
from pathlib import Path


def test_the_data_of_the_fit(run, fitted: Path) -> None:
    report = json.loads(run("evaluate", fitted, "--json").stdout)
    assert report["splits"] == json.loads((fitted / "metrics.json").read_text())["splits"]
    text = run("evaluate", fitted).stdout
    assert "accuracy" in text
    assert "macro-F1" in text


def test_a_bare_model_needs_data(run, fitted: Path) -> None:
    assert "is a bare model file" in run("evaluate", fitted / "model.gbgnn", code=1).stderr
    report = json.loads(run("evaluate", fitted / "model.gbgnn", "karate", "--json").stdout)
    assert report["splits"] == json.loads((fitted / "metrics.json").read_text())["splits"]


def test_another_split_of_the_same_graph_needs_no_learners(run) -> None:
    run("fit", *run.tiny, *run.quick, "-q", "--no-keep-learners", "--out", "r")
    report = json.loads(run("evaluate", "r", "--split", "stratified", "--json").stdout)
    assert report["splits"]["train"]["nodes"] == 36
    other = ("evaluate", "r", "csbm", "--data-option", "n_nodes=80", "--data-option", "per_class=6")
    assert "learners were not kept" in run(*other, code=1).stderr


def test_another_graph(run) -> None:
    run("fit", *run.tiny, *run.quick, "-q", "--out", "r")
    report = json.loads(run("evaluate", "r", "csbm", "--data-option", "n_nodes=80", "--json").stdout)
    assert sum(part["nodes"] for part in report["splits"].values()) == 80
