from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gbgnn.propagation import Csr, operator
from gbgnn.propagation.operator import as_tensor

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("torch finds no CUDA device")
    return request.param


def matrices(
    seed: int, *, weighted: bool, shape: tuple[int, int] = (9, 7), density: float = 0.3
) -> sp.csr_array:
    random = np.random.default_rng(seed)
    A = sp.random_array(shape, density=density, rng=random, format="csr")
    return A if weighted else sp.csr_array((A > 0).astype(np.float32))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(9, 7), (3, 12), (1, 1)])
def test_sums_transpose_and_way_back(weighted: bool, shape: tuple[int, int], device: str) -> None:
    for seed in range(5):
        A = matrices(seed, weighted=weighted, shape=shape)
        M = Csr.from_scipy(A, device)
        dense = A.toarray().astype(np.float64)
        assert M.shape == shape
        assert M.n_entries == A.nnz
        assert M.device.type == device
        np.testing.assert_array_equal(M.to_scipy().toarray(), dense)
        np.testing.assert_array_equal(M.transpose().to_scipy().toarray(), dense.T)
        np.testing.assert_allclose(M.row_sums().cpu(), dense.sum(axis=1), rtol=1e-15)
        np.testing.assert_allclose(M.column_sums().cpu(), dense.sum(axis=0), rtol=1e-15)
        assert M.row_sums().dtype == M.column_sums().dtype == torch.float64
        rows = np.repeat(np.arange(shape[0]), np.diff(A.indptr))
        assert M.rows_of_entries().tolist() == rows.tolist()
        assert (M.to("cpu").to_scipy() != M.to_scipy()).nnz == 0


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), weighted=st.booleans(), density=st.floats(0, 1))
def test_sums_of_many_pieces_are_those_of_one(seed: int, weighted: bool, density: float) -> None:
    M = Csr.from_matrix(matrices(seed, weighted=weighted, shape=(40, 3), density=density))
    rows, columns = M.row_sums(), M.column_sums()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operator, "_PIECE", 5)
        torch.testing.assert_close(M.row_sums(), rows, rtol=1e-14, atol=0)
        torch.testing.assert_close(M.column_sums(), columns, rtol=1e-14, atol=0)


def test_patterns_have_no_values_and_narrow_columns() -> None:
    M = Csr.from_matrix(sp.csr_array(np.ones((3, 3), bool)))
    assert M.values is None
    assert (M.row_starts.dtype, M.columns.dtype) == (torch.int64, torch.int32)
    assert (len(M.row_starts), len(M.columns)) == (4, 9)
    assert Csr.from_matrix(M) is M
    assert Csr.from_matrix(sp.csr_array(np.full((2, 2), 3))).values.dtype == torch.float64  # of integers
    assert Csr.from_matrix(sp.csr_array((2, 2))).values is None


def test_memory_is_shared_and_read_only_arrays_give_no_warning() -> None:
    A = matrices(0, weighted=True)
    for array in (A.data, A.indices, A.indptr):
        array.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        M = Csr.from_scipy(A)
    assert M.columns.data_ptr() == A.indices.ctypes.data
    assert M.values.data_ptr() == A.data.ctypes.data


def test_a_tensor_keeps_the_memory_of_a_read_only_array() -> None:
    array = np.arange(1000.0)
    array.flags.writeable = False
    tensor = as_tensor(array)
    del array
    assert tensor.sum() == 999 * 500
    assert as_tensor(np.empty(0)).shape == (0,)


def test_single_precision_weights_are_summed_in_double() -> None:
    weights = np.zeros((2, 3), np.float32)
    weights[0] = 2**24, 1, 1
    assert Csr.from_matrix(sp.csr_array(weights)).row_sums().tolist() == [2**24 + 2, 0]
    assert Csr.from_matrix(sp.csr_array(weights.T)).column_sums().tolist() == [2**24 + 2, 0]
