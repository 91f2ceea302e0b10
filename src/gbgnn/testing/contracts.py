"""What every part must do, as checks that raise AssertionError."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.base import clone

from gbgnn.aggregation import Aggregation
from gbgnn.boosting import BoostingRule
from gbgnn.graph import Graph
from gbgnn.learners import Learner, WeakTask
from gbgnn.problem import Problem
from gbgnn.propagation import Propagation
from gbgnn.testing.graphs import problem_of, two_blocks


def check_aggregation(aggregation: Aggregation) -> None:
    """Check settings, determinism, untouched inputs, records and node-permutation equivariance."""
    _check_settings(aggregation)
    aggregation.check()
    problem, permuted, order = _problem_twice()
    X = problem.inputs.features
    before = X.clone()
    hop = aggregation.fit(X, problem, seed=1)
    mixed = hop(X, problem.inputs)
    assert torch.equal(X, before), "fit or hop changed its input"
    again = aggregation.fit(X, problem, seed=1)(X, problem.inputs)
    assert torch.equal(mixed, again), "the same seed gave another hop"
    restored = type(hop).from_record(hop.record(), hop.state())(X, problem.inputs)
    assert torch.equal(mixed, restored), "from_record(record(), state()) is another hop"
    X_permuted = permuted.inputs.features
    hop_permuted = aggregation.fit(X_permuted, permuted, seed=1)
    assert torch.allclose(hop_permuted(X_permuted, permuted.inputs), mixed[order]), "not equivariant"


def check_learner(learner: Learner, task: WeakTask | None = None) -> None:
    """Check settings, determinism, shape, untouched inputs, and that only labelled rows are looked at."""
    _check_settings(learner)
    learner.check()
    problem, _, _ = _problem_twice()
    X, train = problem.inputs.features, problem.train
    if task is None:
        task = WeakTask(train.rows, train.targets, train.weights, problem.n_classes)
    before = X.clone()
    head = learner.fit(X, task, seed=1)
    output = head.evaluate(X)
    assert torch.equal(X, before), "fit or evaluate changed its input"
    assert output.shape == (len(X), task.n_outputs), f"wrong output shape {tuple(output.shape)}"
    assert torch.equal(output, learner.fit(X, task, seed=1).evaluate(X)), "the same seed gave another head"
    named = dict(head.named_parameters())
    assert all(name in named for name in head.first_layer or ()), "first_layer must name parameters"
    scrambled = X.clone()
    unlabelled = torch.ones(len(X), dtype=torch.bool)
    unlabelled[task.rows] = False
    scrambled[unlabelled] = 7.0
    other = learner.fit(scrambled, task, seed=1).evaluate(X)
    assert torch.equal(output, other), "the head depends on rows that carry no label"


def check_rule(rule: BoostingRule) -> None:
    """Check settings, that importance sums to one, the shape of votes, and that fine-tuning can descend."""
    _check_settings(rule)
    problem, _, _ = _problem_twice()
    rule.check(problem.n_classes)
    scores = rule.initial_scores(problem.inputs, problem.n_classes)
    importance = rule.initial_importance(problem)
    random = torch.Generator().manual_seed(0)
    for _ in range(3):
        task = rule.task(importance, scores, problem)
        assert abs(float(task.weights.sum()) - 1) < 1e-12, "the task's weights do not sum to one"
        output = torch.randn(len(scores), task.n_outputs, generator=random, dtype=scores.dtype)
        vote = rule.vote(rule.direction(output, problem.n_classes), task, scores, problem)
        assert vote.direction.shape == scores.shape, "a direction must have the shape of the scores"
        importance = rule.advance(importance, vote, problem)
        assert abs(float(importance.sum()) - 1) < 1e-12, "importance does not sum to one"
        scores = scores + vote.eta * vote.direction
    output.requires_grad_()
    soft = rule.soft_direction(output, problem.n_classes)
    assert soft.shape == scores.shape, "a soft direction must have the shape of the scores"
    assert soft.requires_grad, "no gradient passes soft_direction, so fine-tuning would move nothing"
    is_hard = not rule.direction(output, problem.n_classes).requires_grad
    assert rule.votes_for_one_class == is_hard, "votes_for_one_class must say whether direction is a choice"
    proba = rule.proba(scores, 1.0, problem.n_classes)
    assert torch.allclose(proba.sum(dim=1), torch.ones(len(proba), dtype=proba.dtype))


def check_propagation(propagation: Propagation) -> None:
    """Check settings, shape, and node-permutation equivariance."""
    _check_settings(propagation)
    graph, _ = two_blocks(20)
    order = np.random.default_rng(0).permutation(20)
    P = propagation.build(graph.adjacency).toarray()
    assert P.shape == (20, 20), "P must be N x N"
    permuted = propagation.build(graph.adjacency[order][:, order]).toarray()
    np.testing.assert_allclose(permuted, P[order][:, order], rtol=1e-6, atol=1e-12)


def _check_settings(part: Any) -> None:
    copy = clone(part)
    assert repr(copy) == repr(part), "clone gave other settings"
    assert copy.get_params().keys() == part.get_params().keys(), "clone lost a setting"


def _problem_twice() -> tuple[Problem, Problem, torch.Tensor]:
    """Return a problem, the same with its nodes permuted, and the permutation."""
    graph, y = two_blocks(30, n_classes=3)
    train = np.arange(12)
    order = np.random.default_rng(0).permutation(30)
    place = np.argsort(order)
    features = np.asarray(graph.features)[order]
    permuted = Graph(graph.adjacency[order][:, order], features)
    problem = problem_of(graph, y, train)
    return problem, problem_of(permuted, y[order], place[train]), torch.from_numpy(order)
