"""What needs no GPU; test_base.py compares the products where there is one."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gbgnn.propagation import AugmentedAdjacency, Propagator
from gbgnn.propagation.propagator import able_backends
from gbgnn.propagation.triton_pattern import TritonPattern


def test_a_gpu_and_triton_are_needed() -> None:
    assert "triton" not in able_backends(torch.device("cpu"), torch.float32)
    there = find_spec("triton") is not None
    assert ("triton" in able_backends(torch.device("cuda"), torch.float32)) == there
    assert "triton" not in able_backends(torch.device("cuda"), torch.int64)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_only_scalings_are_held(dtype: torch.dtype) -> None:
    operator = AugmentedAdjacency().build(sp.csr_array(np.ones((8, 8))))
    left, right, terms = TritonPattern(operator, dtype).tensors()
    assert len(left) == len(right) == 8
    assert terms.tolist() == [1, 0]
    assert left.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device")
def test_gpu_agrees_with_cpu_on_rows_of_very_unequal_length() -> None:
    random = np.random.default_rng(0)
    rows = (random.pareto(1.0, 200_000) * 100).astype(int) % 5_000
    A = sp.csr_array((np.ones(200_000), (rows, random.integers(0, 5_000, 200_000))), shape=(5_000, 5_000))
    operator = AugmentedAdjacency().build((A > 0).astype(np.float32))
    X = torch.randn(5_000, 70)
    P = Propagator(operator, "cuda")
    assert P.backend == "triton"
    torch.testing.assert_close(P(X.cuda()).cpu(), Propagator(operator)(X), rtol=1e-4, atol=1e-5)
    assert torch.equal(P(X.cuda()), P(X.cuda()))
