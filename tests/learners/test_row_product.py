from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gbgnn._threads import one_thread
from gbgnn.learners import row_product
from gbgnn.learners.row_product import RowProduct
from gbgnn.propagation import DenseRows, SparseRows


def make_rows(n_rows: int, n_columns: int, *, is_sparse: bool, seed: int = 0) -> Any:
    X = sp.random(n_rows, n_columns, 0.2, random_state=seed, format="csr", dtype=np.float64)
    if is_sparse:
        return SparseRows.from_scipy(X, dtype=torch.float64)
    return DenseRows(torch.from_numpy(X.toarray()))


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 40), st.integers(1, 30), st.integers(1, 3), st.booleans(), st.sampled_from([1, 5, 10**6])
)
def test_products_are_those_of_whole_matrices(
    n_rows: int, n_columns: int, units: int, is_sparse: bool, entries: int
) -> None:
    before, row_product._ENTRIES = row_product._ENTRIES, entries
    try:
        rows = make_rows(n_rows, n_columns, is_sparse=is_sparse)
        times, X = RowProduct(rows), rows.dense()
        weight = torch.randn(n_columns, units, dtype=torch.float64, requires_grad=True)
        told = torch.randn(n_rows, units, dtype=torch.float64)
        product = times(weight)
        torch.testing.assert_close(product, X @ weight)
        torch.testing.assert_close(torch.autograd.grad(product, weight, told)[0], X.T @ told)
        torch.testing.assert_close(times.transposed(told), X.T @ told)
    finally:
        row_product._ENTRIES = before


@pytest.mark.parametrize("is_sparse", [False, True])
def test_any_number_of_threads_gives_the_same_bytes(
    monkeypatch: pytest.MonkeyPatch, *, is_sparse: bool
) -> None:
    monkeypatch.setattr(row_product, "_ENTRIES", 2**13)
    rows = make_rows(3000, 700, is_sparse=is_sparse)
    weight = torch.randn(700, 64, dtype=torch.float64)
    found, before = [], torch.get_num_threads()
    try:
        for n in (1, 4):
            torch.set_num_threads(n)
            with one_thread():
                times = RowProduct(rows)
                found.append((times(weight), times.transposed(times(weight))))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def test_a_thread_keeps_no_gradient_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_product, "_ENTRIES", 2**13)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        weight = torch.randn(700, 2000, dtype=torch.float64, requires_grad=True)
        product = RowProduct(make_rows(3000, 700, is_sparse=True))(weight)
    finally:
        torch.set_num_threads(before)
    assert type(product.grad_fn).__name__ == "_ProductBackward"
    assert product.grad_fn.next_functions[0][0].variable is weight
