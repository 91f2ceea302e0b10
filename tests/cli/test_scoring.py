from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import log_loss

from gbgnn import MLP, GBGNNClassifier, datasets
from gbgnn.cli.scoring import cross_entropy, measure, score_splits


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
