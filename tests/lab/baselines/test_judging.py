from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import log_loss, roc_auc_score

from gbgnn_lab.baselines.judging import judge_classes, judge_numbers


def test_numbers_are_judged_by_r2_and_absolute_error() -> None:
    random = np.random.default_rng(0)
    y, predicted = random.normal(size=(2, 50))
    found = judge_numbers(y, predicted)
    assert found["r2"] == pytest.approx(1 - ((y - predicted) ** 2).sum() / ((y - y.mean()) ** 2).sum())
    assert found["mae"] == pytest.approx(abs(y - predicted).mean())


def test_several_classes_are_judged_one_against_the_others() -> None:
    random = np.random.default_rng(0)
    classes, proba = np.array(["a", "b", "c"]), random.dirichlet(np.ones(3), 60)
    y = classes[random.integers(3, size=60)]
    found = judge_classes(y, classes[proba.argmax(axis=1)], proba, classes)
    assert found["accuracy"] == (y == classes[proba.argmax(axis=1)]).mean()
    assert found["roc_auc"] == pytest.approx(roc_auc_score(y, proba, multi_class="ovr"))
    assert found["log_loss"] == pytest.approx(log_loss(y, proba))
    assert found["average_precision"] is not None


def test_what_cannot_be_judged_is_none() -> None:
    y, classes, proba = np.array([0, 0]), np.array([0, 1]), np.array([[0.9, 0.1], [0.6, 0.4]])
    nothing = dict.fromkeys(("roc_auc", "average_precision", "log_loss"))
    assert judge_classes(y, y, proba, classes) == {"accuracy": 1.0, **nothing}  # one class is not there
    assert judge_classes(np.array([0, 1]), y, None, classes) == {"accuracy": 0.5, **nothing}
