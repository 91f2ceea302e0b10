from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix, precision_score, recall_score

from gbgnn.report import Subject
from gbgnn.report.evidence.errors import OTHER, compare_numbers, confuse, judge_labels


def test_confusion_is_that_of_scikit_learn(classes: Subject) -> None:
    test = classes.part("test")
    found = confuse(classes, test)
    predicted = classes.model.predict(test.nodes)
    wanted = confusion_matrix(test.truth, predicted, labels=classes.model.classes)
    assert found.names == classes.titles
    assert (found.counts == wanted).all()
    present = wanted.sum(axis=1) > 0
    recalls = recall_score(
        test.truth, predicted, labels=classes.model.classes, average=None, zero_division=0.0
    )
    assert found.recall[present] == pytest.approx(recalls[present])


def test_a_class_that_training_never_saw_has_a_row_of_its_own(classes: Subject) -> None:
    test = classes.part("test")
    truth = test.truth.astype(object)
    truth[:3] = "zzz new"
    found = confuse(classes, replace(test, truth=truth.astype(str)))
    assert found.names[-1] == OTHER
    assert found.counts[-1].sum() == 3
    assert found.counts[:, -1].sum() == 0
    assert found.counts.sum() == 20


def test_rare_classes_become_one(classes: Subject) -> None:
    test = classes.part("test")
    whole, found = confuse(classes, test), confuse(classes, test, n_most=2)
    assert found.names[-1].endswith("rarer classes")
    assert found.counts.shape == (2, 2)
    assert found.counts.sum() == whole.counts.sum()
    kept = classes.titles.index(found.names[0])
    assert found.counts[0, 0] == whole.counts[kept, kept]


def test_the_commonest_mistake(classes: Subject) -> None:
    found = confuse(classes, classes.part("test"))
    wrong = found.counts - np.diag(np.diag(found.counts))
    if wrong.sum():
        is_, said, n = found.worst()
        assert n == wrong.max() == wrong[found.names.index(is_), found.names.index(said)]
    assert replace(found, counts=np.diag([3, 2, 1])).worst() is None


def test_labels_are_told_as_scikit_learn_says(labels: Subject) -> None:
    test = labels.part("test")
    predicted = labels.model.predict(test.nodes)
    for k, found in enumerate(judge_labels(labels, test)):
        truth, said = test.truth[:, k], predicted[:, k]
        assert (found.n_nodes, found.n_said) == (truth.sum(), said.sum())
        assert (found.recall or 0) == pytest.approx(recall_score(truth, said, zero_division=0.0))
        assert (found.precision or 0) == pytest.approx(precision_score(truth, said, zero_division=0.0))


def test_residuals_are_predicted_less_true(numbers: Subject) -> None:
    test = numbers.part("test")
    (found,) = compare_numbers(test, numbers.answers["test"])
    errors = numbers.model.predict(test.nodes) - test.truth
    assert found.errors == pytest.approx(errors)
    assert (found.mean_absolute, found.bias) == pytest.approx((np.abs(errors).mean(), errors.mean()))
