from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from gbgnn.aggregation import PolynomialHop
from gbgnn.errors import ParameterError
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
    for free in (None, "coefficients", "share"):
        hop = PolynomialHop((0, 2), (0.1, 0.2), injection=0.3, alignment=0.9, free=free)
        record = json.loads(json.dumps(hop.record()))
        assert PolynomialHop.from_record(record, hop.state()) == hop


def test_record_of_before_there_was_a_say_has_nothing_free() -> None:
    record = PolynomialHop((1,), (1.0,), free="share").record()
    del record["free"]
    assert PolynomialHop.from_record(record, {}) == PolynomialHop((1,), (1.0,))


def test_only_what_can_be_moved_can_be_free() -> None:
    with pytest.raises(
        ParameterError,
        match="PolynomialHop.free must be one of coefficients, share; got 'shares'.*mean 'share'",
    ):
        PolynomialHop((1,), (1.0,), free="shares")
