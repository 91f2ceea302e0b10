from __future__ import annotations

import numpy as np
import pytest

from gbgnn import Graph, NodeSplit
from gbgnn.datasets import Dataset
from gbgnn.errors import DataError, GraphError


@pytest.fixture
def graph() -> Graph:
    return Graph(np.ones((4, 4)) - np.eye(4), np.eye(4))


def test_parts_and_classes_are_those_of_the_split_and_labels(graph):
    data = Dataset("toy", graph, np.array(["a", "b", "", "a"]), NodeSplit([0], [1], [3]))
    assert (data.train.tolist(), data.val.tolist(), data.test.tolist()) == ([0], [1], [3])
    assert data.classes.tolist() == ["a", "b"]
    assert data.n_classes == 2


def test_labels_are_copied_and_read_only(graph):
    y = np.array([0, 1, 0, 1])
    data = Dataset("toy", graph, y, NodeSplit([0, 1]))
    y[0] = 7
    assert data.y[0] == 0
    with pytest.raises(ValueError, match="read-only"):
        data.y[0] = 1


def test_with_split_leaves_the_original_alone(graph):
    data = Dataset("toy", graph, np.array([0, 1, 0, 1]), NodeSplit([0, 1]), split_name="public")
    other = data.with_split(NodeSplit([2, 3]), "mine")
    assert data.train.tolist() == [0, 1]
    assert other.train.tolist() == [2, 3]
    assert other.graph is data.graph
    assert (data.split_name, other.split_name) == ("public", "mine")


def test_sizes_must_agree(graph):
    with pytest.raises(DataError, match="y has 3 labels but the graph has 4 nodes"):
        Dataset("toy", graph, np.array([0, 1, 0]), NodeSplit([0]))
    with pytest.raises(GraphError, match="test holds node id 9"):
        Dataset("toy", graph, np.array([0, 1, 0, 1]), NodeSplit([0], test=[9]))


def test_unlabelled_nodes_may_not_be_in_the_split(graph):
    with pytest.raises(DataError, match=r"val holds 1 nodes without a label \(first: node 2\)"):
        Dataset("toy", graph, np.array([0, 1, -1, 1]), NodeSplit([0], [2]))


def test_every_class_needs_its_name(graph):
    with pytest.raises(DataError, match="class_names has 1 names but y holds class 1"):
        Dataset("toy", graph, np.array([0, 1, 0, 1]), NodeSplit([0]), class_names=["only"])


@pytest.mark.parametrize("y", [np.array([0, 1, 0, 1]), np.array(["a", "b", "a", "b"])])
def test_without_test_labels_only_those_of_train_and_val_are_left(graph, y):
    data = Dataset("toy", graph, y, NodeSplit([0], [1], [3]), split_name="public")
    hidden = data.without_test_labels()
    assert hidden.y[:2].tolist() == y[:2].tolist()
    assert set(hidden.y[2:].tolist()) <= {-1, ""}  # node 2 is in no part, and is nobody's business either
    assert (hidden.train.tolist(), hidden.val.tolist(), hidden.test.tolist()) == ([0], [1], [])
    assert (hidden.graph, hidden.name, hidden.split_name) == (graph, "toy", "public")
    assert data.y.tolist() == y.tolist()
