from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gbgnn.graph import Graph
from gbgnn.problem import LabelledNodes, NodeInputs
from gbgnn.propagation import AugmentedAdjacency


def test_sparse_features_become_dense_on_the_device() -> None:
    X = np.array([[1.0, 0.0], [0.0, 2.0]])
    inputs = NodeInputs.from_graph(Graph(np.eye(2), sp.csr_array(X)), AugmentedAdjacency())
    assert inputs.features.tolist() == X.tolist()
    assert inputs.features.dtype == torch.float32
    assert inputs.n_nodes == 2


def test_features_are_a_copy_that_cannot_reach_the_graph() -> None:
    graph = Graph(np.eye(2), np.ones((2, 1), np.float32))
    NodeInputs.from_graph(graph, AugmentedAdjacency()).features.fill_(7)
    assert graph.features.max() == 1


@pytest.mark.parametrize(("norm", "row"), [("l1", [-0.25, 0.75]), ("l2", [-1 / 10**0.5, 3 / 10**0.5])])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_rows_have_length_one_and_zeros_stay(kind: Any, norm: str, row: list[float]) -> None:
    graph = Graph(np.eye(3), kind(np.array([[-1.0, 3.0], [0.0, 0.0], [-2e9, 6e9]])))
    found = NodeInputs.from_graph(graph, AugmentedAdjacency(), norm=norm).features
    np.testing.assert_allclose(found, [row, [0, 0], row], rtol=1e-6)


def test_weights_sum_to_one() -> None:
    uniform = LabelledNodes.build(np.array([3, 1]), np.array([0, 1]))
    assert uniform.weights.tolist() == [0.5, 0.5]
    weighted = LabelledNodes.build(np.array([3, 1]), np.array([0, 1]), np.array([1.0, 3.0]))
    assert weighted.weights.tolist() == [0.25, 0.75]
    assert weighted.size == 2
