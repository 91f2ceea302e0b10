from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from gbgnn import Graph
from gbgnn import _arrays as arrays_module
from gbgnn.graph import labels_checksum

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
