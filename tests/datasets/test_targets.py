from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gbgnn import Graph, NodeSplit
from gbgnn.datasets import Dataset, as_target, kfold_splits, random_split, stratified_split
from gbgnn.datasets.targets import as_strata, is_labelled
from gbgnn.errors import DataError, ParameterError

NAN = float("nan")


@pytest.mark.parametrize(
    ("values", "task", "reason"),
    [
        (["a", "b", ""], "classification", "y has 2 different labels: classification"),
        ([True, False], "classification", "y has 2 different labels: classification"),
        ([0, 1, 2, -1], "classification", "y has 3 different whole numbers: classification"),
        ([0.0, 1.0, NAN], "classification", "y has 2 different whole numbers: classification"),
        ([0.5, 1.0, NAN], "regression", "y has 2 different numbers, not all whole: regression"),
        (np.arange(3100), "regression", "y has 3,100 different whole numbers: regression"),
        (np.arange(3100) % 50, "classification", "y has 50 different whole numbers: classification"),
        (np.arange(21), "regression", "y has 21 different whole numbers: regression"),
        ([None, 1.5, 2], "regression", "y has 2 different numbers, not all whole: regression"),
    ],
)
def test_what_a_column_is_is_found_out_and_said(values, task, reason):
    target = as_target(np.asarray(values))
    assert (target.task, target.reason) == (task, reason)


def test_an_option_decides_otherwise():
    assert as_target(np.arange(100), task="classification").values.dtype == np.int64
    target = as_target([0, 1, 2], task="regression", called="column 'z'")
    assert target.values.tolist() == [0.0, 1.0, 2.0]
    assert target.reason == "column 'z' is a regression target, as asked for"


@pytest.mark.parametrize(
    ("values", "task", "message"),
    [
        (["a", "b"], "regression", r"y holds text \('a', \.\.\.\)"),
        ([1.0, np.inf], "regression", "y holds inf at node 1; numbers must be finite"),
        ([1.5, np.inf], None, "y holds inf at node 1"),
        ([0.5, 1.5], "classification", r"y holds 0\.5 at node 0; classes must be whole numbers"),
        (np.ones((2, 2)), None, r"one label per node, shape \(n,\); got shape \(2, 2\)"),
    ],
)
def test_what_cannot_be_is_named(values, task, message):
    with pytest.raises(DataError, match=message):
        as_target(values, task=task)


def test_an_unknown_task_gets_a_hint():
    with pytest.raises(ParameterError, match=r"got 'regresion'. Did you mean 'regression'\?"):
        as_target([1, 2], task="regresion")


@given(st.lists(st.floats(-1e6, 1e6), min_size=40, max_size=300), st.integers(0, 5))
def test_numbers_are_split_tenth_by_tenth(numbers, n_gaps):
    y = np.array([*numbers, 0.5, *[NAN] * n_gaps])
    strata = as_strata(y)
    assert (strata == -1).tolist() == np.isnan(y).tolist()
    order = strata[is_labelled(y)][np.argsort(y[is_labelled(y)], kind="stable")]
    assert (np.diff(order) >= 0).all()
    sizes = np.bincount(order)
    assert sizes.max() - sizes.min() <= 1


def test_splits_of_numbers_are_stratified_and_leave_gaps_out():
    y = np.random.default_rng(0).normal(size=200)
    y[:10] = NAN
    split = stratified_split(y)
    together = np.concatenate([split.train, split.val, split.test])
    assert np.array_equal(np.sort(together), np.arange(10, 200))
    means = [y[part].mean() for part in (split.train, split.val, split.test)]
    assert np.ptp(means) < 0.2
    folds = kfold_splits(y)
    assert np.array_equal(np.sort(np.concatenate([fold.test for fold in folds])), np.arange(10, 200))
    with pytest.raises(ParameterError, match="per_class nodes of every class, but y holds numbers"):
        random_split(y)


def _numbers() -> Dataset:
    graph = Graph(np.ones((4, 4)) - np.eye(4), np.eye(4))
    return Dataset("toy", graph, np.array([0.5, NAN, 2.5, 3.5]), NodeSplit([0], [2], [3]))


def test_integers_given_in_code_are_classes_however_many():
    graph = Graph(np.ones((40, 40)) - np.eye(40), np.eye(40))
    data = Dataset("many", graph, np.arange(40), NodeSplit(range(40)))
    assert (data.task, data.n_classes) == ("classification", 40)
    assert data.task_reason == "y has 40 different integers: classification"
    assert Dataset("many", graph, np.arange(40), NodeSplit(range(40)), task="regression").is_regression


def test_a_data_set_of_numbers_has_no_classes():
    data = _numbers()
    assert (data.task, data.n_classes, len(data.classes)) == ("regression", 0, 0)
    assert "task='regression'" in repr(data)
    hidden = data.without_test_labels()
    assert hidden.is_regression
    assert np.isnan(hidden.y[3])


def test_nodes_without_a_number_are_in_no_part():
    with pytest.raises(DataError, match=r"train holds 1 nodes without a label \(first: node 1\)"):
        _numbers().with_split(NodeSplit([1]))


def test_arrivals_fit_the_nodes():
    data = _numbers()
    keywords = {"name": "toy", "graph": data.graph, "y": data.y, "split": data.split}
    with pytest.raises(DataError, match=r"arrivals must have one entry per node, shape \(4,\)"):
        Dataset(**keywords, arrivals=np.zeros(3))
    with pytest.raises(DataError, match="val holds node 2, which arrives later"):
        Dataset(**keywords, arrivals=np.array([0, 0, 2, 2]))
    with pytest.raises(ParameterError, match="a snapshot is that of train, val, test; got 'dev'"):
        data.snapshot("dev")
