from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gbgnn.aggregation import PolynomialHop
from gbgnn.errors import ParameterError
from gbgnn.problem import NodeInputs
from gbgnn.propagation import AugmentedAdjacency, DenseRows, Propagator, SparseRows
from gbgnn.testing import two_blocks


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize(
    ("powers", "coefficients"),
    [((0, 1, 4), (0.5, -2.0, 3.0)), ((0,), (0.5,)), ((1,), (1.0,)), ((2,), (0.5,)), ((0, 1), (0.0, 1.0))],
)
def test_hop_equals_the_dense_polynomial_and_leaves_its_input_alone(
    powers: tuple[int, ...], coefficients: tuple[float, ...], is_sparse: bool
) -> None:
    graph, _ = two_blocks(20)
    recipe = AugmentedAdjacency().build(graph.adjacency)
    P, features = torch.tensor(recipe.toarray()), torch.tensor(graph.features)[:, :3]
    X = torch.tensor(np.random.default_rng(1).normal(size=(20, 3)))
    kind = (lambda Z: SparseRows.from_scipy(sp.csr_array(Z), dtype=torch.float64)) if is_sparse else DenseRows
    inputs = NodeInputs(kind(features), Propagator(recipe, dtype=torch.float64))
    given = kind(X.clone())
    mixed = PolynomialHop(powers, coefficients, injection=0.25)(given, inputs).dense()
    expected = 0.25 * features
    for power, coefficient in zip(powers, coefficients, strict=True):
        expected = expected + coefficient * torch.linalg.matrix_power(P, power) @ X
    torch.testing.assert_close(mixed, expected)
    assert torch.equal(given.dense(), X)
    assert torch.equal(inputs.features.dense(), features)


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
