from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gbgnn.errors import GraphError, ParameterError
from gbgnn.losses import SigmoidCrossEntropy, SquaredError
from gbgnn.tasks import Regression
from gbgnn.testing import check_task


@pytest.mark.parametrize("y", [[10.0, 30.0], [1, 3, 5], [[0.5, -4.0], [1.5, 4.0]], [[2.0], [4.0]], [7.0]])
def test_task_keeps_its_contract(y: object) -> None:
    check_task(Regression(), y)


@settings(max_examples=60)
@given(
    arrays(
        np.float64, st.tuples(st.integers(2, 8), st.integers(1, 3)), elements=st.integers(-(10**9), 10**9)
    ),
    st.booleans(),
)
def test_numbers_come_back_and_targets_are_standardised(y: np.ndarray, is_flat: bool) -> None:
    y = y / 1000
    given_y = y[:, 0] if is_flat else y
    task = Regression().fit(given_y)
    targets = task.encode(given_y)
    assert targets.shape == (len(y), 1 if is_flat else y.shape[1])
    decoded = task.decode(targets)
    assert decoded.shape == given_y.shape
    np.testing.assert_allclose(decoded, given_y, rtol=1e-9, atol=1e-9 * np.abs(y).max())
    changes = np.ptp(np.reshape(given_y, targets.shape), axis=0) > 1e-6 * np.abs(y).max()
    np.testing.assert_allclose(targets.mean(axis=0)[changes], 0, atol=1e-8)
    np.testing.assert_allclose(targets.std(axis=0)[changes], 1, rtol=1e-8)


def test_zero_scores_predict_the_mean() -> None:
    task = Regression().fit([10.0, 20.0, 60.0])
    decided = task.decide(torch.zeros(2, 1), SquaredError().link)
    assert task.decode(decided.numpy()).tolist() == [30.0, 30.0]


@pytest.mark.parametrize("value", [0.1, 1e150, 0.0, -3.0])
def test_a_column_that_never_changes_is_learned_by_its_mean_alone(value: float) -> None:
    """Ten times 0.1 has a deviation of 1e-17, by which nothing must be divided."""
    task = Regression().fit([value] * 10)
    assert task.scale.tolist() == [1.0]
    assert abs(float(task.encode([value])[0, 0])) <= 1e-15 * abs(value)


def test_centre_and_scale_that_are_given_are_taken() -> None:
    raw = Regression(centre=0.0, scale=1.0).fit([[3.0, 4.0], [5.0, 8.0]])
    assert raw.encode([[3.0, 4.0]]).tolist() == [[3.0, 4.0]]
    halved = Regression(scale=np.array([2.0])).fit([1.0, 3.0])
    assert (halved.centre.tolist(), halved.encode([5.0]).tolist()) == ([2.0], [[1.5]])
    assert Regression(is_flat=False).fit([1.0, 3.0]).decode(np.zeros((2, 1))).tolist() == [[2.0], [2.0]]
    assert Regression(is_flat=True).fit([[1.0], [3.0]]).decode(np.zeros((2, 1))).tolist() == [2.0, 2.0]


def test_record_is_json_and_round_trips_to_the_bit() -> None:
    for y in ([0.1, 0.7, 1 / 3], [[0.1, 5.0], [0.7, 1e-8]]):
        task = Regression().fit(y)
        again = Regression.from_record(json.loads(json.dumps(task.record())))
        assert again.centre.tobytes() == task.centre.tobytes()
        assert again.scale.tobytes() == task.scale.tobytes()
        assert again.is_flat is (np.ndim(y) == 1)


def test_loss_metric_and_codes_that_suit() -> None:
    task = Regression().fit([[1.0, 2.0], [3.0, 6.0]])
    assert isinstance(task.default_loss, SquaredError)
    assert task.default_metric == "r2"
    assert task.n_columns == task.n_outputs(SquaredError()) == 2
    targets = torch.tensor(task.encode([[1.0, 6.0]]))
    assert task.codes(targets, torch.float32).tolist() == [[-1.0, 1.0]]
    with pytest.raises(
        ParameterError,
        match="SigmoidCrossEntropy takes binary, but numeric y has numbers; use loss='squared'",
    ):
        task.n_outputs(SigmoidCrossEntropy())


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([], "nodes is empty"),
        (["a", "b"], "y must be numbers; got dtype <U1"),
        ([1.0, float("inf")], "y must be finite numbers; got infinity"),
        ([1.0, float("nan")], "y has 1 missing labels"),
        ([1j, 2j], "y must be numbers; got dtype complex128"),
    ],
)
def test_labels_of_another_kind_are_refused(y: object, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        Regression().fit(y)


def test_the_number_of_columns_is_that_of_the_training_nodes() -> None:
    with pytest.raises(GraphError, match="val has 2 columns, but the training nodes have 1"):
        Regression().fit([1.0, 2.0]).encode([[1.0, 2.0]], "val")
