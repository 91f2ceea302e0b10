from __future__ import annotations

import subprocess
import sys

import numpy as np
import scipy.sparse as sp
import torch

from gbgnn.propagation import AugmentedAdjacency, Csr, Operator, Propagator
from gbgnn.propagation.propagator import TorchCsr, sparse_csr


def test_values_are_rounded_once() -> None:
    A = sp.csr_array((np.random.default_rng(0).random((20, 20)) < 0.3).astype(float))
    P = AugmentedAdjacency().build(A)
    matrix = P.to_scipy()
    product = Propagator(P, dtype=torch.float64, backend="torch")(torch.eye(20, dtype=torch.float64))
    np.testing.assert_allclose(product.numpy(), matrix.toarray(), rtol=1e-15)


def test_diagonal_is_held_only_where_there_is_one() -> None:
    edges = Csr.from_matrix(sp.csr_array(np.ones((3, 3))))
    assert len(TorchCsr(Operator(edges), torch.float64).tensors()) == 2
    assert len(TorchCsr(Operator(edges, identity=1.0), torch.float64).tensors()) == 3


def test_sparse_tensor_has_narrow_indices_of_one_type() -> None:
    tensor = sparse_csr(torch.tensor([0, 1, 2]), torch.tensor([1, 0]), torch.tensor([1.0, 2.0]), (2, 2))
    assert tensor.crow_indices().dtype == tensor.col_indices().dtype == torch.int32
    assert tensor.to_dense().tolist() == [[0, 1], [2, 0]]


def test_beta_warning_of_torch_is_not_heard() -> None:
    code = (
        "import warnings; warnings.simplefilter('error'); import torch, scipy.sparse as sp;"
        "from gbgnn.propagation import Propagator; Propagator(sp.eye_array(2), dtype=torch.float64)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
