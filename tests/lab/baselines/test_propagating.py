from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from gbgnn.datasets import Dataset
from gbgnn.graph import Graph
from gbgnn.propagation import AugmentedAdjacency
from gbgnn_lab.baselines.data import TrainingData
from gbgnn_lab.baselines.matrices import DenseMatrix
from gbgnn_lab.baselines.propagating import APPNP, MLP, SGC, Perceptron, score_rows


def test_appnp_equals_its_twin(given: TrainingData) -> None:
    nn = pytest.importorskip("torch_geometric.nn", reason="the propagation's twin is its own")
    network = APPNP(depth=6, restart=0.3).network(given).eval()
    start = network.perceptron(given.features)
    torch.testing.assert_close(network(), nn.APPNP(6, 0.3)(start, given.edges), rtol=1e-4, atol=1e-5)


def test_appnp_comes_to_personalised_pagerank(given: TrainingData) -> None:
    network = APPNP(depth=200, restart=0.2).network(given).eval()
    P = given.mixing(AugmentedAdjacency()).tensor.to_dense()
    inverse = torch.linalg.inv(torch.eye(given.n_nodes) - 0.8 * P)
    expected = 0.2 * inverse @ network.perceptron(given.features)
    torch.testing.assert_close(network(), expected, rtol=1e-3, atol=1e-4)


def test_the_perceptron_never_sees_an_edge(small: Dataset) -> None:
    bare = replace(small, graph=Graph(np.zeros((120, 120)), small.graph.features))
    scores = []
    for data in (small, bare):
        torch.manual_seed(0)
        scores.append(MLP(epochs=10).fit(TrainingData.from_dataset(data)[0]).scores)
    assert scores[0].equal(scores[1])


def test_sgc_comes_to_the_logistic_regression_of_mixed_features(given: TrainingData) -> None:
    decay = 0.01
    model = SGC(depth=3, epochs=2000, learning_rate=0.05, weight_decay=decay)
    scores = model.fit(replace(given, validation=None)).scores
    P = AugmentedAdjacency().build(given.graph.adjacency).to_scipy()
    X = P @ (P @ (P @ given.graph.features))
    rows = given.train.rows.numpy()
    # Its penalty leaves the bias alone and ours does not, so a column of ones plays the bias.
    ones = np.hstack([X, np.ones((len(X), 1))])
    judge = LogisticRegression(C=1 / (decay * len(rows)), fit_intercept=False, tol=1e-8, max_iter=10_000)
    judge.fit(ones[rows], given.train.targets)
    expected = judge.predict_proba(ones)
    np.testing.assert_allclose(scores.softmax(dim=1).numpy(), expected, atol=2e-3)


def test_rows_are_seen_one_at_a_time() -> None:
    torch.manual_seed(0)
    network, X = Perceptron([4, 3, 2], 0.5).eval(), torch.randn(6, 4)
    some = torch.tensor([5, 0])
    torch.testing.assert_close(score_rows(network, X, some), network(DenseMatrix(X))[some])
