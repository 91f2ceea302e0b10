from __future__ import annotations

import numpy as np
import pytest
import torch

from gbgnn._labels import as_table
from gbgnn.errors import GraphError, ParameterError
from gbgnn.losses import SoftmaxCrossEntropy, SquaredError
from gbgnn.tasks import Classification, MultiLabel, Regression, Task, check_kind
from gbgnn.testing import check_task


def test_family_is_abstract() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Task()


class Forgetful(Regression):
    """Decodes with the wrong unit."""

    def decode(self, targets: np.ndarray) -> np.ndarray:
        return super().decode(targets) + 1


class Unrecorded(Classification):
    @classmethod
    def from_record(cls, record: dict[str, object]) -> Unrecorded:
        return cls(classes=np.array(sorted(record["classes"], reverse=True)))


def test_the_contract_check_can_fail() -> None:
    with pytest.raises(AssertionError, match="decode"):
        check_task(Forgetful(), [1.0, 2.0])
    with pytest.raises(AssertionError, match="is another task"):
        check_task(Unrecorded(), ["a", "b"])


@pytest.mark.parametrize(
    ("task", "y"),
    [
        (Classification(), [3, 1, 2]),
        (MultiLabel(), [[1, 0], [1, 1]]),
        (Regression(), [1.5, -2.0]),
        (Regression(), [[1.5, 7.0], [2.0, 9.0]]),
    ],
)
def test_fitting_returns_another_object_and_leaves_the_setting_alone(task: Task, y: object) -> None:
    before = repr(task)
    fitted = task.fit(y)
    assert fitted is not task
    assert repr(task) == before
    assert fitted.n_columns == np.reshape(y, (len(y), -1)).shape[1] or isinstance(task, Classification)
    np.testing.assert_array_equal(fitted.fit(y).encode(y), fitted.encode(y))


def test_a_task_without_right_and_wrong_says_nothing_of_it() -> None:
    task = Regression().fit([1.0, 2.0])
    numbers = torch.zeros(2, 1)
    assert task.misses(numbers, numbers) is None
    assert task.strata(np.zeros((2, 1))) is None
    assert not task.has_classes
    with pytest.raises(ParameterError, match="Regression has no probabilities; use predict"):
        task.proba(numbers, SquaredError().link)
    assert task.margins(numbers) is numbers


def test_a_task_says_whether_scores_stand_for_probabilities() -> None:
    fitted = [Classification().fit([0, 1, 2]), MultiLabel().fit([[0, 1, 1]]), Regression().fit([[0.0, 1, 2]])]
    for task in fitted:
        scores, link = torch.zeros(4, 3), task.default_loss.link
        if task.has_proba:
            assert task.proba(scores, link).shape == (4, 3)
        else:
            with pytest.raises(ParameterError, match="has no probabilities"):
                task.proba(scores, link)
    assert [task.has_proba for task in fitted] == [True, True, False]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([[1, 2], [3]], "y is not an array"),
        (3, r"y must have one entry or one row per node; got shape \(\)"),
        (np.zeros((2, 2, 2)), r"one row per node; got shape \(2, 2, 2\)"),
        ([1.0, float("nan"), float("nan")], r"y has 2 missing labels \(first: position 1\)"),
        (["a", None], r"y has 1 missing labels \(first: position 1\)"),
        ([[0.0, 1.0], [1.0, float("nan")]], r"y has 1 missing labels \(first: position 1\)"),
        (np.array(["2020-01-01", "NaT"], "datetime64[D]"), r"y has 1 missing labels"),
    ],
    ids=["ragged", "scalar", "cube", "nan", "none", "nan in a row", "no date"],
)
def test_labels_that_are_no_table_are_refused(y: object, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        as_table(y, "y")
    with pytest.raises(GraphError, match="^the y of validation"):
        as_table(y, "the y of validation")


def test_a_loss_of_another_kind_is_named() -> None:
    check_kind("numeric y", SquaredError(), "numbers", "squared")
    with pytest.raises(
        ParameterError,
        match="SoftmaxCrossEntropy takes classes, but numeric y has numbers; use loss='squared'",
    ):
        check_kind("numeric y", SoftmaxCrossEntropy(), "numbers", "squared")
