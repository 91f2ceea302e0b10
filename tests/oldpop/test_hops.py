from __future__ import annotations

import numpy as np
import pytest
import torch
from gbgnn.population.hops import MixedHops, SharedHops, combine

from gbgnn.aggregation import IDENTITY, Adjacency, Identity, InputInjection, Lazy
from gbgnn.aggregation.fixed import FixedAggregation
from gbgnn.population import PopulationInputs
from gbgnn.testing import make_problem, two_blocks

PROBLEM = make_problem(*two_blocks(30), np.arange(8), np.arange(8, 20))
BOTH = torch.arange(2)


def representations(aggregation: FixedAggregation, n_rounds: int) -> list[torch.Tensor]:
    X, found = PROBLEM.inputs.features, []
    for t in range(1, n_rounds + 1):
        X = (IDENTITY if t == 1 else aggregation.hop())(X, PROBLEM.inputs)
        found.append(X.dense())
    return found


@pytest.mark.parametrize("aggregation", [Adjacency(), Identity()])
def test_shared_rows_are_those_of_the_hops(aggregation: FixedAggregation) -> None:
    inputs = PopulationInputs(PROBLEM)
    hops = SharedHops(inputs, is_moving=isinstance(aggregation, Adjacency))
    for t, X in enumerate(representations(aggregation, 5), start=1):
        hops.advance(t, BOTH)
        assert hops.is_shared
        assert torch.equal(hops.rows(BOTH)[:, :5], X[inputs.nodes])
    assert hops.coefficients(0) == []


@pytest.mark.parametrize("kind", [InputInjection, Lazy])
@pytest.mark.parametrize("mixing", [(0.0, 1.0), (0.3, 0.85)])
def test_mixed_rows_are_those_of_the_hops(kind: type[FixedAggregation], mixing: tuple[float, float]) -> None:
    inputs = PopulationInputs(PROBLEM)
    hops = MixedHops(inputs, torch.tensor(mixing, dtype=torch.float64), is_injecting=kind is InputInjection)
    alone = [representations(kind(mixing=each), 6) for each in mixing]
    for t in range(1, 7):
        hops.advance(t, BOTH)
        assert not hops.is_shared
        torch.testing.assert_close(hops.powers.sum(dim=1), torch.ones(2, dtype=torch.float64))
        for i in (0, 1):
            mine = hops.rows(torch.tensor([i]))[0, :, :5]
            torch.testing.assert_close(mine, alone[i][t - 1][inputs.nodes], rtol=1e-12, atol=1e-14)
    several = hops.rows(torch.tensor([1, 0, 1]))
    assert torch.equal(several[0], several[2])
    assert not torch.equal(several[0], several[1])


def test_combinations_have_the_shape_of_the_coefficients() -> None:
    random = torch.Generator().manual_seed(0)
    coefficients = torch.randn(2, 3, 4, generator=random, dtype=torch.float64)
    terms = torch.randn(4, 5, 6, generator=random, dtype=torch.float64)
    expected = torch.einsum("abk,kij->abij", coefficients, terms)
    torch.testing.assert_close(combine(coefficients, terms), expected)
    torch.testing.assert_close(combine(coefficients, terms[:, 1:3]), expected[:, :, 1:3])
    assert combine(coefficients, terms.float()).dtype == torch.float32
