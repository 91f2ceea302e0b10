from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gbgnn.aggregation import IDENTITY, InputInjection, MixingHop, PolynomialHop
from gbgnn.finetuning import representations
from gbgnn.finetuning.representations import MemoryPlan, RowTerms, dense_columns, hop_terms, polynomial_terms
from gbgnn.problem import NodeInputs, Problem
from gbgnn.propagation import DenseRows, SparseRows, spectral_interval

HOPS = [IDENTITY, InputInjection().hop(), PolynomialHop((0, 2), (0.5, -1.0))]


def mixing_hop() -> MixingHop:
    weight = torch.randn(5, 5, generator=torch.Generator().manual_seed(0)).double()
    return MixingHop.from_weight(weight, True, 0.5)


@settings(max_examples=25)
@given(st.booleans(), st.integers(1, 6), st.integers(1, 20), st.booleans())
def test_blocks_of_any_size_give_the_same_terms(
    three_classes: Problem, is_held: bool, n_columns: int, n_rows: int, is_chebyshev: bool
) -> None:
    inputs = three_classes.inputs
    terms = polynomial_terms(4, spectral_interval(inputs.P)) if is_chebyshev else hop_terms(lambda: HOPS)
    wanted = torch.stack([term.clone() for term in terms.stream(inputs)])
    ids = torch.tensor([3, 1, 39, 20, 7, 8, 2])
    rows = RowTerms(terms, inputs, ids, MemoryPlan(is_held, n_columns, n_rows))
    for positions in (slice(0, 7), slice(2, 5), torch.tensor([6, 0, 3])):
        parts = list(rows.parts(positions))
        assert all(part.shape[1] <= n_rows for _, part in parts)
        got = torch.cat([part for _, part in parts], dim=1)
        torch.testing.assert_close(got, wanted[:, ids[positions]], rtol=1e-13, atol=1e-14)
        places = torch.cat([torch.arange(7)[place] for place, _ in parts])
        assert torch.equal(places, torch.arange(7)[positions])


def test_hop_terms_are_the_representations_and_divide_unless_columns_are_mixed(
    three_classes: Problem,
) -> None:
    inputs = three_classes.inputs
    X, wanted = inputs.features, []
    for hop in HOPS:
        X = hop(X, inputs)
        wanted.append(X.dense())
    torch.testing.assert_close(torch.stack(list(hop_terms(lambda: HOPS).stream(inputs))), torch.stack(wanted))
    assert hop_terms(lambda: HOPS).is_divisible
    assert not hop_terms(lambda: [*HOPS, mixing_hop()]).is_divisible
    assert hop_terms(lambda: HOPS).n_terms == 3


@pytest.mark.parametrize("is_held", [True, False])
def test_held_terms_are_computed_once(three_classes: Problem, is_held: bool) -> None:
    calls = []

    terms = polynomial_terms(3, spectral_interval(three_classes.inputs.P))

    def stream(inputs: NodeInputs) -> Iterator[torch.Tensor]:
        calls.append(1)
        return terms.stream(inputs)

    counted = replace(terms, stream=stream)
    rows = RowTerms(counted, three_classes.inputs, torch.arange(6), MemoryPlan(is_held, 5, 3))
    for _ in range(2):
        list(rows.parts(slice(0, 6)))
    assert len(calls) == (1 if is_held else 4)


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
