from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import settings as budget
from hypothesis import strategies as st

from gbgnn_lab.baselines.matrices import DenseMatrix, SparseMatrix, dropout


def drawn(seed: int, n_rows: int = 7, n_columns: int = 5, density: float = 0.4) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    return sp.random_array((n_rows, n_columns), density=density, format="csr", rng=rng)


@given(st.integers(0, 10**6), st.floats(0, 1), st.sampled_from([0.0, 0.5]))
@budget(max_examples=25)
def test_sparse_product_and_gradient_equal_the_dense_ones(seed: int, density: float, share: float) -> None:
    plain = drawn(seed, density=density)
    torch.manual_seed(seed)
    matrix = SparseMatrix.from_scipy(plain).dropped(share)
    dense = matrix.tensor.to_dense()
    right = torch.randn(5, 3)
    slopes = torch.randn(7, 3)
    grads = []
    for left in (matrix, DenseMatrix(dense)):
        leaf = right.clone().requires_grad_()
        product = left @ leaf
        torch.testing.assert_close(product, dense @ right)
        grads.append(torch.autograd.grad((product * slopes).sum(), leaf)[0])
    torch.testing.assert_close(grads[0], grads[1])
    torch.testing.assert_close(matrix.transposed.to_dense(), dense.t())


def test_without_dropout_the_matrix_is_as_it_came() -> None:
    plain = drawn(0)
    np.testing.assert_allclose(SparseMatrix.from_scipy(plain).tensor.to_dense(), plain.toarray(), rtol=1e-6)
    assert SparseMatrix.from_scipy(plain).n_columns == 5
    assert DenseMatrix(torch.ones(2, 3)).n_columns == 3


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_dropout_keeps_the_mean_and_silences_a_share(kind: str) -> None:
    torch.manual_seed(0)
    ones = torch.ones(400, 100)
    matrix = DenseMatrix(ones) if kind == "dense" else SparseMatrix.from_scipy(sp.csr_array(ones.numpy()))
    dropped = matrix.dropped(0.6).tensor.to_dense()
    assert sorted(dropped.unique().tolist()) == pytest.approx([0, 2.5])
    assert float((dropped == 0).float().mean()) == pytest.approx(0.6, abs=0.01)
    assert matrix.dropped(0.0).tensor.to_dense().equal(ones)


def test_dropout_passes_gradients_where_it_passes_values() -> None:
    torch.manual_seed(0)
    X = torch.ones(50, requires_grad=True)
    kept = dropout(X, 0.5)
    assert torch.autograd.grad(kept.sum(), X)[0].equal(kept.detach())
    assert dropout(X, 0.0) is X
