from __future__ import annotations

import math

import pytest
import torch

from gbgnn.propagation import AugmentedAdjacency, NormalizedAdjacency, RandomWalk
from gbgnn_lab.baselines.data import TrainingData
from gbgnn_lab.baselines.layers import (
    Dense,
    GraphConvolution,
    MeanConvolution,
    PolynomialConvolution,
    ResidualConvolution,
    identity_strength,
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
    layer = ResidualConvolution(8, 0.2, identity_strength(0.5, number))
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
