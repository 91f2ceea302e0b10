from __future__ import annotations

import numpy as np
import torch

from gbgnn.aggregation import PolynomialHop
from gbgnn.problem import NodeInputs
from gbgnn.propagation import AugmentedAdjacency
from gbgnn.testing import two_blocks


def test_hop_equals_the_dense_polynomial() -> None:
    graph, _ = two_blocks(20)
    inputs = NodeInputs.from_graph(graph, AugmentedAdjacency(), dtype=torch.float64)
    P = torch.tensor(AugmentedAdjacency().build(graph.adjacency).toarray())
    X = torch.tensor(np.random.default_rng(1).normal(size=(20, 3)))
    inputs = NodeInputs(inputs.features[:, :3].contiguous(), inputs.P)
    hop = PolynomialHop((0, 1, 4), (0.5, -2.0, 3.0), injection=0.25)
    expected = 0.5 * X - 2 * P @ X + 3 * torch.linalg.matrix_power(P, 4) @ X + 0.25 * inputs.features
    torch.testing.assert_close(hop(X, inputs), expected)


def test_record_round_trips() -> None:
    hop = PolynomialHop((0, 2), (0.1, 0.2), injection=0.3, alignment=0.9)
    assert PolynomialHop.from_record(hop.record(), hop.state()) == hop
