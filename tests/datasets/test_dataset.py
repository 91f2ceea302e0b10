from __future__ import annotations

import numpy as np
import pytest

from gbgnn import Graph, NodeSplit
from gbgnn.datasets import Dataset, csbm
from gbgnn.datasets.targets import as_labels, is_labelled
from gbgnn.errors import DataError, GraphError, ParameterError
from gbgnn.tables.links import build_adjacency


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


def test_a_share_of_the_validation_nodes_is_set_aside_at_random() -> None:
    data = csbm(n_nodes=200, seed=0)
    aside = data.set_aside(0.4, seed=1)
    assert len(data.calibration) == 0
    assert len(aside.calibration) == round(0.4 * len(data.val))
    assert sorted([*aside.val, *aside.calibration]) == sorted(data.val)
    assert aside.calibration.tolist() != data.set_aside(0.4, seed=2).calibration.tolist()
    assert aside.calibration.tolist() == data.set_aside(0.4, seed=1).calibration.tolist()
    assert (aside.train.tolist(), aside.test.tolist()) == (data.train.tolist(), data.test.tolist())
    for wrong in (0, 1, "half"):
        with pytest.raises(ParameterError, match=r"calibration fraction must be in \(0, 1\)"):
            data.set_aside(wrong)
    with pytest.raises(DataError, match="cannot be split with 0.001 of them for calibration"):
        data.set_aside(0.001)


def test_nodes_set_aside_are_found_again_in_a_snapshot(graph) -> None:
    split = NodeSplit([1], val=[0, 3], test=[2])
    arrivals = np.array([1, 0, 2, 1])
    adjacency = np.zeros((4, 4))
    data = Dataset("d", Graph(adjacency, np.ones((4, 1))), np.arange(4) % 2, split, arrivals=arrivals)
    aside = data.set_aside(0.5)
    there = aside.snapshot("val")
    assert there.graph.node_ids[there.calibration].tolist() == aside.calibration.tolist()
    assert aside.snapshot("train").calibration.tolist() == []


def _build(pairs, weights=None, n_nodes=3, **options):
    ends = np.array(pairs).reshape(-1, 2)
    given = None if weights is None else np.array(weights)
    matrix, mended = build_adjacency(ends.T, n_nodes, weights=given, **options)
    return matrix.toarray().tolist(), mended


def test_a_directed_edge_lets_the_target_hear_the_source():
    matrix, mended = _build([(0, 1)], directed=True, n_nodes=2)
    assert matrix == [[0, 0], [1, 0]]
    assert mended == []


def test_an_undirected_edge_goes_both_ways():
    assert _build([(0, 1)], n_nodes=2) == ([[0, 1], [1, 0]], [])


def test_listing_every_edge_both_ways_is_not_a_repair():
    both = [(0, 1), (1, 0), (1, 2), (2, 1)]
    assert _build(both) == _build([(0, 1), (1, 2)])
    assert _build(both, [2.0, 2.0, 3.0, 3.0])[0] == [[0, 2, 0], [2, 0, 3], [0, 3, 0]]


def test_repeats_are_merged_and_counted():
    assert _build([(0, 1), (1, 0), (0, 1), (1, 2)])[1] == ["merged 2 repeated edges"]
    assert _build([(0, 1), (1, 0), (0, 1)], directed=True)[1] == ["merged 1 repeated edges"]


def test_weights_of_repeats_are_summed():
    matrix, mended = _build([(0, 1), (0, 1), (1, 0), (1, 2)], [1, 2, 4, 5])
    assert matrix == [[0, 7, 0], [7, 0, 5], [0, 5, 0]]
    assert mended == ["merged 2 repeated edges, weights summed"]


def test_self_loops_are_dropped_and_counted():
    matrix, mended = _build([(0, 0), (0, 1), (2, 2)])
    assert matrix == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]
    assert mended == ["dropped 2 self loops"]


def test_no_edges_at_all_is_a_graph():
    matrix, mended = _build(np.empty((0, 2), dtype=np.int64))
    assert not np.any(matrix)
    assert mended == []


def test_booleans_and_unsigned_integers_become_int64():
    assert as_labels(np.array([True, False])).tolist() == [1, 0]
    assert as_labels(np.array([3, 4], dtype=np.uint8)).dtype == np.int64


def test_a_column_of_labels_is_flattened():
    assert as_labels([[1], [0]]).tolist() == [1, 0]


def test_objects_become_text_or_integers_with_gaps_marked():
    assert as_labels(np.array(["a", None], dtype=object)).tolist() == ["a", ""]
    assert as_labels(np.array([2, None], dtype=object)).tolist() == [2, -1]


def test_unlabelled_nodes_are_minus_one_or_empty_text():
    assert is_labelled(np.array([0, -1])).tolist() == [True, False]
    assert is_labelled(np.array(["a", ""])).tolist() == [True, False]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[0, 1], [1, 0]], r"one label per node, shape \(n,\); got shape \(2, 2\)"),
        ([0.5, 1.0], r"holds 0\.5 at node 0; classes must be whole"),
        ([np.inf, 1.0], "holds inf at node 0"),
        ([-1, 1, 1], "only -1 and 1"),
        (np.array(["a", 1], dtype=object), "mixes labels of types int, str"),
        (np.array([b"a"]), "must hold integers or strings"),
    ],
)
def test_unusable_labels_are_refused(values, message):
    with pytest.raises(DataError, match=message):
        as_labels(values)
