from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from gbgnn.errors import GraphError, ParameterError
from gbgnn.losses import SigmoidCrossEntropy, SoftmaxCrossEntropy
from gbgnn.tasks import MultiLabel
from gbgnn.testing import check_task

Y = [[1, 0, 1], [0, 0, 0], [1, 1, 1]]


@pytest.mark.parametrize("y", [Y, np.array(Y, bool), np.array(Y, np.float32), [[1], [0]]])
def test_task_keeps_its_contract(y: object) -> None:
    check_task(MultiLabel(), y)
    task = MultiLabel().fit(y)
    again = MultiLabel.from_record(json.loads(json.dumps(task.record())))
    assert again.n_columns == task.n_columns == np.shape(y)[1]
    assert task.encode(y).dtype == np.float64
    assert task.decode(task.encode(y)).dtype == np.int64


def test_every_label_is_decided_by_itself() -> None:
    task, loss = MultiLabel().fit(Y), SigmoidCrossEntropy()
    scores = torch.tensor([[2.0, -1.0, 0.0], [-3.0, 0.5, 9.0]], dtype=torch.float64)
    assert task.decide(scores, loss.link).tolist() == [[1, 0, 0], [0, 1, 1]]
    torch.testing.assert_close(task.proba(scores, loss.link), scores.sigmoid())
    assert torch.equal(task.proba(scores, loss.link) > 0.5, task.decide(scores, loss.link) == 1)
    assert task.margins(scores) is scores
    assert not task.has_classes
    assert task.strata(np.array(Y)) is None


def test_a_row_is_right_when_all_its_labels_are() -> None:
    targets = torch.tensor(Y, dtype=torch.float64)
    decided = targets.clone()
    decided[1, 2] = 1
    assert MultiLabel().fit(Y).misses(decided, targets).tolist() == [False, True, False]


def test_codes_are_the_labels_so_that_nodes_are_alike_that_share_many() -> None:
    task = MultiLabel().fit(Y)
    codes = task.codes(torch.tensor(task.encode(Y)), torch.float64)
    assert (codes @ codes.T).tolist() == [[2, 0, 2], [0, 0, 0], [2, 0, 3]]


def test_loss_and_metric_that_suit() -> None:
    task = MultiLabel().fit(Y)
    assert isinstance(task.default_loss, SigmoidCrossEntropy)
    assert task.default_metric == "f1_micro"
    assert task.n_outputs(task.default_loss) == 3
    with pytest.raises(ParameterError, match="takes classes, but multi-label y has binary"):
        task.n_outputs(SoftmaxCrossEntropy())


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.zeros((0, 3)), "nodes is empty"),
        ([1, 0, 1], r"y must be a 0/1 matrix with a row per node; got shape \(3,\)"),
        (np.zeros((3, 0)), r"a 0/1 matrix with a row per node; got shape \(3, 0\)"),
        ([[0, 2]], "y must be a matrix of 0 and 1, a column per label; got other entries"),
        ([["a", "b"]], "y must be a matrix of 0 and 1"),
        ([[0.0, float("nan")]], "y has 1 missing labels"),
    ],
)
def test_labels_of_another_kind_are_refused(y: object, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        MultiLabel().fit(y)


def test_the_number_of_labels_is_that_of_the_training_nodes_or_as_given() -> None:
    with pytest.raises(GraphError, match="val has 2 columns, but the training nodes have 3 labels"):
        MultiLabel().fit(Y).encode([[0, 1]], "val")
    with pytest.raises(GraphError, match="y has 3 columns, but the training nodes have 2 labels"):
        MultiLabel(n_labels=2).fit(Y)
