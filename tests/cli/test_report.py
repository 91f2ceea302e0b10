from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gbgnn
from gbgnn import datasets
from gbgnn.cli.files import open_saved
from gbgnn.cli.report import load_subject
from gbgnn.persistence import save


def test_a_page_stands_in_the_run(run: Any, fitted: Path) -> None:
    result = run("report", fitted)
    assert re.match(r"written to club/report.html \(\d\.\d MB\)", result.stdout)
    text = (fitted / "report.html").read_text("utf-8")
    metrics = json.loads((fitted / "metrics.json").read_text())
    share = 100 * metrics["splits"]["test"]["accuracy"]
    assert f"{share:.1f} % of the 32 test nodes are predicted rightly" in text
    assert "gbgnn fit --config again.toml" in text
    assert "Mr. Hi" in text


def test_a_run_with_a_page_is_still_a_run(run: Any, fitted: Path) -> None:
    run("report", fitted)
    run("fit", "karate", *run.quick, "--quiet", "--out", fitted, "--force")
    assert not (fitted / "report.html").exists()


def test_several_runs_are_compared(run: Any, fitted: Path) -> None:
    run("fit", "karate", *run.quick, "--preset", "fast", "--quiet", "--out", "other")
    run("report", fitted, "other", "--out", "both.html", "--nodes", "5")
    text = Path("both.html").read_text("utf-8")
    assert "Side by side" in text
    assert text.count('id="tab-') == 2
    run("report", fitted, "other")
    assert Path("report.html").is_file()


def test_a_bare_model_says_what_it_lacks(run: Any, fitted: Path) -> None:
    shutil.copy(fitted / "model.gbgnn", "bare.gbgnn")
    run("report", "bare.gbgnn")
    text = Path("report.html").read_text("utf-8")
    assert "a bare model file does not know its data" in text
    assert "No labels are at hand" in text


def test_data_that_changed_is_not_shown(run: Any, tables: Path) -> None:
    run("fit", tables, *run.quick, "--quiet", "--out", "people-run")
    assert load_subject(open_saved(Path("people-run")), "run").why_no_data == ""
    nodes = (tables / "nodes.csv").read_text()
    (tables / "nodes.csv").write_text(nodes.replace("0.9", "0.8"))
    subject = load_subject(open_saved(Path("people-run")), "run")
    assert "changed since the fit" in subject.why_no_data
    assert not subject.parts
    run("report", "people-run")
    assert "changed since the fit" in Path("people-run", "report.html").read_text("utf-8")
    shutil.rmtree(tables)
    run("report", "people-run")
    assert "The data of this run is not at hand" in Path("people-run", "report.html").read_text("utf-8")


def test_answers_are_those_of_predict(run: Any, fitted: Path) -> None:
    subject = load_subject(open_saved(fitted), "club")
    lines = run("predict", fitted).stdout.splitlines()[1:]
    told = {line.split(",")[0]: line.split(",")[1] for line in lines}
    test = subject.part("test")
    said = subject.answers["test"].predicted
    assert [subject.title(label) for label in said] == [told[str(i)] for i in test.ids]
    assert test.figures["nodes"] == 32
    assert np.mean(said == test.truth) == test.figures["accuracy"]


def test_no_file_of_somebody_else_is_replaced(run: Any, fitted: Path) -> None:
    Path("notes.html").write_text("mine")
    result = run("report", fitted, "--out", "notes.html", code=1)
    assert "exists and is no report of gbgnn's" in result.stderr
    assert Path("notes.html").read_text() == "mine"
    run("report", fitted, "--out", "notes.html", "--force")


def test_the_page_is_opened(run: Any, fitted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url) or False)
    result = run("report", fitted, "--open")
    assert opened == [(fitted / "report.html").resolve().as_uri()]
    assert "open the file by hand" in result.stderr


def test_runs_of_one_name_are_told_apart(run: Any, fitted: Path) -> None:
    shutil.copytree(fitted, "more/club")
    run("report", fitted, "more/club", "--nodes", "1", "--out", "both.html")
    text = Path("both.html").read_text("utf-8")
    assert ">club</button>" in text
    assert ">more/club</button>" in text


def test_a_missing_run_is_an_error(run: Any) -> None:
    assert "there is no run or model nowhere" in run("report", "nowhere", code=1).stderr


def test_inductive_data_is_predicted_on_what_is_there_by_then(run: Any, timed: Path) -> None:
    run("fit", timed, "--setting", "THI", *run.quick, "--quiet", "--out", "r")
    subject = load_subject(open_saved(Path("r")), "r")
    splits = json.loads(Path("r/metrics.json").read_text())["splits"]
    for part in subject.parts:
        assert part.graph.n_nodes == {"train": 30, "val": 45, "test": 60}[part.name]
        said = subject.answers[part.name].predicted
        assert np.mean(said == part.truth) == splits[part.name]["accuracy"]
    run("report", "r")
    text = Path("r/report.html").read_text("utf-8")
    assert "validation and test nodes of inductive data come with graphs of their own" in text
    assert "inductive data arrives part by part" in text


def test_numbers_have_a_page(run: Any, people: tuple[str, ...]) -> None:
    run("fit", *people, "--target", "income", "--drop", "churn", *run.quick, "--quiet", "--out", "r")
    run("report", "r")
    text = Path("r/report.html").read_text("utf-8")
    r2 = json.loads(Path("r/metrics.json").read_text())["splits"]["test"]["r2"]
    assert f"R2 is {r2:.3f} on the 8 test nodes" in text
    assert "How far numbers are off" in text


def test_nodes_set_aside_are_learned_from(run: Any) -> None:
    run("fit", *run.tiny, *run.quick, "--calibration-fraction", "0.5", "--quiet", "--out", "r")
    subject = load_subject(open_saved(Path("r")), "r")
    assert [part.name for part in subject.parts] == ["train", "val", "calibration", "test"]
    n_aside = len(subject.part("calibration").nodes)
    run("report", "r")
    assert f"learned on the {n_aside} calibration nodes" in Path("r/report.html").read_text("utf-8")


def test_a_model_with_sets_in_its_file_has_a_page(run: Any, fitted: Path) -> None:
    data = datasets.karate()
    model = gbgnn.load(fitted / "model.gbgnn")
    sets = gbgnn.PredictionSets(model, diffusion=0.0).fit(data.test[:20], data.y[data.test[:20]])
    save(sets, "sets.gbgnn")
    run("report", "sets.gbgnn", "--out", "sets.html")
    assert "What was run" in Path("sets.html").read_text("utf-8")
