from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gbgnn.datasets import Dataset
from gbgnn.graph import Graph
from gbgnn.labels import NodeSplit
from gbgnn.propagation import AugmentedAdjacency, NormalizedAdjacency
from gbgnn.tasks import Regression
from gbgnn_lab.baselines.base import Network
from gbgnn_lab.baselines.data import TrainingData, split_hops
from gbgnn_lab.baselines.heterophilous import GPRGNN, H2GCN, LINKX
from gbgnn_lab.baselines.searching import SearchedModel

GPR = GPRGNN(restart=0.2, output_dropout=0.0, dropout=0.0, learning_rate=0.01, depth=4, epochs=30)
H2 = H2GCN(depth=2, dropout=0.0, weight_decay=0.0, units=8, epochs=30)
LINK = LINKX(layers=2, dropout=0.0, learning_rate=0.01, units=16, epochs=30)


def as_array(matrix: Any) -> torch.Tensor:
    return torch.tensor(matrix.toarray(), dtype=torch.float32)


def test_gprgnn_starts_as_personalised_pagerank(given: TrainingData) -> None:
    network: Any = Network(GPR, given).eval()
    np.testing.assert_allclose(network.weights.detach(), [0.2, 0.16, 0.128, 0.1024, 0.4096], rtol=1e-6)
    start = network.perceptron(network.X)
    H = start
    P = as_array(AugmentedAdjacency().build(given.graph.adjacency))
    for _ in range(4):
        H = 0.8 * P @ H + 0.2 * start
    torch.testing.assert_close(network(), H, rtol=1e-4, atol=1e-5)


def test_gprgnn_is_a_polynomial_with_any_weights(given: TrainingData) -> None:
    network: Any = Network(GPR, given).eval()
    with torch.no_grad():
        network.weights.copy_(torch.tensor([0.3, -1.0, 0.0, 2.0, -0.5]))
    P = as_array(AugmentedAdjacency().build(given.graph.adjacency))
    powers = [torch.linalg.matrix_power(P, power) for power in range(5)]
    total = sum(weight * power for weight, power in zip(network.weights, powers, strict=True))
    torch.testing.assert_close(network(), total @ network.perceptron(network.X), rtol=1e-4, atol=1e-4)


def test_weights_of_powers_are_learned_without_a_penalty(given: TrainingData) -> None:
    network: Any = Network(GPR, given)
    groups = GPR.groups(network)
    assert [decay for _, decay in groups] == [5e-4, 0.0]
    assert groups[1][0] == [network.weights]
    parameters = [parameter for group, _ in groups for parameter in group]
    assert {id(each) for each in parameters} == {id(each) for each in network.parameters()}
    loss = GPR.objective(network, given)
    (gradient,) = torch.autograd.grad(loss, network.weights)
    assert gradient.abs().min() > 0


def test_h2gcn_puts_all_rounds_side_by_side(given: TrainingData) -> None:
    network: Any = Network(H2, given).eval()
    one, two = (as_array(NormalizedAdjacency().build(hop)) for hop in split_hops(given.graph.adjacency))
    ego = (network.X @ network.enter.weight).relu()
    first = torch.cat([one @ ego, two @ ego], dim=1)
    second = torch.cat([one @ first, two @ first], dim=1)
    rows = torch.cat([ego, first, second], dim=1)
    assert rows.shape == (120, 8 * 7)
    torch.testing.assert_close(network(), rows @ network.leave.weight, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("depth", [1, 2])
def test_a_round_of_h2gcn_is_two_hops(given: TrainingData, depth: int) -> None:
    steps = np.diag(np.ones(13), 1)
    path = replace(given, graph=Graph(steps + steps.T, np.random.default_rng(0).normal(size=(14, 5))))
    network: Any = Network(replace(H2, depth=depth, units=32), path).eval()
    before = network()
    network.X = network.X.clone()
    network.X[13] += 3
    is_same = (network() - before).abs().amax(dim=1) < 1e-6
    assert is_same[: 13 - 2 * depth].all()
    assert not is_same[13 - 2 * depth :].any()


def test_linkx_follows_its_formula(given: TrainingData) -> None:
    network: Any = Network(replace(LINK, layers=1), given).eval()
    edges = as_array(given.graph.adjacency) @ network.edges.layers[0].weight
    features = network.X @ network.features.layers[0].weight
    joined = torch.cat([edges, features], dim=1) @ network.join.weight
    hidden = (joined + edges + features).relu()
    torch.testing.assert_close(network(), hidden @ network.both.layers[0].weight, rtol=1e-4, atol=1e-5)


def test_linkx_equals_its_twin(given: TrainingData) -> None:
    nn = pytest.importorskip("torch_geometric.nn", reason="the twin is its own")
    network: Any = Network(replace(LINK, layers=1), given).eval()
    twin = nn.LINKX(120, 8, 16, 3, num_layers=1).eval()
    with torch.no_grad():
        twin.edge_lin.weight.copy_(network.edges.layers[0].weight)
        twin.edge_lin.bias.zero_()
        for theirs, ours in [
            (twin.node_mlp.lins[0], network.features.layers[0]),
            (twin.final_mlp.lins[0], network.both.layers[0]),
        ]:
            theirs.weight.copy_(ours.weight.t())
            theirs.bias.zero_()
        # Theirs has a layer for each of the two, ours one for both side by side.
        upper, lower = network.join.weight.split(16)
        for theirs, ours in [(twin.cat_lin1, upper), (twin.cat_lin2, lower)]:
            theirs.weight.copy_(ours.t())
            theirs.bias.zero_()
    torch.testing.assert_close(network(), twin(network.X, given.edges), rtol=1e-4, atol=1e-5)


def test_averages_of_batches_are_those_of_the_best_epoch(given: TrainingData) -> None:
    torch.manual_seed(0)
    long = LINK.fit(given)
    torch.manual_seed(0)
    short = replace(LINK, epochs=long.best_epoch).fit(given)
    assert long.best_epoch < 30
    assert short.scores.equal(long.scores)


@pytest.mark.parametrize("model", [GPR, H2, LINK], ids=lambda model: type(model).__name__)
def test_numbers_are_learned_in_their_own_unit(model: SearchedModel, small: Dataset) -> None:
    y = 1000 + 50 * small.graph.features[:, 0]
    split = NodeSplit(range(60), range(60, 90), range(90, 120))
    data = TrainingData.build(small.graph, y, split, Regression())
    torch.manual_seed(0)
    # With a restart near one, GPRGNN starts as a perceptron.
    change = {"restart": 0.9} if isinstance(model, GPRGNN) else {}
    scores = replace(model, epochs=150, **change).fit(data).scores
    predicted = data.task.decode(scores.numpy())
    assert np.corrcoef(predicted[90:], y[90:])[0, 1] > 0.6
    assert abs(predicted.mean() - y.mean()) < 30


@pytest.mark.parametrize("model", [GPR, H2, LINK], ids=lambda model: type(model).__name__)
def test_sparse_features_give_the_scores_of_dense_ones(model: SearchedModel, given: TrainingData) -> None:
    normal = Network(model, given).X.numpy()  # type: ignore[operator, union-attr]
    scores = []
    for features in (normal, sp.csr_array(normal)):
        torch.manual_seed(0)
        data = replace(given, graph=Graph(given.graph.adjacency, features))
        network: Any = Network(model, data).eval()
        network.X = network.X if sp.issparse(features) else torch.tensor(normal)
        scores.append(network())
    torch.testing.assert_close(*scores, rtol=1e-4, atol=1e-4)
