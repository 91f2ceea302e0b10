from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import torch

from gbgnn import _arrays as arrays_module
from gbgnn.errors import GraphError
from gbgnn.graph import Graph
from gbgnn.labels import NodeSplit, as_nodes, labels_checksum
from gbgnn.tables import NodeTable, TableEncoder

TRIANGLE = np.ones((3, 3)) - np.eye(3)
FEATURES = np.arange(6.0).reshape(3, 2)


@pytest.mark.parametrize(
    "adjacency",
    [
        TRIANGLE,
        TRIANGLE.tolist(),
        TRIANGLE.astype(bool),
        sp.csr_matrix(TRIANGLE),
        sp.coo_array(TRIANGLE),
        torch.tensor(TRIANGLE),
        torch.tensor(TRIANGLE).to_sparse(),
    ],
    ids=["numpy", "lists", "bool", "csr_matrix", "coo_array", "torch", "torch_sparse"],
)
def test_graph_takes_any_kind_of_matrix(adjacency: object) -> None:
    graph = Graph(adjacency, torch.tensor(FEATURES))
    np.testing.assert_array_equal(graph.adjacency.toarray(), TRIANGLE)
    np.testing.assert_array_equal(graph.features, FEATURES)
    assert (graph.n_nodes, graph.n_edges, graph.n_features) == (3, 3, 2)
    assert not graph.is_directed
    assert not graph.is_weighted
    assert graph.repairs == ()


def test_graph_does_not_share_memory_and_cannot_be_changed() -> None:
    features = FEATURES.copy()
    graph = Graph(TRIANGLE, features)
    features[:] = 99
    assert graph.features.max() == 5
    with pytest.raises(ValueError, match="read-only"):
        graph.features[0, 0] = 1
    with pytest.raises(ValueError, match="read-only"):
        graph.adjacency.data[0] = 1


