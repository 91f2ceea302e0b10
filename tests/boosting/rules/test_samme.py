from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import AdaBoostClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from gbgnn import GBGNNClassifier, Graph, Samme
from gbgnn.boosting import StopReason
from gbgnn.errors import ParameterError
from gbgnn.learners import WeakTask
from gbgnn.problem import LabelledNodes, NodeInputs, Problem
from gbgnn.propagation import Propagator


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    n_classes=st.integers(2, 5),
    base=st.sampled_from([DecisionTreeClassifier(max_depth=1), GaussianNB()]),
    learning_rate=st.sampled_from([1.0, 0.3]),
)
def test_without_a_graph_samme_is_scikit_learns_adaboost(
    seed: int, n_classes: int, base: object, learning_rate: float
) -> None:
    """Identity and stumps: the same steps, labels, probabilities and stopping as AdaBoostClassifier."""
    random = np.random.default_rng(seed)
    y = np.arange(60) % n_classes
    features = random.normal(size=(60, 4)) + 0.7 * y[:, None]
    train, weights = random.permutation(60)[:40], random.uniform(0.5, 1.5, size=40)  # no two splits tie
    theirs = AdaBoostClassifier(base, n_estimators=12, learning_rate=learning_rate)
    try:
        theirs.fit(features[train], y[train], sample_weight=weights)
    except ValueError:  # its first learner is worse than chance: it has no model to compare with
        return
    graph = Graph(np.eye(60)[random.permutation(60)], features)
    ours = GBGNNClassifier(
        aggregation="identity",
        learner=base,
        rule=Samme(learning_rate=learning_rate, error_floor=1e-12),
        n_rounds=12,
        dtype="float64",
        device="cpu",
    ).fit(train, y[train], graph=graph, sample_weight=weights)
    if min(*ours.etas_, *theirs.estimator_weights_[: len(theirs.estimators_)], 1.0) < 1e-9:
        return  # a learner exactly at chance: whether boosting stops is a matter of the last bit
    n_theirs = len(theirs.estimators_)
    perfect = theirs.estimator_errors_[n_theirs - 1] == 0  # there scikit-learn stops; we go on
    n_same = n_theirs - perfect
    np.testing.assert_allclose(ours.etas_[:n_same], theirs.estimator_weights_[:n_same], rtol=1e-9)
    np.testing.assert_allclose(
        ours.history_["weighted_error"][:n_same], theirs.estimator_errors_[:n_same], atol=1e-12
    )
    if not perfect:
        nodes = np.arange(60)
        assert len(ours.ensemble_) == n_theirs
        # A tie between classes may fall either way in the last bit of a sum.
        clear = np.diff(np.sort(theirs.predict_proba(features), axis=1))[:, -1] > 1e-9
        np.testing.assert_array_equal(ours.predict(nodes)[clear], theirs.predict(features)[clear])
        np.testing.assert_allclose(ours.predict_proba(nodes), theirs.predict_proba(features), atol=1e-12)
        staged = zip(ours.staged_predict_proba(nodes), theirs.staged_predict_proba(features), strict=True)
        for mine, other in staged:
            np.testing.assert_allclose(mine, other, atol=1e-12)


def hand_problem() -> tuple[Problem, torch.Tensor, WeakTask]:
    """Four labelled nodes of three classes; the learner gets node 3 wrong."""
    import scipy.sparse as sp

    inputs = NodeInputs(torch.zeros(4, 1, dtype=torch.float64), Propagator(sp.eye_array(4, format="csr")))
    train = LabelledNodes.build(np.arange(4), np.array([0, 1, 2, 0]))
    problem = Problem(inputs, train, n_classes=3)
    output = torch.eye(3, dtype=torch.float64)[[0, 1, 2, 1]]
    return problem, output, WeakTask(train.rows, train.targets, train.weights, 3)


def test_step_and_importance_by_hand() -> None:
    problem, output, task = hand_problem()
    rule = Samme()
    vote = rule.vote(rule.direction(output, 3), task, torch.zeros(4, 3), problem)
    assert vote.weighted_error == 0.25
    assert vote.eta == pytest.approx(math.log(3) + math.log(2))
    assert vote.direction[3].tolist() == [-0.5, 1, -0.5]
    importance = rule.advance(task.weights, vote, problem)
    np.testing.assert_allclose(importance, np.array([1, 1, 1, 6]) / 9)


def test_floor_bounds_the_step_of_a_perfect_learner() -> None:
    problem, _, task = hand_problem()
    rule = Samme(error_floor=1e-3)
    perfect = torch.eye(3, dtype=torch.float64)[task.targets]
    vote = rule.vote(rule.direction(perfect, 3), task, torch.zeros(4, 3), problem)
    assert vote.eta == pytest.approx(math.log(999) + math.log(2))
    assert vote.refusal is None


def test_learner_no_better_than_chance_is_refused() -> None:
    problem, _, task = hand_problem()
    always_last = torch.eye(3, dtype=torch.float64)[[2, 2, 2, 2]]
    vote = Samme().vote(Samme().direction(always_last, 3), task, torch.zeros(4, 3), problem)
    assert vote.weighted_error == 0.75
    assert vote.refusal is StopReason.NO_BETTER_THAN_CHANCE


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"error_floor": 0.0}, r"error_floor must be in \(0, 0.5\); got 0.0"),
        ({"learning_rate": -1}, r"learning_rate must be in \(0, inf\); got -1"),
    ],
)
def test_settings_are_checked(settings_: dict[str, float], message: str) -> None:
    with pytest.raises(ParameterError, match=f"Samme.{message}"):
        Samme(**settings_).check(2)
