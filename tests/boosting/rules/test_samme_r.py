from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from gbgnn import GBGNNClassifier, Graph, SammeR
from gbgnn.errors import ParameterError
from gbgnn.tasks import Classification
from gbgnn.testing import make_context, make_problem
from gbgnn.theory import WeakLearnings

FLOOR = np.finfo(np.float64).eps


def reference(
    X: np.ndarray, y: np.ndarray, train: np.ndarray, n_classes: int, n_rounds: int, learning_rate: float
) -> tuple[list[np.ndarray], np.ndarray]:
    """SAMME.R as scikit-learn computed it before 1.6, written from its definition, in NumPy."""
    weights = np.full(len(train), 1 / len(train))
    coding = np.where(np.arange(n_classes) == y[train][:, None], 1.0, -1 / (n_classes - 1))
    total, stages = np.zeros((len(X), n_classes)), []
    for _ in range(n_rounds):
        model = LogisticRegression().fit(X[train], y[train], sample_weight=weights)
        log_proba = np.log(np.clip(model.predict_proba(X), FLOOR, None))
        total = total + (n_classes - 1) * (log_proba - log_proba.mean(axis=1, keepdims=True))
        stages.append(total)
        exponent = -learning_rate * (n_classes - 1) / n_classes * (coding * log_proba[train]).sum(axis=1)
        weights = weights * np.exp(exponent)
        weights /= weights.sum()
    return stages, weights


@settings(max_examples=20)
@given(seed=st.integers(0, 1000), n_classes=st.integers(2, 4), learning_rate=st.sampled_from([1.0, 0.4]))
def test_without_a_graph_it_is_scikit_learns_algorithm(
    seed: int, n_classes: int, learning_rate: float
) -> None:
    random = np.random.default_rng(seed)
    y = np.arange(40) % n_classes
    X = random.normal(size=(40, 3)) + 0.5 * y[:, None]
    train = random.permutation(40)[:24]
    model = GBGNNClassifier(
        aggregation="identity",
        learner=LogisticRegression(),
        rule=SammeR(learning_rate=learning_rate, proba_floor=FLOOR),
        n_rounds=5,
        dtype="float64",
        device="cpu",
    ).fit(train, y[train], graph=Graph(np.eye(40), X))
    stages, _ = reference(X, y, train, n_classes, 5, learning_rate)
    # Their votes are not shrunk, ours are: equal votes, so the same labels and probabilities.
    np.testing.assert_allclose(model.scores_, learning_rate * stages[-1], rtol=1e-4, atol=1e-4)
    for proba, total, t in zip(model.staged_predict_proba(np.arange(40)), stages, range(1, 6), strict=True):
        exponents = np.exp(total / t / (n_classes - 1))
        np.testing.assert_allclose(proba, exponents / exponents.sum(axis=1, keepdims=True), atol=1e-5)


def test_vote_and_weights_by_hand() -> None:
    """Two nodes, two classes; the learner believes 0.8 in the class of node 0 and 0.4 in that of node 1."""
    problem = make_problem(Graph(np.eye(2), np.zeros((2, 1))), np.array([0, 1]), np.arange(2))
    context, rule, train = make_context(problem).batched(), SammeR(), problem.train
    output = torch.tensor([[[0.8, 0.2], [0.6, 0.4]]], dtype=torch.float64).log()
    direction = rule.voting_for(problem.task).direction(output)
    residuals = rule.own_residuals(rule.start(problem, 1), context)
    quality = WeakLearnings.measure(direction, residuals, train.weights)
    vote = rule.vote(direction, quality, context, rule.start(problem, 1)).broadcast()
    assert vote.eta == 1
    assert vote.weighted_error == 0.5
    half = math.log(4) / 2  # log(0.8) minus the mean of log(0.8) and log(0.2)
    np.testing.assert_allclose(vote.direction[0, 0], [half, -half])
    # exp(-f_y): node 0 by 1/2, node 1 by sqrt(1.5).
    after = rule.update(rule.start(problem, 1), vote, context)[0]
    expected = np.array([0.5, math.sqrt(1.5)])
    np.testing.assert_allclose(after, expected / expected.sum())
    assert torch.equal(rule.ask(context, after).weights[0], after)


def test_settings_are_checked() -> None:
    task = Classification().fit([0, 1])
    with pytest.raises(ParameterError, match=r"SammeR.proba_floor must be in \(0, 0.5\); got 0.7"):
        SammeR(proba_floor=0.7).check(task)
    with pytest.raises(ParameterError, match=r"SammeR.learning_rate must be in \(0, inf\); got 0"):
        SammeR(learning_rate=0).check(task)
