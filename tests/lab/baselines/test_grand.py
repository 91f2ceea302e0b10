from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given as drawn
from hypothesis import settings as budget
from hypothesis import strategies as st
from torch import nn

from gbgnn.graph import Graph
from gbgnn.propagation import AugmentedAdjacency
from gbgnn_lab.baselines import grand
from gbgnn_lab.baselines.base import Network
from gbgnn_lab.baselines.data import SparseMatrix, TrainingData
from gbgnn_lab.baselines.grand import GRAND, average_powers, dense_columns, measure_disagreement

SMALL = GRAND(depth=3, units=5, views=2, input_dropout=0.0, learning_rate=0.01, epochs=5)


def dense_powers(given: TrainingData, depth: int) -> torch.Tensor:
    P = torch.tensor(AugmentedAdjacency().build(given.graph.adjacency).toarray(), dtype=torch.float32)
    powers = [torch.linalg.matrix_power(P, power) for power in range(depth + 1)]
    return torch.stack(powers).mean(dim=0)


def sparse(given: TrainingData) -> TrainingData:
    return replace(given, graph=Graph(given.graph.adjacency, sp.csr_array(given.graph.features)))


@pytest.mark.parametrize("depth", [1, 4])
def test_mixing_is_the_mean_of_dense_powers(given: TrainingData, depth: int) -> None:
    H = torch.randn(120, 3)
    mixed = average_powers(given.mixing(AugmentedAdjacency()), H, depth)
    torch.testing.assert_close(mixed, dense_powers(given, depth) @ H, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_scores_are_those_of_a_perceptron_on_mixed_features(given: TrainingData, is_sparse: bool) -> None:
    data = sparse(given) if is_sparse else given
    network: Any = Network(SMALL, data).eval()
    X = network.X if isinstance(network.X, torch.Tensor) else network.X.tensor.to_dense()
    mixed = 0.5 * dense_powers(given, 3) @ X  # the share of nodes that a view has
    hidden = (mixed @ network.enter.weight + network.enter.bias).relu()
    expected = hidden @ network.leave.weight
    torch.testing.assert_close(network(), expected, rtol=1e-4, atol=1e-5)
    assert network().shape == (120, 3)


def test_a_view_drops_nodes_and_columns_before_mixing(
    given: TrainingData, monkeypatch: pytest.MonkeyPatch
) -> None:
    masks: list[torch.Tensor] = []
    plain = grand.dropout

    def remember(X: torch.Tensor, rate: float) -> torch.Tensor:
        masks.append(plain(X, rate))
        return masks[-1]

    model = replace(SMALL, input_dropout=0.4, dropped_nodes=0.3)
    network: Any = Network(model, given).train()
    monkeypatch.setattr(grand, "dropout", remember)
    mixed = model.mix_views(network, 3)
    columns, nodes = masks
    assert (columns.shape, nodes.shape) == ((3, 8), (120, 3, 1))
    torch.testing.assert_close(columns[columns > 0], torch.full_like(columns[columns > 0], 1 / 0.6))
    assert 0.1 < (nodes == 0).float().mean() < 0.5
    for view in range(3):
        dropped = (nodes[:, view] > 0) * network.X * columns[view]
        expected = dense_powers(given, 3) @ dropped @ network.enter.weight
        torch.testing.assert_close(mixed[:, view], expected, rtol=1e-4, atol=1e-5)


def test_a_batch_norm_of_columns_equals_that_of_the_mixed_features(given: TrainingData) -> None:
    model = replace(SMALL, normalization="batch", dropped_nodes=0.0)
    network: Any = Network(model, given).train()
    with torch.no_grad():
        network.columns.gain.uniform_(0.5, 2.0)
        network.columns.bias.normal_()
    norm = nn.BatchNorm1d(8)
    norm.load_state_dict(norm.state_dict() | {"weight": network.columns.gain, "bias": network.columns.bias})
    expected = norm(dense_powers(given, 3) @ network.X) @ network.enter.weight
    torch.testing.assert_close(model.mix_views(network, 1)[:, 0], expected, rtol=1e-3, atol=1e-4)
    assert model.fit(given).scores.shape == (120, 3)


@drawn(st.integers(0, 10**6), st.floats(0.1, 1.0), st.floats(0.2, 0.9))
@budget(max_examples=30, deadline=None)
def test_disagreement_follows_its_formula(seed: int, temperature: float, least: float) -> None:
    scores = np.random.default_rng(seed).normal(size=(3, 7, 4))
    proba = np.exp(scores) / np.exp(scores).sum(axis=2, keepdims=True)
    mean = proba.mean(axis=0)
    sharp = mean ** (1 / temperature) / (mean ** (1 / temperature)).sum(axis=1, keepdims=True)
    distances = ((proba - sharp) ** 2).sum(axis=2).mean(axis=0)
    ours = measure_disagreement(torch.tensor(scores), temperature)
    np.testing.assert_allclose(ours, distances.mean(), rtol=1e-6)
    is_sure = mean.max(axis=1) > least
    among = measure_disagreement(torch.tensor(scores), temperature, least)
    np.testing.assert_allclose(among, distances[is_sure].mean() if is_sure.any() else 0.0, rtol=1e-6)


def test_what_the_views_should_agree_on_has_no_gradient() -> None:
    scores = torch.randn(1, 4, 3, requires_grad=True)
    # A single view at temperature one is its own mean.
    measure_disagreement(scores, 1.0).backward()
    torch.testing.assert_close(scores.grad, torch.zeros(1, 4, 3))


def test_the_objective_counts_labels_and_disagreement_of_all_nodes(given: TrainingData) -> None:
    model = replace(SMALL, consistency=2.0, dropout=0.0)
    network: Any = Network(model, given).train()
    torch.manual_seed(3)
    loss = model.objective(network, given)
    torch.manual_seed(3)
    views = model.score_views(network, 2)
    labelled = [given.losses(view[given.train.rows], given.train.targets).mean() for view in views]
    expected = sum(labelled) / 2 + 2 * measure_disagreement(views, 0.5)
    torch.testing.assert_close(loss, expected)
    gradients = torch.autograd.grad(measure_disagreement(views, 0.5), network.enter.weight)
    assert gradients[0].abs().sum() > 0


def test_the_epoch_with_the_lowest_loss_may_predict(given: TrainingData) -> None:
    assert given.validation is not None
    model = replace(SMALL, epochs=40, learning_rate=0.1)
    losses, nodes = [], given.validation
    for epochs in (*range(1, 41), None):
        torch.manual_seed(0)
        chosen = replace(model, epoch_by="loss") if epochs is None else replace(model, epochs=epochs)
        # Without validation nodes it is the last epoch that predicts.
        seen = given if epochs is None else replace(given, validation=None)
        losses.append(given.judge(chosen.fit(seen).scores[nodes.rows], nodes)[1])
    *each, lowest = losses
    assert lowest == min(each)


def test_columns_come_dense_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grand, "_COLUMNS", 4)
    matrix = sp.random_array((5, 10), density=0.5, rng=0, format="csr")
    for X in (torch.tensor(matrix.toarray(), dtype=torch.float32), SparseMatrix.from_scipy(matrix)):
        blocks = list(dense_columns(X))
        assert [block.shape[1] for block in blocks] == [4, 4, 2]
        np.testing.assert_allclose(torch.cat(blocks, dim=1), matrix.toarray(), rtol=1e-6)


@pytest.mark.parametrize("depth", [1, 3])
def test_depth_is_hops(given: TrainingData, depth: int) -> None:
    steps = np.diag(np.ones(13), 1)
    path = replace(given, graph=Graph(steps + steps.T, np.random.default_rng(0).normal(size=(14, 5))))
    network: Any = Network(replace(SMALL, depth=depth), path).eval()
    before = network()
    network.X = network.X.clone()
    network.X[13] += 3
    is_same = (network() - before).abs().amax(dim=1) < 1e-6
    assert is_same[: 13 - depth].all()
    assert not is_same[13 - depth]
