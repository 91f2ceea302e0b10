from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gbgnn.errors import ParameterError
from gbgnn.propagation import AugmentedAdjacency, NormalizedLaplacian, Propagator, RandomWalk


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
    assert P.nbytes <= 16 * n_nodes + 100  # row starts, those per block, and columns
    weighted = Propagator(2 * sp.eye_array(n_nodes, format="csr", dtype=np.float32))
    assert weighted.nbytes <= 20 * n_nodes + 100


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_matrix_comes_back_and_transposes(dtype: torch.dtype) -> None:
    matrix = sp.csr_array([[0.0, 0.25, 0.5], [0.0, 0.0, 0.0], [2.0, 0.0, 1.0]])
    P = Propagator(matrix, dtype=dtype)
    assert P.dtype == dtype
    assert P.device == torch.device("cpu")
    assert (P.to_scipy() != matrix).nnz == 0
    X = torch.eye(3, dtype=dtype)
    assert torch.equal(P.transpose()(X), P(X).T)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("recipe", [AugmentedAdjacency(), RandomWalk(), NormalizedLaplacian()], ids=str)
def test_transpose_and_renamed_nodes(recipe: AugmentedAdjacency, dtype: torch.dtype) -> None:
    random = np.random.default_rng(0)
    A = sp.csr_array((random.random((30, 30)) < 0.2).astype(float))
    P = Propagator(recipe.build(A), dtype=dtype)
    X = torch.tensor(random.normal(size=(30, 4)), dtype=dtype)
    dense = torch.tensor(P.operator.toarray(), dtype=dtype)
    torch.testing.assert_close(P.transpose()(X), dense.T @ X)
    order = random.permutation(30)
    renamed = Propagator(recipe.build(A[order][:, order]), dtype=dtype)
    torch.testing.assert_close(renamed(X[order]), P(X)[order])


def test_rule_picks_the_kernel_and_a_name_overrides_it() -> None:
    matrix = sp.eye_array(2, format="csr")
    assert Propagator(matrix).backend == "bag"
    assert Propagator(matrix, dtype=torch.float64).backend == "torch"
    assert Propagator(matrix, backend="torch").backend == "torch"
    assert Propagator(matrix, backend="torch").transpose().backend == "torch"
    with pytest.raises(ParameterError, match=r"Propagator.backend must be one of auto, triton, bag, torch"):
        Propagator(matrix, backend="bags")
    for backend, dtype in (("bag", torch.float64), ("triton", torch.float32), ("auto", torch.int64)):
        with pytest.raises(ParameterError, match=f"No backend of P computes products in {dtype} on cpu"):
            Propagator(matrix, dtype=dtype, backend=backend)


@pytest.mark.parametrize(
    "X", [torch.ones(2, 1), torch.ones(4, 1), torch.ones(3), torch.ones(3, 1, dtype=torch.float64)]
)
def test_rows_that_do_not_fit_are_refused(X: torch.Tensor) -> None:
    with pytest.raises(ParameterError, match=r"P multiplies 3 rows of torch.float32 on cpu; got a tensor of"):
        Propagator(sp.eye_array(3, format="csr"))(X)
