from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gbgnn.propagation import Propagator


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_product_equals_the_dense_one(dtype: torch.dtype) -> None:
    random = np.random.default_rng(0)
    P = sp.random_array((50, 50), density=0.1, rng=random, format="csr")
    X = torch.tensor(random.normal(size=(50, 7)), dtype=dtype)
    dense = torch.tensor(P.toarray(), dtype=dtype) @ X
    torch.testing.assert_close(Propagator(P, dtype=dtype)(X), dense)


def test_unsorted_columns_and_empty_rows_are_fine() -> None:
    P = sp.csr_array((np.array([1.0, 2.0]), np.array([2, 0]), np.array([0, 2, 2, 2])), shape=(3, 3))
    result = Propagator(P)(torch.tensor([[1.0], [10.0], [100.0]]))
    assert result.tolist() == [[102.0], [0.0], [0.0]]


def test_memory_grows_with_edges_not_with_nodes_squared() -> None:
    n_nodes = 200_000
    P = Propagator(sp.eye_array(n_nodes, format="csr"))
    assert P.n_nodes == n_nodes
    assert P.nbytes <= 12 * n_nodes + 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_matrix_comes_back_and_transposes(dtype: torch.dtype) -> None:
    matrix = sp.csr_array([[0.0, 0.25, 0.5], [0.0, 0.0, 0.0], [2.0, 0.0, 1.0]])
    P = Propagator(matrix, dtype=dtype)
    assert P.dtype == dtype
    assert (P.to_scipy() != matrix).nnz == 0
    X = torch.eye(3, dtype=dtype)
    assert torch.equal(P.transpose()(X), P(X).T)
