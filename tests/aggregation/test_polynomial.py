from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gbgnn.aggregation import Adjacency, Identity, InputInjection, Lazy, PolynomialHop
from gbgnn.errors import ParameterError
from gbgnn.problem import InputRecipe, NodeInputs
from gbgnn.propagation import AugmentedAdjacency, DenseRows, Propagator, RandomWalk, SparseRows
from gbgnn.testing import check_aggregation, path4, two_blocks


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


@pytest.mark.parametrize(
    "aggregation",
    [Adjacency(), Identity(), Lazy(mixing=0.3), InputInjection(mixing=0.6)],
    ids=lambda part: type(part).__name__,
)
def test_aggregation_keeps_its_contract(aggregation: object) -> None:
    check_aggregation(aggregation)


# On the path 0 - 1 - 2 - 3 with features 1, 2, 4, 8 and P the random walk: P X = 2, 2.5, 5, 4.
@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [
        (Adjacency(), [2, 2.5, 5, 4]),
        (Identity(), [1, 2, 4, 8]),
        (Lazy(mixing=0.5), [1.5, 2.25, 4.5, 6]),
        (InputInjection(mixing=0.5), [1.5, 2.25, 4.5, 6]),
    ],
    ids=["adjacency", "identity", "lazy", "injection"],
)
def test_first_hop_by_hand(aggregation: object, expected: list[float]) -> None:
    inputs = InputRecipe(RandomWalk()).build(path4())
    mixed = aggregation.hop()(inputs.features, inputs).dense()
    assert mixed[:, 0].tolist() == expected


def test_lazy_and_injection_part_ways_at_the_second_hop() -> None:
    inputs = InputRecipe(RandomWalk()).build(path4())
    X = DenseRows(torch.tensor([[0.0], [0.0], [0.0], [4.0]]))
    lazy = Lazy(mixing=0.5).hop()(X, inputs).dense()
    injected = InputInjection(mixing=0.5).hop()(X, inputs).dense()
    assert lazy[:, 0].tolist() == [0, 0, 1, 2]
    assert injected[:, 0].tolist() == [0.5, 1, 3, 4]


def test_the_identity_hands_on_the_very_representation() -> None:
    inputs = InputRecipe(RandomWalk()).build(path4())
    assert Identity().hop()(inputs.features, inputs) is inputs.features


@pytest.mark.parametrize("mixing", [0.0, 0.4, 1.0])
def test_the_ratio_alone_is_free(mixing: float) -> None:
    assert Lazy(mixing=mixing).hop().free == InputInjection(mixing=mixing).hop().free == "share"
    assert Adjacency().hop().free is Identity().hop().free is None


@pytest.mark.parametrize("part", [Lazy(mixing=1.4), InputInjection(mixing=-0.1), Lazy(mixing=float("nan"))])
def test_mixing_is_checked(part: object) -> None:
    with pytest.raises(ParameterError, match=rf"{type(part).__name__}.mixing must be in \[0, 1\]; got"):
        part.check()
