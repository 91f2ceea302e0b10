from __future__ import annotations

import math
from dataclasses import replace

import pytest
import scipy.sparse as sp
import torch

from gbgnn.datasets import Dataset
from gbgnn.graph import Graph
from gbgnn.propagation import AugmentedAdjacency, NormalizedAdjacency, RandomWalk
from gbgnn_lab.baselines.base import Network, NetworkModel
from gbgnn_lab.baselines.convolutional import (
    GCN,
    GCNII,
    TAGCN,
    Dense,
    GraphConvolution,
    GraphSAGE,
    JKNet,
    MeanConvolution,
    PolynomialConvolution,
    ResidualConvolution,
)
from gbgnn_lab.baselines.data import TrainingData
from gbgnn_lab.baselines.propagating import APPNP, MLP

MODELS = [GCN(), TAGCN(), GraphSAGE(), JKNet(), GCNII(depth=3, units=8), APPNP(depth=3), MLP()]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_sparse_features_train_as_dense_ones_do(small: Dataset, model: NetworkModel) -> None:
    """Without dropout, which draws for what is there."""
    still = {"dropout": 0.0, "epochs": 8} | ({"edge_dropout": 0.0} if hasattr(model, "edge_dropout") else {})
    graph = Graph(small.graph.adjacency, sp.csr_array(small.graph.features))
    scores = []
    for data in (small, replace(small, graph=graph)):
        torch.manual_seed(0)
        scores.append(replace(model, **still).fit(TrainingData.from_dataset(data)).scores)
    torch.testing.assert_close(scores[0], scores[1], rtol=1e-3, atol=1e-4)


def test_gcn_equals_the_formula_of_its_paper(given: TrainingData) -> None:
    network = Network(GCN(units=5), given).eval()
    first, second = network.layers
    P = given.mixing(AugmentedAdjacency()).tensor.to_dense()
    hidden = (P @ given.features @ first.dense.weight).relu()
    torch.testing.assert_close(network(), P @ hidden @ second.dense.weight, rtol=1e-4, atol=1e-5)


def test_jumping_network_reads_all_layers(given: TrainingData) -> None:
    network = Network(JKNet(depth=4, units=5), given).eval()
    assert network.head.weight.shape == (20, 3)
    for i in range(4):
        before = network()
        with torch.no_grad():
            network.head.weight[5 * i : 5 * i + 5] += 1
        assert not torch.equal(network(), before)


def test_gcnii_penalises_hops_and_linear_layers_apart(given: TrainingData) -> None:
    model = GCNII(depth=3, units=8)
    hops, linear = model.groups(Network(model, given))
    assert (hops[1], linear[1]) == (0.01, 5e-4)
    assert [p.numel() for p in hops[0]] == [64, 64, 64]
    assert [p.numel() for p in linear[0]] == [64, 8, 24, 3]


def test_dropout_is_for_training_alone(given: TrainingData) -> None:
    for model in MODELS:
        network = Network(model, given)
        assert not torch.equal(network(), network())
        network.eval()
        assert torch.equal(network(), network())


def peers(name: str) -> object:
    return getattr(pytest.importorskip("torch_geometric.nn", reason="the layers' twins are its own"), name)


def close(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_graph_convolution_equals_the_dense_formula(given: TrainingData) -> None:
    layer = GraphConvolution(8, 4)
    torch.nn.init.normal_(layer.bias)
    A = torch.tensor(given.graph.adjacency.toarray(), dtype=torch.float32) + torch.eye(given.graph.n_nodes)
    root = A.sum(dim=1).rsqrt()
    P = root[:, None] * A * root
    expected = P @ given.features @ layer.dense.weight + layer.bias
    close(layer(given.mixing(AugmentedAdjacency()), given.features), expected)


def test_graph_convolution_equals_its_twin(given: TrainingData) -> None:
    layer, twin = GraphConvolution(8, 4), peers("GCNConv")(8, 4)
    twin.lin.weight.data = layer.dense.weight.data.t()
    close(layer(given.mixing(AugmentedAdjacency()), given.features), twin(given.features, given.edges))


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_polynomial_convolution_equals_its_twin(given: TrainingData, degree: int) -> None:
    layer, twin = PolynomialConvolution(8, 4, degree), peers("TAGConv")(8, 4, K=degree)
    for ours, theirs in zip(layer.terms, twin.lins, strict=True):
        theirs.weight.data = ours.weight.data.t()
    close(layer(given.mixing(NormalizedAdjacency()), given.features), twin(given.features, given.edges))


def test_mean_convolution_equals_its_twin(given: TrainingData) -> None:
    layer, twin = MeanConvolution(8, 4), peers("SAGEConv")(8, 4)
    torch.nn.init.normal_(layer.own.bias)
    twin.lin_l.weight.data, twin.lin_l.bias.data = layer.neighbours.weight.data.t(), layer.own.bias.data
    twin.lin_r.weight.data = layer.own.weight.data.t()
    close(layer(given.mixing(RandomWalk()), given.features), twin(given.features, given.edges))


@pytest.mark.parametrize("number", [1, 7])
def test_residual_convolution_equals_its_twin(given: TrainingData, number: int) -> None:
    layer = ResidualConvolution(8, 0.2, math.log(0.5 / number + 1))
    twin = peers("GCN2Conv")(8, alpha=0.2, theta=0.5, layer=number)
    twin.weight1.data = layer.weight.data
    H, start = given.features, torch.randn(given.graph.n_nodes, 8)
    close(layer(given.mixing(AugmentedAdjacency()), H, start), twin(H, start, given.edges))


def test_dense_starts_as_glorot_said() -> None:
    torch.manual_seed(0)
    layer = Dense(300, 100).requires_grad_(False)
    bound = math.sqrt(6 / 400)
    assert float(layer.weight.abs().max()) <= bound
    assert float(layer.weight.std()) == pytest.approx(bound / math.sqrt(3), rel=0.02)
    assert not layer.bias.any()
    assert Dense(2, 3, bias=False).bias is None