def test_graph_reports_what_it_repaired() -> None:
    doubled = sp.coo_array(([1.0, 1.0, 0.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    graph = Graph(doubled, [[1.0], [2.0]])
    assert graph.repairs == ("summed 1 repeated adjacency entries", "dropped 1 explicit zero weights")
    assert graph.adjacency[0, 1] == 2
    assert graph.is_weighted
    assert graph.is_directed


def test_graph_counts_loops_isolated_nodes_and_directed_edges() -> None:
    adjacency = np.zeros((4, 4))
    adjacency[0, 0] = adjacency[0, 1] = adjacency[1, 2] = 1
    graph = Graph(adjacency, np.ones((4, 1)))
    assert (graph.n_self_loops, graph.n_isolated, graph.n_edges) == (1, 1, 2)
    assert repr(graph) == "Graph(n_nodes=4, n_edges=2, n_features=1, directed)"


def test_sparse_features_stay_sparse() -> None:
    graph = Graph(TRIANGLE, sp.csr_array(FEATURES))
    assert sp.issparse(graph.features)
    normal = graph.with_row_normalized_features()
    assert sp.issparse(normal.features)
    np.testing.assert_allclose(normal.features.toarray().sum(axis=1), 1)


def test_graph_looks_like_no_table_to_scikit_learn() -> None:
    graph = Graph(TRIANGLE, FEATURES)
    assert not hasattr(graph, "__len__")
    assert not hasattr(graph, "shape")


def test_node_ids_are_kept() -> None:
    graph = Graph(TRIANGLE, FEATURES, node_ids=["a", "b", "c"])
    assert graph.node_ids.tolist() == ["a", "b", "c"]
    assert Graph(TRIANGLE, FEATURES).node_ids.tolist() == [0, 1, 2]


def test_split_from_masks() -> None:
    split = NodeSplit.from_masks([True, False, False], val=[False, True, False])
    assert (split.train.tolist(), split.val.tolist(), split.test.tolist()) == ([0], [1], [])
    split.check(3)
    with pytest.raises(GraphError, match="val holds node id 1, but the graph has 1 nodes"):
        split.check(1)


def test_nodes_may_be_a_column_or_whole_floats() -> None:
    assert as_nodes([[3], [1]]).tolist() == [3, 1]
    assert as_nodes(np.array([2.0, 0.0])).tolist() == [2, 0]
    assert as_nodes([]).tolist() == []
    assert as_nodes([1, 1], unique=False).tolist() == [1, 1]


@pytest.mark.parametrize("symmetric", [True, False])
def test_traits_agree_with_dense_arithmetic_over_many_blocks(
    symmetric: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrays_module, "_BLOCK", 8)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    rng = np.random.default_rng(1)
    for density in (0.02, 0.05, 0.3):
        dense = (rng.random((40, 40)) < density).astype(float)
        dense = np.maximum(dense, dense.T) if symmetric else dense
        graph = Graph(dense, np.ones((40, 1)))
        outside = dense * (1 - np.eye(40))
        assert graph.n_isolated == np.sum((outside.sum(0) == 0) & (outside.sum(1) == 0))
        assert graph.is_directed == (dense != dense.T).any()
        assert not graph.is_weighted
        assert Graph(2 * dense, np.ones((40, 1))).is_weighted


@pytest.mark.parametrize(
    "copier", [copy.copy, copy.deepcopy, lambda graph: pickle.loads(pickle.dumps(graph))]
)
@pytest.mark.parametrize("features", [FEATURES, sp.csr_array(FEATURES)], ids=["dense", "sparse"])
def test_copies_of_a_graph_are_read_only_and_keep_everything(copier: Any, features: Any) -> None:
    graph = Graph(TRIANGLE, features, node_ids=["a", "b", "c"], repairs=["mended"])
    twin = copier(graph)
    assert twin.node_ids.tolist() == ["a", "b", "c"]
    assert twin.repairs == ("mended",)
    assert twin.checksum == graph.checksum
    X = twin.features
    parts = [X.data, X.indices, X.indptr] if sp.issparse(X) else [X]
    matrix = twin.adjacency
    for array in (*parts, matrix.data, matrix.indices, matrix.indptr, twin.node_ids):
        assert not array.flags.writeable


DENSE = "6fd4eade10341abcfc6f36b619cc336baa4b4a66a0259c5f0075f5ace4b02e25"
SPARSE = "41dae735101932616cf79fbcf11a72a5cd71f2a02445e2884d115cf5fc4e503b"


def _graph(weight: float = 1.0, feature: float = 1.0, ids: list[str] | None = None) -> Graph:
    adjacency = np.array([[0.0, weight], [weight, 0.0]])
    return Graph(adjacency, [[feature], [2.0]], node_ids=ids)


def test_graph_checksum_sees_edges_features_and_ids() -> None:
    graphs = [_graph(), _graph(weight=2.0), _graph(feature=3.0), _graph(ids=["a", "b"])]
    assert len({graph.checksum for graph in graphs}) == 4
    assert _graph().checksum == _graph().checksum


def test_graph_checksum_reads_sparse_features() -> None:
    sparse = [Graph(np.zeros((2, 2)), sp.csr_array([[1.0, 0.0], [0.0, x]])) for x in (1.0, 2.0)]
    assert sparse[0].checksum != sparse[1].checksum


def test_labels_checksum_sees_nodes_and_labels_of_each_part() -> None:
    parts = [
        [([0, 1], [0, 1]), ([2], [0])],
        [([0, 1], [0, 1]), ([2], [1])],
        [([0, 1], [0, 1]), ([3], [0])],
        [([0, 1], ["0", "1"]), ([2], [0])],
    ]
    assert len({labels_checksum(part) for part in parts}) == 4


def test_a_checksum_of_an_earlier_version_is_still_right() -> None:
    # Run folders of earlier versions hold such digests: these were made at commit b73df73.
    dense = Graph([[0, 1], [1, 0]], [[1.0], [2.0]], node_ids=["a", "b"])
    sparse = Graph(np.array([[0, 0.5], [0.25, 0]], np.float32), sp.csr_array([[1.0, 0.0], [0.0, 3.0]]))
    assert dense.checksum == DENSE
    assert sparse.checksum == sparse.checksum == SPARSE


def test_the_checksum_does_not_depend_on_memory_layout() -> None:
    X = np.random.default_rng(0).random((6, 4))
    graphs = [Graph(np.eye(6), given) for given in (X, np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2])]
    assert len({graph.checksum for graph in graphs}) == 1


def test_the_checksum_does_not_depend_on_the_block_size(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).random((30, 3))
    for ids in (None, np.arange(30, dtype=np.int32), np.arange(30) / 7, [f"n{i}" for i in range(30)]):
        whole = Graph(np.ones((30, 30)), X, node_ids=ids).checksum
        with monkeypatch.context() as patch:
            patch.setattr(arrays_module, "_BLOCK", 7)
            assert Graph(np.ones((30, 30)), X, node_ids=ids).checksum == whole


PEOPLE = {"age": [31.0, None, 58.0], "city": ["Oslo", "Rome", "Oslo"], "same": [1, 1, 1]}
ENCODED = ("age", "age=missing", "city=Oslo", "city=Rome")


def test_features_may_be_a_table() -> None:
    for table in (PEOPLE, pd.DataFrame(PEOPLE), pl.DataFrame(PEOPLE), NodeTable(PEOPLE)):
        graph = Graph(TRIANGLE, table)
        assert (graph.features_from, graph.is_named) == ("table", True)
        assert graph.column_names == ("age", "city", "same")
        assert graph.feature_names == ENCODED
        assert graph.n_features == 4
        np.testing.assert_array_equal(graph.features, TableEncoder().fit_transform(PEOPLE))
        assert repr(graph) == "Graph(n_nodes=3, n_edges=3, n_columns=3)"
        with pytest.raises(ValueError, match="read-only"):
            graph.features[0, 0] = 1


def test_a_table_is_encoded_when_features_are_asked_for() -> None:
    graph = Graph(TRIANGLE, PEOPLE)
    assert graph.checksum
    assert repr(graph)
    assert "features" not in vars(graph)
    assert "encoder" not in vars(graph)
    assert graph.features is graph.features


def test_the_checksum_is_that_of_the_table() -> None:
    graph = Graph(TRIANGLE, PEOPLE)
    other = Graph(TRIANGLE, PEOPLE | {"same": [1, 1, 2]})
    assert graph.checksum == Graph(TRIANGLE, pd.DataFrame(PEOPLE)).checksum != other.checksum
    assert Graph(TRIANGLE, None).checksum != graph.checksum
    # Model files hold the checksum of a graph with a matrix.
    assert Graph(TRIANGLE, FEATURES, feature_names=["a", "b"]).checksum == Graph(TRIANGLE, FEATURES).checksum


def test_a_graph_with_a_table_survives_pickle() -> None:
    graph = Graph(TRIANGLE, PEOPLE)
    for _ in range(2):
        again = pickle.loads(pickle.dumps(graph))
        assert again.checksum == graph.checksum
        np.testing.assert_array_equal(again.features, graph.features)  # the second time they are in it


def test_columns_of_a_matrix_have_names() -> None:
    assert Graph(TRIANGLE, FEATURES).feature_names == ("x0", "x1")
    assert not Graph(TRIANGLE, FEATURES).is_named
    graph = Graph(TRIANGLE, FEATURES, feature_names=["height", "width"])
    assert graph.feature_names == graph.column_names == ("height", "width")
    assert graph.is_named
    assert graph.table is None
    assert graph.encoder is None
    assert graph.with_row_normalized_features().feature_names == ("height", "width")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a"], "feature_names has 1 names for 2 feature columns"),
        (["a", "a"], "feature_names holds 'a' twice"),
        (["a", 3], "feature_names holds 3; a name is text"),
        ("ab", "feature_names has 1 names for 2 feature columns"),
    ],
)
def test_names_of_columns_are_checked(names: Any, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        Graph(TRIANGLE, FEATURES, feature_names=names)


def test_a_table_has_names_and_a_row_per_node() -> None:
    with pytest.raises(GraphError, match="a table has names of its own"):
        Graph(TRIANGLE, PEOPLE, feature_names=["a", "b", "c"])
    with pytest.raises(GraphError, match="features has 3 rows but adjacency is 2 x 2"):
        Graph(np.eye(2), PEOPLE)


def test_without_features_the_edges_describe_nodes() -> None:
    path = np.diag(np.ones(4), 1) + np.diag(np.ones(4), -1)
    graph = Graph(path, None)
    assert repr(graph) == "Graph(n_nodes=5, n_edges=4, n_columns=5)"
    assert "table" not in vars(graph)
    assert graph.table is not None
    assert graph.column_names == graph.table.names
    assert graph.feature_names == ("log_degree", "neighbor_log_degree", "return_2", "return_4")  # no triangle
    assert graph.features.shape == (5, 4)
    assert graph.checksum == Graph(path, None).checksum


def test_another_graphs_encoder_makes_the_features_of_this_one() -> None:
    graph, other = Graph(TRIANGLE, PEOPLE), Graph(np.eye(1), {"city": ["Rome"], "age": [58.0]})
    assert graph.encode(None) is graph.encode(graph.encoder) is graph.features
    np.testing.assert_allclose(other.encode(graph.encoder), [[1, 0, 0, 1]])
    assert "encoder" not in vars(other)  # a node alone could not be encoded by itself


def test_neighbours_of_what_is_no_table() -> None:
    for features in (np.ones(3), 5.0):
        with pytest.raises(GraphError, match="features must be a matrix with one row per node"):
            Graph.from_neighbors(features)
