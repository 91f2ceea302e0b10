from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as budget
from hypothesis import strategies as st

from gbgnn.boosting import SammeR
from gbgnn.datasets import Dataset
from gbgnn.graph import Graph
from gbgnn.problem import Problem
from gbgnn.propagation import AugmentedAdjacency
from gbgnn.tasks import Classification
from gbgnn.testing import make_context
from gbgnn.theory import weak_learning
from gbgnn_lab.baselines import boosted
from gbgnn_lab.baselines.boosted import AdaGCN, compute_votes, update_weights
from gbgnn_lab.baselines.data import TrainingData
from gbgnn_lab.baselines.matrices import DenseMatrix


def test_weights_grow_for_nodes_predicted_badly_by_a_hand_calculation() -> None:
    """Codes (1, -1/2, -1/2): <y, log p> is log .5 - (log .25 + log .25)/2 = log 2 at node 0."""
    proba = torch.tensor([[0.5, 0.25, 0.25], [0.5, 0.25, 0.25]], dtype=torch.float64)
    targets = torch.tensor([0, 1])
    after = update_weights(torch.tensor([0.5, 0.5], dtype=torch.float64), proba.log(), targets)
    good = np.exp(-2 / 3 * np.log(2))
    # At node 1 it is log .25 - (log .5 + log .25)/2 = -log(2)/2.
    bad = np.exp(2 / 3 * np.log(2) / 2)
    np.testing.assert_allclose(after, [good / (good + bad), bad / (good + bad)])
    assert after[1] > 0.5 > after[0]


@given(st.integers(0, 10**6), st.integers(2, 6))
@budget(max_examples=30)
def test_weights_follow_the_formula_with_codes(seed: int, n_classes: int) -> None:
    rng = np.random.default_rng(seed)
    logs = torch.tensor(rng.normal(size=(9, n_classes))).log_softmax(dim=1)
    targets, weights = rng.integers(n_classes, size=9), rng.dirichlet(np.ones(9))
    codes = np.full((9, n_classes), -1 / (n_classes - 1))
    codes[np.arange(9), targets] = 1
    grown = weights * np.exp(-(n_classes - 1) / n_classes * (codes * logs.numpy()).sum(axis=1))
    ours = update_weights(torch.tensor(weights), logs, torch.tensor(targets))
    np.testing.assert_allclose(ours, grown / grown.sum())
    # Of two nodes with equal weight and class, the one that is predicted worse weighs more afterwards.
    same = update_weights(
        torch.full((9,), 1 / 9, dtype=torch.float64), logs, torch.zeros(9, dtype=torch.int64)
    )
    margins = logs[:, 0] - logs.mean(dim=1)
    assert same.argsort().tolist() == margins.argsort(descending=True).tolist()


def test_without_a_graph_weights_and_scores_are_those_of_sammer(
    small: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = replace(small, graph=Graph(np.zeros((120, 120)), small.graph.features))
    given = TrainingData.from_dataset(bare)[0]
    given_weights: list[torch.Tensor] = []
    outputs: list[torch.Tensor] = []
    plain = boosted.train

    def remember(network: Any, *rest: Any, weights: Any, **how: Any) -> int:
        given_weights.append(weights)
        epoch = plain(network, *rest, weights=weights, **how)
        network.eval()
        outputs.append(network(DenseMatrix(given.features.tensor)).detach())
        return epoch

    monkeypatch.setattr(boosted, "train", remember)
    torch.manual_seed(0)
    scores = AdaGCN(depth=3, units=8, epochs=10).fit(given).scores
    rule, classes = SammeR(), Classification(classes=np.arange(3))
    context = make_context(Problem(given.inputs(AugmentedAdjacency()), classes, given.train))
    own_weights, total = rule.start(context.problem), torch.zeros_like(scores)
    assert len(outputs) == 4
    for weights, output in zip(given_weights, outputs, strict=True):
        torch.testing.assert_close(weights, own_weights)
        direction = rule.voting_for(classes).direction(output)
        total += direction
        quality = weak_learning(direction[given.train.rows], context.training.residuals, weights)
        vote = rule.vote(direction, quality, context, own_weights)
        assert vote.eta == 1
        own_weights = rule.update(own_weights, vote, context)
    torch.testing.assert_close(scores, total)


def test_one_classifier_is_trained_on_from_hop_to_hop(
    given: TrainingData, monkeypatch: pytest.MonkeyPatch
) -> None:
    networks: list[int] = []
    before: list[torch.Tensor] = []
    after: list[torch.Tensor] = []
    plain = boosted.train

    def remember(network: Any, *rest: Any, **how: Any) -> int:
        networks.append(id(network))
        before.append(network.layers[0].weight.detach().clone())
        epoch = plain(network, *rest, **how)
        after.append(network.layers[0].weight.detach().clone())
        return epoch

    monkeypatch.setattr(boosted, "train", remember)
    outcome = AdaGCN(depth=2, units=8, epochs=5).fit(given)
    assert len(set(networks)) == 1
    assert before[1].equal(after[0])
    assert before[2].equal(after[1])
    assert outcome.n_parameters == 8 * 8 + 8 * 3


def test_votes_are_centred() -> None:
    logs = torch.tensor([[0.2, 0.3, 0.5]]).log()
    torch.testing.assert_close(compute_votes(logs), 2 * (logs - logs.mean()))
