from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import settings as budget
from hypothesis import strategies as st

from gbgnn.propagation import AugmentedAdjacency, NormalizedAdjacency, RandomWalk
from gbgnn_lab.baselines.data import TrainingData
from gbgnn_lab.baselines.layers import (
    Dense,
    DenseMatrix,
    GraphConvolution,
    MeanConvolution,
    PolynomialConvolution,
    ResidualConvolution,
    SparseMatrix,
    dropout,
)


def peers(name: str) -> object:
    return getattr(pytest.importorskip("torch_geometric.nn", reason="the layers' twins are its own"), name)


def close(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_graph_convolution_equals_the_dense_formula(given: TrainingData) -> None:
    layer = GraphConvolution(8, 4)
    torch.nn.init.normal_(layer.bias)
    A = torch.tensor(given.graph.adjacency.toarray(), dtype=torch.float32) + torch.eye(given.n_nodes)
    root = A.sum(dim=1).rsqrt()
    P = root[:, None] * A * root
    expected = P @ given.features.tensor @ layer.dense.weight + layer.bias
    close(layer(given.mixing(AugmentedAdjacency()), given.features), expected)


def test_graph_convolution_equals_its_twin(given: TrainingData) -> None:
    layer, twin = GraphConvolution(8, 4), peers("GCNConv")(8, 4)
    twin.lin.weight.data = layer.dense.weight.data.t()
    close(layer(given.mixing(AugmentedAdjacency()), given.features), twin(given.features.tensor, given.edges))


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_polynomial_convolution_equals_its_twin(given: TrainingData, degree: int) -> None:
    layer, twin = PolynomialConvolution(8, 4, degree), peers("TAGConv")(8, 4, K=degree)
    for ours, theirs in zip(layer.terms, twin.lins, strict=True):
        theirs.weight.data = ours.weight.data.t()
    close(
        layer(given.mixing(NormalizedAdjacency()), given.features), twin(given.features.tensor, given.edges)
    )


def test_mean_convolution_equals_its_twin(given: TrainingData) -> None:
    layer, twin = MeanConvolution(8, 4), peers("SAGEConv")(8, 4)
    torch.nn.init.normal_(layer.own.bias)
    twin.lin_l.weight.data, twin.lin_l.bias.data = layer.neighbours.weight.data.t(), layer.own.bias.data
    twin.lin_r.weight.data = layer.own.weight.data.t()
    close(layer(given.mixing(RandomWalk()), given.features), twin(given.features.tensor, given.edges))


@pytest.mark.parametrize("number", [1, 7])
def test_residual_convolution_equals_its_twin(given: TrainingData, number: int) -> None:
    layer = ResidualConvolution(8, 0.2, math.log(0.5 / number + 1))
    twin = peers("GCN2Conv")(8, alpha=0.2, theta=0.5, layer=number)
    twin.weight1.data = layer.weight.data
    H, start = given.features.tensor, torch.randn(given.n_nodes, 8)
    close(layer(given.mixing(AugmentedAdjacency()), H, start), twin(H, start, given.edges))


def test_dense_starts_as_glorot_said() -> None:
    torch.manual_seed(0)
    layer = Dense(300, 100).requires_grad_(False)
    bound = math.sqrt(6 / 400)
    assert float(layer.weight.abs().max()) <= bound
    assert float(layer.weight.std()) == pytest.approx(bound / math.sqrt(3), rel=0.02)
    assert not layer.bias.any()
    assert Dense(2, 3, bias=False).bias is None


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
