from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gbgnn import SammeR
from gbgnn.aggregation import IDENTITY, InputInjection, MixingHop, PolynomialHop
from gbgnn.boosting import Ensemble
from gbgnn.finetuning import representations
from gbgnn.finetuning.network import MemoryPlan, MultiScaleNetwork
from gbgnn.finetuning.representations import FixedHops, dense_columns
from gbgnn.metrics import as_metric
from gbgnn.problem import NodeInputs, Problem
from gbgnn.propagation import DenseRows, SparseRows

HOPS = [IDENTITY, InputInjection().hop(), PolynomialHop((0, 2), (0.5, -1.0))]


def mixing_hop() -> MixingHop:
    weight = torch.randn(5, 5, generator=torch.Generator().manual_seed(0)).double()
    return MixingHop.from_weight(weight, True, 0.5)


@pytest.fixture(scope="module", params=["fixed", "free"])
def network(request, three_classes: Problem, boosted: Callable[..., Ensemble]) -> MultiScaleNetwork:
    """A network whose terms are representations, and one whose terms are Chebyshev's."""
    rule, moves = SammeR(), ("learners",) if request.param == "fixed" else ("aggregation",)
    ensemble = boosted(three_classes, InputInjection(), rule, 4)
    voting, loss = rule.voting_for(three_classes.task), rule.loss_for(three_classes.task)
    return MultiScaleNetwork(ensemble, three_classes, voting, loss, as_metric("accuracy"), moves=moves)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.booleans(), st.integers(1, 6), st.integers(1, 20))
def test_blocks_of_any_size_give_the_same_representations(
    three_classes: Problem, network: MultiScaleNetwork, is_held: bool, n_columns: int, n_rows: int
) -> None:
    wanted, X = [], three_classes.inputs.features
    for hop in network.hops.hops():
        X = hop(X, three_classes.inputs)
        wanted.append(X.rows(torch.arange(25)))
    coefficients = network.hops.coefficients(network.n_terms)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(network, "plan", MemoryPlan(is_held, n_columns, n_rows))
        patch.setattr(network, "_held", network._held if is_held else None)
        for positions in (slice(0, 7), slice(2, 5), torch.tensor([6, 0, 3])):
            parts = list(network._parts(positions, coefficients))
            assert all(part.shape[1] <= n_rows for _, part in parts)
            got = torch.cat([part for _, part in parts], dim=1)
            torch.testing.assert_close(got, torch.stack(wanted)[:, positions], rtol=1e-11, atol=1e-12)
            places = torch.cat([torch.arange(7)[place] for place, _ in parts])
            assert torch.equal(places, torch.arange(7)[positions])


def test_terms_of_fixed_hops_are_the_representations_and_divide_unless_columns_are_mixed(
    three_classes: Problem,
) -> None:
    inputs = three_classes.inputs
    X, wanted = inputs.features, []
    for hop in HOPS:
        X = hop(X, inputs)
        wanted.append(X.dense())
    hops = FixedHops(HOPS)
    assert hops.n_terms() == 3
    torch.testing.assert_close(torch.stack(list(hops.stream(inputs, 3))), torch.stack(wanted))
    assert hops.is_divisible
    assert not FixedHops([*HOPS, mixing_hop()]).is_divisible


@pytest.mark.parametrize("is_held", [True, False])
def test_held_terms_are_computed_once(network: MultiScaleNetwork, is_held: bool, monkeypatch) -> None:
    calls, usual = [], network.hops.stream

    def stream(inputs: NodeInputs, n_terms: int) -> Iterator[torch.Tensor]:
        calls.append(1)
        return usual(inputs, n_terms)

    monkeypatch.setattr(network.hops, "stream", stream)
    monkeypatch.setattr(
        "gbgnn.finetuning.network.plan_memory", lambda *_, **__: MemoryPlan(is_held, 5, n_rows=3)
    )
    network._plan_terms()
    for _ in range(2):
        list(network._parts(slice(0, 6), network.hops.coefficients(network.n_terms)))
    assert len(calls) == (1 if is_held else 4)
    monkeypatch.undo()
    network._plan_terms()


@pytest.mark.parametrize("columns", [slice(0, 4), slice(1, 3), slice(3, 9)], ids=str)
def test_columns_are_dense_and_in_one_piece_whatever_the_features(
    columns: slice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(representations, "_LEAST_BLOCK", 1)  # so that there are several blocks of rows
    matrix = sp.random_array((50, 4), density=0.3, rng=np.random.default_rng(0), format="csr")
    dense = torch.tensor(matrix.toarray())
    rows = SparseRows.from_scipy(matrix, dtype=torch.float64)
    assert len(list(rows.blocks(50 * 8))) > 1
    for features in (DenseRows(dense), rows):
        got = dense_columns(features, columns)
        assert got.is_contiguous()
        assert torch.equal(got, dense[:, columns])
    whole = dense_columns(DenseRows(dense), slice(0, 4))
    assert whole.data_ptr() == dense.data_ptr()  # all columns of a dense tensor are no copy
