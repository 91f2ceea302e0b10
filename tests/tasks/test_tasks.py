from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gbgnn.errors import GraphError, ParameterError
from gbgnn.labels import as_table
from gbgnn.losses import (
    AbsoluteError,
    Huber,
    Loss,
    Poisson,
    Quantile,
    SigmoidCrossEntropy,
    SoftmaxCrossEntropy,
    SquaredError,
)
from gbgnn.tasks import Classification, MultiLabel, Regression, Task
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
    numeric, labels = Regression().fit([1.0, 2.0]), MultiLabel().fit([[0, 1]])
    assert (numeric.n_outputs(SquaredError()), labels.n_outputs(SigmoidCrossEntropy())) == (1, 2)
    for task, message in (
        (numeric, "SoftmaxCrossEntropy takes classes, but numeric y has numbers; use loss='squared'"),
        (labels, "SoftmaxCrossEntropy takes classes, but multi-label y has binary; use loss='sigmoid'"),
    ):
        with pytest.raises(ParameterError, match=message):
            task.n_outputs(SoftmaxCrossEntropy())


@pytest.mark.parametrize(
    "y",
    [
        ["b", "a", "b"],
        np.array(["x", "yy", "z"], object),
        [3, 1, 2, 1],
        [True, False],
        np.array([2.0, 0.0]),
        np.array([-2, 1], np.int8),
    ],
    ids=["text", "objects", "integers", "booleans", "whole floats", "int8"],
)
def test_classification_keeps_its_contract(y: object) -> None:
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
def test_labels_that_are_not_for_classification_are_refused(y: object, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        Classification().fit(y)


def test_a_class_that_no_training_node_has_is_named() -> None:
    with pytest.raises(
        GraphError, match=r"the y of validation has class 'c', which no training node has \(known: a, b\)"
    ):
        Classification().fit(["a", "b"]).encode(["a", "c"], "the y of validation")


Y = [[1, 0, 1], [0, 0, 0], [1, 1, 1]]


@pytest.mark.parametrize("y", [Y, np.array(Y, bool), np.array(Y, np.float32), [[1], [0]]])
def test_multilabel_keeps_its_contract(y: object) -> None:
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
        (np.array([["a", "b"]]), "y must be a matrix of 0 and 1"),
        ([[0.0, float("nan")]], "y has 1 missing labels"),
    ],
)
def test_labels_that_are_not_for_multilabel_are_refused(y: object, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        MultiLabel().fit(y)


def test_the_number_of_labels_is_that_of_the_training_nodes_or_as_given() -> None:
    with pytest.raises(GraphError, match="val has 2 columns, but the training nodes have 3 labels"):
        MultiLabel().fit(Y).encode([[0, 1]], "val")
    with pytest.raises(GraphError, match="y has 3 columns, but the training nodes have 2 labels"):
        MultiLabel(n_labels=2).fit(Y)


@pytest.mark.parametrize("y", [[10.0, 30.0], [1, 3, 5], [[0.5, -4.0], [1.5, 4.0]], [[2.0], [4.0]], [7.0]])
def test_regression_keeps_its_contract(y: object) -> None:
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
def test_labels_that_are_not_for_regression_are_refused(y: object, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        Regression().fit(y)


def test_the_number_of_columns_is_that_of_the_training_nodes() -> None:
    with pytest.raises(GraphError, match="val has 2 columns, but the training nodes have 1"):
        Regression().fit([1.0, 2.0]).encode([[1.0, 2.0]], "val")


@pytest.mark.parametrize("loss", [AbsoluteError(), Huber(delta=2.0), Quantile(levels=[0.1, 0.9]), Poisson()])
@pytest.mark.parametrize("y", [[1.0, 3.0, 8.0], [[1.0, 30.0], [3.0, 10.0], [4.0, 20.0]]])
def test_regression_keeps_its_contract_under_every_loss(loss: Loss, y: list[object]) -> None:
    check_task(Regression(loss=loss), y)
    task = Regression(loss=loss).fit(y)
    assert task.n_outputs(loss) == np.reshape(y, (3, -1)).shape[1] * max(1, len(loss.quantile_levels))
    again = Regression.from_record(json.loads(json.dumps(task.record())))
    np.testing.assert_array_equal(again.decode(task.encode(y)), task.decode(task.encode(y)))


def test_codes_of_counts_are_centred_so_that_they_say_who_is_alike() -> None:
    task = Regression(loss=Poisson()).fit([1.0, 3.0])
    assert task.codes(torch.tensor(task.encode([1.0, 3.0])), torch.float64).tolist() == [[-0.5], [0.5]]


def test_y_is_made_ready_for_one_loss() -> None:
    task = Regression(loss=Huber()).fit([1.0, 2.0, 9.0])
    with pytest.raises(
        ParameterError, match=r"y was made ready for Huber\(\), but SquaredError\(\) is to be"
    ):
        task.n_outputs(SquaredError())
    with pytest.raises(ParameterError, match=r"made ready for SquaredError\(\), but Quantile"):
        Regression().fit([1.0, 2.0]).n_outputs(Quantile(levels=[0.1, 0.9]))
    assert Regression().fit([1.0, 2.0]).n_outputs(Quantile(levels=0.1)) == 1


def test_quantiles_are_sorted_where_scores_cross() -> None:
    task = Regression(loss=Quantile(levels=[0.1, 0.5, 0.9])).fit([0.0, 1.0, 2.0, 3.0, 4.0])
    crossed = np.array([[9.0, 0.0, -9.0]])
    found = task.decode_quantiles(crossed, [0.1, 0.5, 0.9])
    assert (np.diff(found) >= 0).all()
    assert task.decode(crossed).tolist() == [found[0, 1]]
    with pytest.raises(ParameterError, match="these predictions have no quantiles"):
        Classification().fit([0, 1]).decode_quantiles(crossed, [0.1])
