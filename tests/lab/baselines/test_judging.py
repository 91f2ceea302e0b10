from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import log_loss, roc_auc_score

from gbgnn.datasets import Dataset
from gbgnn.labels import NodeSplit
from gbgnn_lab.baselines.judging import BY_PROBA, judge_classes, judge_numbers, judge_parts


def test_numbers_are_judged_by_r2_and_absolute_error() -> None:
    random = np.random.default_rng(0)
    y, predicted = random.normal(size=(2, 50))
    found = judge_numbers(y, predicted)
    assert found["r2"] == pytest.approx(1 - ((y - predicted) ** 2).sum() / ((y - y.mean()) ** 2).sum())
    assert found["mae"] == pytest.approx(abs(y - predicted).mean())
    assert found["rmse"] == pytest.approx(((y - predicted) ** 2).mean() ** 0.5)


def test_several_classes_are_judged_one_against_the_others() -> None:
    random = np.random.default_rng(0)
    classes, proba = np.array(["a", "b", "c"]), random.dirichlet(np.ones(3), 60)
    y = classes[random.integers(3, size=60)]
    found = judge_classes(y, classes[proba.argmax(axis=1)], proba, classes)
    assert found["accuracy"] == (y == classes[proba.argmax(axis=1)]).mean()
    assert found["auc"] == pytest.approx(roc_auc_score(y, proba, multi_class="ovr"))
    assert found["log_loss"] == pytest.approx(log_loss(y, proba))
    assert found["average_precision"] is not None


def test_what_cannot_be_judged_is_none() -> None:
    y, classes, proba = np.array([0, 0]), np.array([0, 1]), np.array([[0.9, 0.1], [0.6, 0.4]])
    found = judge_classes(y, y, proba, classes)  # one class is not there
    assert (found["accuracy"], found["auc"], found["average_precision"]) == (1.0, None, None)
    assert found["log_loss"] == pytest.approx(-np.log([0.9, 0.6]).mean())
    bare = judge_classes(np.array([0, 1]), y, None, classes)
    assert bare == {"accuracy": 0.5, **dict.fromkeys(BY_PROBA), "macro_f1": pytest.approx(1 / 3)}


def test_parts_of_a_split_are_judged_apart(small: Dataset) -> None:
    guess = np.roll(small.y, 1)
    found = judge_parts(small, guess)
    for part in ("val", "test"):
        nodes = getattr(small, part)
        assert found[f"{part}_accuracy"] == (guess == small.y)[nodes].mean()
        assert found[f"{part}_auc"] is None
    numbers = replace(
        small, y=small.graph.features[:, 0], task="regression", split=NodeSplit([0], test=[3, 4])
    )
    judged = judge_parts(numbers, np.zeros(120))
    assert set(judged) == {"test_r2", "test_mae", "test_rmse"}
    assert judged["test_mae"] == pytest.approx(abs(numbers.y[[3, 4]]).mean())
