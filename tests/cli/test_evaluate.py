from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import log_loss

from gbgnn import MLP, GBGNNClassifier, datasets
from gbgnn.cli.evaluate import cross_entropy, measure, score_splits


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


def test_scores_are_the_models_own() -> None:
    data = datasets.csbm(n_nodes=60, per_class=6)
    model = GBGNNClassifier(n_rounds=2, learner=MLP(epochs=3, units=4), random_state=0)
    model.fit(data.train, data.y[data.train], graph=data.graph)
    scores = score_splits(model, data)
    assert list(scores) == ["train", "val", "test"]
    assert scores["test"]["accuracy"] == model.score(data.test, data.y[data.test])
    expected = log_loss(data.y[data.test], model.predict_proba(data.test))
    assert scores["test"]["loss"] == pytest.approx(expected, rel=1e-5)
    assert score_splits(model, data, graph=data.graph) == scores


def test_an_empty_split_is_left_out() -> None:
    data = datasets.load("karate")
    model = GBGNNClassifier(n_rounds=1, learner=MLP(epochs=3, units=4), random_state=0)
    model.fit(data.train, data.y[data.train], graph=data.graph)
    assert list(score_splits(model, data)) == ["train", "test"]


def test_a_class_that_was_never_seen_counts_as_wrong() -> None:
    truth, classes = np.array([1, 5, 9]), np.array([1, 5])
    proba = np.array([[0.5, 0.5], [0.0, 1.0], [0.5, 0.5]])
    row = measure(truth, np.array([1, 5, 5]), proba, classes)
    assert row["nodes"] == 3
    assert row["accuracy"] == pytest.approx(2 / 3)
    assert row["loss"] == pytest.approx((np.log(2) - np.log(np.finfo(float).eps)) / 3)
    assert row["macro_f1"] == pytest.approx((1 + 2 / 3 + 0) / 3)


def test_certainty_costs_nothing() -> None:
    assert str(cross_entropy(np.array([0]), np.array([[1.0, 0.0]]), np.array([0, 1]))) == "0.0"
