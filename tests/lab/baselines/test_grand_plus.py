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
from gbgnn.propagation import RandomWalk
from gbgnn_lab.baselines import grand_plus
from gbgnn_lab.baselines.base import Network
from gbgnn_lab.baselines.data import TrainingData
from gbgnn_lab.baselines.grand import measure_disagreement
from gbgnn_lab.baselines.grand_plus import GRANDPlus, draw_views, find_neighbours, mix

SMALL = GRANDPlus(depth=3, restart=0.3, input_dropout=0.0, learning_rate=0.01, units=6, epochs=3, steps=2)


def dense_rows(given: TrainingData, coefficients: list[float]) -> torch.Tensor:
    walk = RandomWalk(self_loops=True).build(given.graph.adjacency).toarray()
    total = sum(weight * np.linalg.matrix_power(walk, power) for power, weight in enumerate(coefficients))
    return torch.tensor(total, dtype=torch.float32)


def test_weights_of_powers_are_pagerank_or_all_the_same() -> None:
    weights = np.array(SMALL.coefficients())
    np.testing.assert_allclose(weights / weights[0], 0.7 ** np.arange(4))
    np.testing.assert_allclose(replace(SMALL, powers="mean").coefficients(), np.full(4, 0.25))
    assert weights.sum() == pytest.approx(1.0)


def test_mixing_equals_dense_powers(given: TrainingData) -> None:
    H, coefficients = torch.randn(120, 4), SMALL.coefficients()
    walk = given.mixing(RandomWalk(self_loops=True))
    expected = dense_rows(given, coefficients) @ H
    torch.testing.assert_close(mix(walk, H, coefficients), expected, rtol=1e-4, atol=1e-5)


def test_the_largest_entries_of_rows_are_kept(given: TrainingData, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grand_plus, "_ROWS", 4)
    nodes, coefficients = torch.tensor([7, 3, 119, 0, 50, 51]), SMALL.coefficients()
    walk = given.mixing(RandomWalk(self_loops=True))
    columns, values = find_neighbours(walk, nodes, coefficients, 9)
    rows = dense_rows(given, coefficients)[nodes]
    torch.testing.assert_close(values, rows.topk(9, dim=1).values, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(rows.gather(1, columns), values, rtol=1e-4, atol=1e-6)
    everything, _ = find_neighbours(walk, nodes, coefficients, 1000)
    assert everything.sort(dim=1).values.equal(torch.arange(120).expand(6, -1))


def test_views_are_means_over_what_is_not_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    dense = torch.randn(10, 5)
    weights = torch.tensor([[0.5, 0.3, 0.2], [0.6, 0.3, 0.1]])
    columns = torch.tensor([[1, 4, 9], [0, 2, 3]])
    kept = torch.tensor([[1.0, 0.6, 0.0], [0.0, 0.6, 0.2], [0.0, 0.0, 0.0], [1.2, 0.6, 0.2]])
    monkeypatch.setattr(grand_plus, "dropout", lambda values, rate: kept)
    rows = draw_views(weights, columns, dense, 2, 0.5)
    expected = torch.stack(
        [
            (1.0 * dense[1] + 0.6 * dense[4]) / 1.6,
            (0.6 * dense[2] + 0.2 * dense[3]) / 0.8,
            torch.zeros(5),
            (1.2 * dense[0] + 0.6 * dense[2] + 0.2 * dense[3]) / 2.0,
        ]
    )
    torch.testing.assert_close(rows, expected)


def test_every_training_node_comes_before_one_comes_again(given: TrainingData) -> None:
    network: Any = Network(replace(SMALL, batch=8, unlabelled_batch=5, neighbours=4), given)
    batches = [network.batches.draw() for _ in range(4)]
    assert [len(batch.targets) for batch in batches] == [8, 8, 8, 6]
    assert all(len(batch.columns) == len(batch.targets) + 5 for batch in batches)
    seen = torch.cat([batch.targets for batch in batches])
    assert torch.bincount(seen).equal(torch.bincount(given.train.targets))
    assert network.batches.n_drawn == 4
    assert len(network.batches.draw().targets) == 8


def test_only_so_many_other_nodes_are_looked_at(given: TrainingData) -> None:
    network: Any = Network(replace(SMALL, unlabelled=11), given)
    assert len(network.batches.columns) == 30 + 11
    labels = np.arange(120) % 3
    everything = NodeSplit(range(120))
    full = TrainingData.build(given.graph, labels, everything, given.task)
    assert replace(SMALL).fit(full).scores.shape == (120, 3)


def test_disagreement_counts_where_views_are_sure_and_grows(given: TrainingData) -> None:
    model = replace(SMALL, ramp=4, consistency=1.5, dropout=0.0)
    network: Any = Network(model, given).train()
    for n_drawn, growth in [(1, 0.25), (2, 0.5), (3, 0.75), (4, 1.0), (5, 1.0)]:
        state = torch.random.get_rng_state()
        loss = model.objective(network, given)
        torch.random.set_rng_state(state)
        # A batch has room for all training nodes, so that every draw starts anew.
        batch = network.batches.draw()
        network.batches.n_drawn -= 1
        rows = draw_views(batch.weights, batch.columns, network.X, 2, 0.5)
        scores = network.perceptron(rows).unflatten(0, (2, -1))
        n_labelled = len(batch.targets)
        known = torch.stack([given.losses(view[:n_labelled], batch.targets).mean() for view in scores]).mean()
        others = measure_disagreement(scores[:, n_labelled:], 0.1, 2 / 3)
        assert network.batches.n_drawn == n_drawn
        torch.testing.assert_close(loss, known + growth * 1.5 * others)


def test_scores_are_of_features_mixed_without_cut(given: TrainingData) -> None:
    network: Any = Network(replace(SMALL, neighbours=1), given).eval()
    expected = network.perceptron(dense_rows(given, SMALL.coefficients()) @ network.X)
    torch.testing.assert_close(network(), expected, rtol=1e-4, atol=1e-5)


def test_two_classes_can_be_sure_too(small: Dataset) -> None:
    two = TrainingData.from_dataset(replace(small, y=np.minimum(small.y, 1)))
    model = replace(SMALL, epochs=20, steps=5, ramp=1)
    torch.manual_seed(0)
    assert model.fit(two).scores.shape == (120, 2)
    network: Any = Network(model, two).train()
    assert torch.isfinite(model.objective(network, two))


def test_one_layer_with_norms_and_short_gradients_is_the_setting_for_pubmed(given: TrainingData) -> None:
    model = replace(SMALL, layers=1, normalization="batch", rows="unit", most_slope=0.1, powers="mean")
    fitted = model.fit(given)
    assert fitted.n_parameters == 8 * 3 + 3 + 2 * 8
    assert torch.isfinite(fitted.scores).all()


def test_a_graph_of_sparse_features_will_do(given: TrainingData) -> None:
    data = replace(given, graph=Graph(given.graph.adjacency, sp.csr_array(given.graph.features)))
    network: Any = Network(SMALL, data).eval()
    X = torch.tensor(given.graph.features, dtype=torch.float32)
    expected = dense_rows(given, SMALL.coefficients()) @ X
    torch.testing.assert_close(network.mixed, expected, rtol=1e-4, atol=1e-5)
