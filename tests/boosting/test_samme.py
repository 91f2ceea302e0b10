from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import AdaBoostClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from gbgnn import GBGNNClassifier, Graph, Samme, SammeR
from gbgnn.boosting import StopReason, Vote
from gbgnn.boosting.rules import reweighted
from gbgnn.errors import ParameterError
from gbgnn.rounds import RoundContext, stack
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


@pytest.mark.parametrize("weightless", [False, True])
def test_steps_of_any_length_leave_weights_that_are_numbers(weightless: bool) -> None:
    """With a floor of 1e-300 and shrinkage 3 a miss costs exp(2000)."""
    context, rule = hand_round(), Samme(error_floor=1e-300, learning_rate=3.0)
    vote = vote_for([0, 1, 2, 1], rule, context)
    vote = replace(vote, eta=torch.tensor([2000.0], dtype=torch.float64))
    state = rule.start(context.problem, 1).clone()
    expected = [0.0, 0.0, 0.0, 1.0]
    if weightless:  # the node it gets wrong does not count
        state[0], expected = torch.tensor([0.5, 0.25, 0.25, 0.0]), [0.5, 0.25, 0.25, 0.0]
    np.testing.assert_allclose(rule.update(state, vote, context)[0], expected)


def test_usual_steps_round_as_the_plain_formula() -> None:
    random = np.random.default_rng(0)
    for _ in range(100):
        weights, exponents = (torch.from_numpy(random.random(5) * size) for size in (1, 600))
        plain = weights * torch.exp(exponents)
        assert torch.equal(reweighted(weights, exponents), plain / plain.sum())


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


def test_rules_show_what_was_changed() -> None:
    assert (repr(Samme()), repr(SammeR()), repr(SammeR(learning_rate=0.5))) == (
        "Samme()",
        "SammeR()",
        "SammeR(learning_rate=0.5)",
    )


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


def test_settings_of_samme_r_are_checked() -> None:
    task = Classification().fit([0, 1])
    with pytest.raises(ParameterError, match=r"SammeR.proba_floor must be in \(0, 0.5\); got 0.7"):
        SammeR(proba_floor=0.7).check(task)
    with pytest.raises(ParameterError, match=r"SammeR.learning_rate must be in \(0, inf\); got 0"):
        SammeR(learning_rate=0).check(task)


def test_rules_are_compared_as_estimators_are_and_have_the_defaults_of_the_docs() -> None:
    assert SammeR() != SammeR()
    assert SammeR().get_params() == {"proba_floor": 1e-7, "learning_rate": 1.0}
