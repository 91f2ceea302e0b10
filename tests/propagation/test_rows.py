from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gbgnn.propagation import DenseRows, JoinedRows, Representation, SparseRows, as_rows
from gbgnn.propagation.rows import NORMS, SPARSE_BELOW

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.fixture(params=DEVICES, scope="module")
def device(request: pytest.FixtureRequest) -> str:
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("torch finds no CUDA device")
    return request.param


def both(X: sp.csr_array, device: str, dtype: torch.dtype) -> list[Representation]:
    return [
        DenseRows(torch.tensor(X.toarray(), dtype=dtype, device=device)),
        SparseRows.from_scipy(X, device, dtype),
    ]


@settings(max_examples=30)
@given(
    seed=st.integers(0, 10**6),
    n_rows=st.integers(1, 9),
    n_columns=st.integers(1, 7),
    density=st.floats(0, 1),
    n_bytes=st.integers(1, 300),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_dense_and_sparse_agree(
    device: str, seed: int, n_rows: int, n_columns: int, density: float, n_bytes: int, dtype: torch.dtype
) -> None:
    random = np.random.default_rng(seed)
    X = sp.random_array((n_rows, n_columns), density=density, rng=random, format="csr")
    expected = torch.tensor(X.toarray(), dtype=dtype, device=device)
    ids = torch.tensor(random.integers(0, n_rows, size=5), device=device)  # with repeats
    W = torch.randn(n_columns, 2, dtype=dtype, device=device)
    for rows in both(X, device, dtype):
        assert rows.shape == (n_rows, n_columns)
        assert rows.dtype == dtype
        assert rows.device == expected.device
        assert rows.nbytes > 0
        assert torch.equal(rows.dense(), expected)
        assert torch.equal(rows.rows(ids), expected[ids])
        assert rows.rows(ids[:0]).shape == (0, n_columns)
        assert torch.equal(torch.cat(list(rows.blocks(n_bytes))), expected)
        assert torch.equal(torch.cat(list(rows.blocks())), expected)
        products = [torch.mm(block, W) for block in rows.blocks(n_bytes, sparse=True)]
        torch.testing.assert_close(torch.cat(products), expected @ W)
        start = torch.randn(n_rows, n_columns, dtype=dtype, device=device)
        result = start.clone()
        assert rows.add_to_(result, alpha=-0.5) is result
        torch.testing.assert_close(result, start - 0.5 * expected)
        wide = torch.zeros(n_rows, n_columns + 3, dtype=dtype, device=device)
        rows.add_to_(wide[:, 1 : 1 + n_columns])
        assert torch.equal(wide[:, 1 : 1 + n_columns], expected)


def test_sparse_blocks_can_be_added_to() -> None:
    X = SparseRows.from_scipy(sp.csr_array([[0.0, 2.0], [1.0, 0.0], [0.0, 0.0]]))
    b, W = torch.tensor([10.0]), torch.tensor([[1.0], [2.0]])
    results = [torch.addmm(b, block, W) for block in X.blocks(sparse=True)]
    assert torch.cat(results).tolist() == [[14.0], [11.0], [10.0]]


def test_blocks_keep_to_their_bytes() -> None:
    X = DenseRows(torch.zeros(100, 8))
    assert [len(block) for block in X.blocks(n_bytes=32 * 30)] == [30, 30, 30, 10]
    assert X.dense() is X.tensor


@pytest.mark.parametrize("norm", [None, *NORMS])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_norms_bring_rows_to_length_one(norm: str | None, dtype: torch.dtype) -> None:
    random = np.random.default_rng(0)
    X = sp.random_array((30, 20), density=0.1, rng=random, format="csr")
    X.data -= 0.5
    X = sp.csr_array(X)
    sparse, dense = as_rows(X, dtype=dtype, norm=norm), as_rows(X.toarray(), dtype=dtype, norm=norm)
    assert isinstance(sparse, SparseRows)
    assert isinstance(dense, DenseRows)
    torch.testing.assert_close(sparse.dense(), dense.dense())
    if norm is not None:
        lengths = torch.linalg.vector_norm(dense.dense(), NORMS[norm], dim=1)
        empty = torch.tensor(np.diff(X.indptr) == 0)
        assert empty.any()
        torch.testing.assert_close(lengths, (~empty).to(dtype))


def test_crowded_features_become_dense() -> None:
    few = sp.random_array((40, 40), density=SPARSE_BELOW, rng=np.random.default_rng(0), format="csr")
    many = sp.random_array((40, 40), density=SPARSE_BELOW + 0.01, rng=np.random.default_rng(0), format="csr")
    assert isinstance(as_rows(few), SparseRows)
    assert isinstance(as_rows(many), DenseRows)
    assert isinstance(as_rows(np.zeros((4, 4))), DenseRows)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_read_only_features_are_copied_without_a_warning(is_sparse: bool) -> None:
    X = np.eye(20, dtype=np.float32)
    X = sp.csr_array(X) if is_sparse else X
    values = X.data if is_sparse else X
    for array in (X.data, X.indices, X.indptr) if is_sparse else (X,):
        array.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = as_rows(X, norm="l2")
    assert torch.equal(rows.dense(), torch.eye(20))
    values.flags.writeable = True
    values[:] = 7
    assert torch.equal(rows.dense(), torch.eye(20))


def test_other_layouts_and_entries_given_twice() -> None:
    assert as_rows(np.asfortranarray(np.arange(6.0).reshape(2, 3))).dense().tolist() == [[0, 1, 2], [3, 4, 5]]
    twice = sp.csr_array((np.array([1.0, 2.0]), np.array([1, 1]), np.array([0, 2])), shape=(1, 30))
    rows = as_rows(twice)
    assert rows.dense()[0, 1] == 3
    assert twice.nnz == 2
    assert as_rows(sp.coo_array(twice)).dense()[0, 1] == 3


def test_joined_rows_are_their_parts_side_by_side() -> None:
    random = np.random.default_rng(0)
    sparse = sp.random_array((7, 30), density=0.1, rng=random, format="csr")
    dense = random.normal(size=(7, 2))
    X = JoinedRows((as_rows(dense, dtype=torch.float64), as_rows(sparse, dtype=torch.float64)))
    wanted = torch.from_numpy(np.hstack([dense, sparse.toarray()]))
    assert X.shape == (7, 32)
    assert X.nbytes < wanted.nbytes
    assert (X.dtype, X.device.type, X.is_shared) == (torch.float64, "cpu", True)
    torch.testing.assert_close(X.dense(), wanted)
    ids = torch.tensor([3, 3, 0])
    torch.testing.assert_close(X.rows(ids), wanted[ids])
    blocks = list(X.blocks(600, sparse=True))
    assert [len(block) for block in blocks] == [2, 2, 2, 1]
    torch.testing.assert_close(torch.cat(blocks), wanted)
    torch.testing.assert_close(X.add_to_(torch.zeros_like(wanted), 2.0), 2 * wanted)
