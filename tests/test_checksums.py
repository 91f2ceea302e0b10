from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from gbgnn import Graph
from gbgnn._checksums import graph_checksum, labels_checksum


def _graph(weight: float = 1.0, feature: float = 1.0, ids: list[str] | None = None) -> Graph:
    adjacency = np.array([[0.0, weight], [weight, 0.0]])
    return Graph(adjacency, [[feature], [2.0]], node_ids=ids)


def test_graph_checksum_sees_edges_features_and_ids() -> None:
    graphs = [_graph(), _graph(weight=2.0), _graph(feature=3.0), _graph(ids=["a", "b"])]
    assert len({graph_checksum(graph) for graph in graphs}) == 4
    assert graph_checksum(_graph()) == graph_checksum(_graph())


def test_graph_checksum_reads_sparse_features() -> None:
    sparse = [Graph(np.zeros((2, 2)), sp.csr_array([[1.0, 0.0], [0.0, x]])) for x in (1.0, 2.0)]
    assert graph_checksum(sparse[0]) != graph_checksum(sparse[1])


def test_labels_checksum_sees_nodes_and_labels_of_each_part() -> None:
    parts = [
        [([0, 1], [0, 1]), ([2], [0])],
        [([0, 1], [0, 1]), ([2], [1])],
        [([0, 1], [0, 1]), ([3], [0])],
        [([0, 1], ["0", "1"]), ([2], [0])],
    ]
    assert len({labels_checksum(part) for part in parts}) == 4
