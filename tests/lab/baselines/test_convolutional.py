from __future__ import annotations

from dataclasses import replace

import pytest
import scipy.sparse as sp
import torch

from gbgnn.datasets import Dataset
from gbgnn.graph import Graph
from gbgnn.propagation import AugmentedAdjacency
from gbgnn_lab.baselines.base import Network, NetworkModel
from gbgnn_lab.baselines.convolutional import GCN, GCNII, TAGCN, GraphSAGE, JKNet
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
        scores.append(replace(model, **still).fit(TrainingData.from_dataset(data)[0]).scores)
    torch.testing.assert_close(scores[0], scores[1], rtol=1e-3, atol=1e-4)


def test_gcn_equals_the_formula_of_its_paper(given: TrainingData) -> None:
    network = Network(GCN(units=5), given).eval()
    first, second = network.layers
    P = given.mixing(AugmentedAdjacency()).tensor.to_dense()
    hidden = (P @ given.features.tensor @ first.dense.weight).relu()
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
