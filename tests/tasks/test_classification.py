from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from gbgnn.errors import GraphError, ParameterError
from gbgnn.losses import SigmoidCrossEntropy, SoftmaxCrossEntropy, SquaredError
from gbgnn.tasks import Classification
from gbgnn.testing import check_task


@pytest.mark.parametrize(
    "y",
    [
        ["b", "a", "b"],
        np.array(["x", "yy", "z"], object),
        [3, 1, 2, 1],
        [True, False],
        np.array([2.0, 0.0]),
        np.array([-1, 1], np.int8),
    ],
    ids=["text", "objects", "integers", "booleans", "whole floats", "int8"],
)
def test_task_keeps_its_contract(y: object) -> None:
    check_task(Classification(), y)
    fitted = Classification().fit(y)
    assert fitted.has_classes
    assert fitted.n_columns == len(set(np.asarray(y).tolist()))
    assert fitted.encode(y).dtype == np.int64


def test_a_column_of_labels_is_a_vector_of_them() -> None:
    assert Classification().fit([[2], [5]]).encode([[5], [2], [5]]).tolist() == [1, 0, 1]


def test_record_is_json_and_keeps_the_type() -> None:
    for y in (["b", "a"], np.array([3, 1], np.int16), [True, False]):
        task = Classification().fit(y)
        again = Classification.from_record(json.loads(json.dumps(task.record())))
        assert again.classes.dtype == task.classes.dtype
        assert again.classes.tolist() == task.classes.tolist()


def test_classes_that_are_given_keep_their_order_and_may_have_no_node() -> None:
    task = Classification(classes=np.array(["low", "high", "none"])).fit(["high", "low", "high"])
    assert task.n_columns == 3
    assert task.encode(["low", "high", "none"]).tolist() == [0, 1, 2]
    assert task.decode(np.array([2, 0])).tolist() == ["none", "low"]
    with pytest.raises(GraphError, match="y has class 'mid'"):
        Classification(classes=np.array(["low", "high"])).fit(["low", "mid"])


def test_one_score_for_two_classes_under_sigmoid_and_one_each_under_softmax() -> None:
    two, three = Classification().fit([0, 1]), Classification().fit([0, 1, 2])
    assert (two.n_outputs(SigmoidCrossEntropy()), two.n_outputs(SoftmaxCrossEntropy())) == (1, 2)
    assert three.n_outputs(SoftmaxCrossEntropy()) == 3
    assert isinstance(two.default_loss, SigmoidCrossEntropy)
    assert isinstance(three.default_loss, SoftmaxCrossEntropy)
    assert two.default_metric == three.default_metric == "accuracy"
    with pytest.raises(ParameterError, match='loss="sigmoid" is for two classes; got 3. Use loss="softmax"'):
        three.n_outputs(SigmoidCrossEntropy())
    with pytest.raises(ParameterError, match="SquaredError takes numbers, but y has classes"):
        two.n_outputs(SquaredError())


@pytest.mark.parametrize(
    ("loss", "n_classes"),
    [(SigmoidCrossEntropy(), 2), (SoftmaxCrossEntropy(), 2), (SoftmaxCrossEntropy(), 4)],
)
def test_probabilities_decisions_and_margins_agree(loss: SoftmaxCrossEntropy, n_classes: int) -> None:
    task = Classification().fit(np.arange(n_classes))
    scores = torch.randn(50, task.n_outputs(loss), generator=torch.Generator().manual_seed(0))
    proba, decided = task.proba(scores, loss.link), task.decide(scores, loss.link)
    assert proba.shape == (50, n_classes)
    torch.testing.assert_close(proba.sum(dim=1), torch.ones(50))
    assert torch.equal(proba.argmax(dim=1), decided)
    margins = task.margins(scores)
    if n_classes == 2:
        assert torch.equal(margins > 0, decided == 1)
        assert margins.shape == (50,)
    else:
        assert margins is scores


def test_small_probabilities_of_either_class_are_not_rounded_away() -> None:
    task, loss = Classification().fit([0, 1]), SigmoidCrossEntropy()
    proba = task.proba(torch.tensor([[40.0], [-40.0]], dtype=torch.float64), loss.link)
    expected = 1 / (1 + np.exp(40.0))
    assert float(proba[0, 0]) == pytest.approx(expected, rel=1e-12, abs=0)
    assert float(proba[1, 1]) == pytest.approx(expected, rel=1e-12, abs=0)


def test_codes_are_one_hot_and_misses_are_what_is_wrong() -> None:
    task, targets = Classification().fit([0, 1, 2]), torch.tensor([2, 0])
    assert task.codes(targets, torch.float64).tolist() == [[0, 0, 1], [1, 0, 0]]
    assert task.codes(targets, torch.float32).dtype == torch.float32
    assert task.misses(torch.tensor([2, 1]), targets).tolist() == [False, True]
    assert task.strata(targets.numpy()).tolist() == [2, 0]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([], "nodes is empty; training needs labelled nodes"),
        (["a", "a"], "y has one class only .'a'.; a classifier needs at least two"),
        ([0.5, 1.7], "y must be classes; got continuous numbers such as 0.5. Bin them first"),
        ([[1, 0], [0, 1]], r"y must have one class per node, shape \(n,\); got shape \(2, 2\)"),
        (["a", None], "y has 1 missing labels"),
    ],
)
def test_labels_of_another_kind_are_refused(y: object, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        Classification().fit(y)


def test_a_class_that_no_training_node_has_is_named() -> None:
    with pytest.raises(
        GraphError, match=r"the y of validation has class 'c', which no training node has \(known: a, b\)"
    ):
        Classification().fit(["a", "b"]).encode(["a", "c"], "the y of validation")
