from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import (
    average_precision_score,
    log_loss,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
    root_mean_squared_error,
)

from gbgnn import MLP, GBGNNClassifier, datasets
from gbgnn.cli.scores import cross_entropy, measure_classes, measure_numbers, score_splits, show_scores


def test_scores_are_the_models_own() -> None:
    data = datasets.csbm(n_nodes=60, per_class=6)
    model = GBGNNClassifier(n_rounds=2, learner=MLP(epochs=3, units=4), random_state=0)
    model.fit(data.train, data.y[data.train], graph=data.graph)
    scores = score_splits(model, data)
    assert list(scores) == ["train", "val", "test"]
    assert scores["test"]["accuracy"] == model.score(data.test, data.y[data.test])
    expected = log_loss(data.y[data.test], model.predict_proba(data.test))
    assert scores["test"]["log_loss"] == pytest.approx(expected, rel=1e-5)
    assert score_splits(model, data, graph=data.graph) == scores


def test_an_empty_split_is_left_out() -> None:
    data = datasets.load("karate")
    model = GBGNNClassifier(n_rounds=1, learner=MLP(epochs=3, units=4), random_state=0)
    model.fit(data.train, data.y[data.train], graph=data.graph)
    assert list(score_splits(model, data)) == ["train", "test"]


def test_a_class_that_was_never_seen_counts_as_wrong() -> None:
    truth, classes = np.array([1, 5, 9]), np.array([1, 5])
    proba = np.array([[0.5, 0.5], [0.0, 1.0], [0.5, 0.5]])
    row = measure_classes(truth, np.array([1, 5, 5]), proba, classes)
    assert row["nodes"] == 3
    assert row["accuracy"] == pytest.approx(2 / 3)
    assert row["log_loss"] == pytest.approx((np.log(2) - np.log(np.finfo(float).eps)) / 3)
    assert row["macro_f1"] == pytest.approx((1 + 2 / 3 + 0) / 3)


def test_certainty_costs_nothing() -> None:
    assert str(cross_entropy(np.array([0]), np.array([[1.0, 0.0]]), np.array([0, 1]))) == "0.0"


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 5))
def test_areas_are_scikit_learns(seed: int, n_classes: int) -> None:
    rng = np.random.default_rng(seed)
    truth = np.concatenate([np.arange(n_classes), rng.integers(n_classes, size=30)])
    proba = rng.dirichlet(np.ones(n_classes), size=len(truth))
    row = measure_classes(truth, proba.argmax(axis=1), proba, np.arange(n_classes))
    if n_classes == 2:
        assert row["auc"] == pytest.approx(roc_auc_score(truth, proba[:, 1]))
        assert row["average_precision"] == pytest.approx(average_precision_score(truth, proba[:, 1]))
    else:
        assert row["auc"] == pytest.approx(roc_auc_score(truth, proba, multi_class="ovr"))
        onehot = truth[:, None] == np.arange(n_classes)
        assert row["average_precision"] == pytest.approx(average_precision_score(onehot, proba))
    assert row["log_loss"] == pytest.approx(log_loss(truth, proba, labels=np.arange(n_classes)))


def test_nodes_of_one_class_have_no_area() -> None:
    proba = np.array([[0.1, 0.9], [0.6, 0.4]])
    row = measure_classes(np.array([1, 1]), np.array([1, 0]), proba, np.arange(2))
    assert (row["auc"], row["average_precision"], row["accuracy"]) == (None, None, 0.5)


def test_numbers_are_judged_as_scikit_learn_does() -> None:
    rng = np.random.default_rng(0)
    truth, predicted = rng.normal(size=(2, 20))
    row = measure_numbers(truth, predicted)
    assert row == {
        "nodes": 20,
        "r2": pytest.approx(r2_score(truth, predicted)),
        "mae": pytest.approx(mean_absolute_error(truth, predicted)),
        "rmse": pytest.approx(root_mean_squared_error(truth, predicted)),
    }
    assert measure_numbers(truth[:1], predicted[:1])["r2"] is None


def test_both_kinds_of_figures_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    show_scores({"test": measure_numbers(np.arange(3.0), np.arange(3.0))})
    show_scores({"test": measure_classes(np.array([0, 1]), np.array([0, 1]), np.eye(2), np.arange(2))})
    told = capsys.readouterr().out
    for word in ("R2", "MAE", "RMSE", "AUC", "avg. precision", "log loss", "macro-F1"):
        assert word in told
