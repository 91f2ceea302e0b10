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
from gbgnn.boosting import StopReason, Vote
from gbgnn.errors import ParameterError
from gbgnn.members import stack
from gbgnn.rounds import RoundContext
from gbgnn.tasks import Classification
from gbgnn.testing import make_context, make_problem
from gbgnn.theory import WeakLearnings


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


def hand_round() -> RoundContext:
    """Four labelled nodes of three classes."""
    problem = make_problem(Graph(np.eye(4), np.zeros((4, 1))), np.array([0, 1, 2, 0]), np.arange(4))
    return make_context(problem).batched()


def vote_for(classes: list[int], rule: Samme, context: RoundContext) -> Vote:
    """The vote of a learner that says these classes."""
    output = torch.eye(3, dtype=torch.float64)[classes][None]
    direction = rule.voting_for(context.problem.task).direction(output)
    train, residuals = context.train, context.training.residuals
    quality = WeakLearnings.measure(direction[:, train.rows], residuals, train.weights / train.size)
    return rule.vote(direction, quality, context, rule.start(context.problem, 1))


def test_step_and_weights_by_hand() -> None:
    """The learner gets node 3 wrong."""
    context, rule = hand_round(), Samme()
    vote = vote_for([0, 1, 2, 1], rule, context)
    assert vote.weighted_error == 0.25
    assert float(vote.eta) == pytest.approx(math.log(3) + math.log(2))
    assert vote.direction[0, 3].tolist() == [-0.5, 1, -0.5]
    state = rule.start(context.problem, 1)
    assert torch.equal(state[0], context.train.weights)
    after = rule.update(state, vote, context)
    np.testing.assert_allclose(after[0], np.array([1, 1, 1, 6]) / 9)
    assert torch.equal(rule.ask(context, after).weights, after)
    np.testing.assert_allclose(state, 0.25)  # handed in, never changed


def test_floor_bounds_the_step_of_a_perfect_learner() -> None:
    vote = vote_for([0, 1, 2, 0], Samme(error_floor=1e-3), hand_round())
    assert float(vote.eta) == pytest.approx(math.log(999) + math.log(2))
    assert not vote.refusal


def test_learner_no_better_than_chance_is_refused() -> None:
    vote = vote_for([2, 2, 2, 2], Samme(), hand_round())
    assert vote.weighted_error == 0.75
    assert vote.refusals() == [StopReason.NO_BETTER_THAN_CHANCE]


@pytest.mark.parametrize("said", [[0, 1, 2, 1], [0, 2, 2, 0], [1, 1, 2, 0]])
def test_the_same_learner_again_is_no_better_than_chance(said: list[int]) -> None:
    """The weights are such that it would be exactly chance, and rounding must not decide."""
    context, rule = hand_round(), Samme()
    before = rule.start(context.problem, 1)
    first = vote_for(said, rule, context)
    again = rule.vote(
        first.direction, first.quality, context, rule.update(before, first.broadcast(), context)
    )
    assert float(again.weighted_error) == pytest.approx(2 / 3, abs=1e-15)
    assert again.refusals() == [StopReason.NO_BETTER_THAN_CHANCE]


def test_members_with_other_settings_vote_as_each_would_alone() -> None:
    context, rules = hand_round(), [Samme(learning_rate=0.5, error_floor=0.3), Samme()]
    alone = [vote_for([0, 1, 2, 1], rule, context).eta[0] for rule in rules]
    both = vote_for([0, 1, 2, 1], stack(rules), context)
    assert both.eta.tolist() == alone
    assert alone[0] != alone[1]


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"error_floor": 0.0}, r"error_floor must be in \(0, 0.5\); got 0.0"),
        ({"learning_rate": -1}, r"learning_rate must be in \(0, inf\); got -1"),
    ],
)
def test_settings_are_checked(settings_: dict[str, float], message: str) -> None:
    with pytest.raises(ParameterError, match=f"Samme.{message}"):
        Samme(**settings_).check(Classification().fit([0, 1]))
