from __future__ import annotations

import pytest
import torch

from gbgnn.aggregation import Adjacency, Identity, InputInjection, Lazy
from gbgnn.errors import ParameterError
from gbgnn.problem import InputRecipe
from gbgnn.propagation import DenseRows, RandomWalk
from gbgnn.testing import check_aggregation, path4


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
