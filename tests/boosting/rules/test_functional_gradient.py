from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from gbgnn import MLP, FunctionalGradient, GBGNNClassifier, StopReason
from gbgnn.boosting.diagnostics import direction_quality, guaranteed_decrease
from gbgnn.errors import GBGNNWarning, ParameterError, WeakLearnerError
from gbgnn.testing import problem_of, two_blocks


def fit(n_classes: int, seed: int = 0, n_rounds: int = 8, **rule: object) -> GBGNNClassifier:
    graph, y = two_blocks(40, n_classes=n_classes, seed=seed)
    train = np.random.default_rng(seed).permutation(40)[:20]
    model = GBGNNClassifier(
        rule=FunctionalGradient(**rule),
        learner=rule_learner(rule.get("target", "gradient")),
        n_rounds=n_rounds,
        dtype="float64",
        device="cpu",
        random_state=seed,
    )
    weights = np.random.default_rng(seed).random(20) if seed % 2 else None
    return model.fit(train, y[train], graph=graph, sample_weight=weights)


def rule_learner(target: object) -> object:
    return DecisionTreeClassifier(max_depth=2) if target == "labels" else MLP(epochs=5, units=8)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    n_classes=st.integers(2, 4),
    loss=st.sampled_from(["auto", "softmax"]),
    target=st.sampled_from(["gradient", "labels"]),
    learning_rate=st.sampled_from([0.1, 0.5, 1.0, 1.7]),
)
def test_certificate_never_fails(
    seed: int, n_classes: int, loss: str, target: str, learning_rate: float
) -> None:
    """Every round lowers the training loss by what the theory promises; weighted losses too."""
    try:
        model = fit(n_classes, seed, loss=loss, target=target, learning_rate=learning_rate)
    except WeakLearnerError:
        return
    history = model.history_
    smoothness = model._loss().smoothness
    losses = [math.log(2 if loss == "auto" and n_classes == 2 else n_classes), *history["train_loss"]]
    norms = history["gradient_norm"]
    for t, row in enumerate(history):
        actual = losses[t] - losses[t + 1]
        assert row["guaranteed_decrease"] >= 0
        assert actual >= row["guaranteed_decrease"] - 1e-9
        if t:
            shrunk = learning_rate * (2 - learning_rate)
            promised = shrunk * 20 / (2 * smoothness) * row["cosine"] ** 2 * norms[t - 1] ** 2
            assert row["guaranteed_decrease"] == pytest.approx(promised, rel=1e-6, abs=1e-15)
    assert row["gamma_total"] == pytest.approx(sum(history["gamma"]))


@settings(max_examples=500)
@given(
    seed=st.integers(0, 10**6),
    n_classes=st.integers(2, 5),
    scale=st.sampled_from([0.1, 1.0, 10.0, 1000.0]),
    loss=st.sampled_from(["auto", "softmax"]),
)
def test_certificate_holds_for_any_scores_and_directions(
    seed: int, n_classes: int, scale: float, loss: str
) -> None:
    graph, y = two_blocks(12, n_classes=n_classes, seed=0)
    problem = problem_of(graph, y, np.arange(10))
    rule = FunctionalGradient(loss=loss, learning_rate=1.0)
    objective = rule.loss_for(n_classes)
    random = torch.Generator().manual_seed(seed)
    shape = rule.initial_scores(problem.inputs, n_classes).shape
    scores = scale * torch.randn(shape, generator=random, dtype=torch.float64)
    direction = torch.randn(shape, generator=random, dtype=torch.float64)
    task = rule.task(rule.initial_importance(problem), scores, problem)
    vote = rule.vote(direction, task, scores, problem)
    quality = direction_quality(direction, scores, problem, objective)
    if vote.refusal is not None:
        assert quality.cosine <= 0
        return
    promised = guaranteed_decrease(quality, vote.eta, problem, objective)
    expected = 10 / (2 * objective.smoothness) * quality.cosine**2 * quality.gradient_norm**2
    assert promised == pytest.approx(expected, rel=1e-9)
    train = problem.train
    before, after = (
        objective.mean(s[train.rows], train.targets) for s in (scores, scores + vote.eta * direction)
    )
    assert before - after >= promised - 1e-9 * max(1.0, before)


def test_step_minimises_the_quadratic_bound() -> None:
    graph, y = two_blocks(12, n_classes=3)
    problem = problem_of(graph, y, np.arange(10))
    rule = FunctionalGradient(learning_rate=1.0)
    scores = rule.initial_scores(problem.inputs, 3)
    direction = torch.randn(12, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    task = rule.task(problem.train.weights, scores, problem)
    vote = rule.vote(direction, task, scores, problem)
    objective = rule.loss_for(3)
    quality = direction_quality(direction, scores, problem, objective)
    best = guaranteed_decrease(quality, vote.eta, problem, objective)
    for eta in np.linspace(0, 3 * vote.eta, 31):
        assert guaranteed_decrease(quality, eta, problem, objective) <= best + 1e-12


def test_sigmoid_task_is_label_minus_probability() -> None:
    graph, y = two_blocks(12, n_classes=2)
    problem = problem_of(graph, y, np.arange(10))
    rule = FunctionalGradient(loss="sigmoid")
    scores = torch.full((12, 1), math.log(3), dtype=torch.float64)  # sigmoid = 0.75
    task = rule.task(problem.train.weights, scores, problem)
    assert task.is_regression
    np.testing.assert_allclose(task.targets[:, 0], np.where(y[:10] == 1, 0.25, -0.75))


def test_weighted_task_of_two_classes_is_the_size_of_the_gradient() -> None:
    graph, y = two_blocks(12, n_classes=2)
    problem = problem_of(graph, y, np.arange(10))
    scores = torch.full((12, 1), math.log(3), dtype=torch.float64)
    task = FunctionalGradient(target="labels").task(problem.train.weights, scores, problem)
    sizes = np.where(y[:10] == 1, 0.25, 0.75)
    np.testing.assert_allclose(task.weights, sizes / sizes.sum())
    direction = FunctionalGradient(target="labels").direction(torch.tensor([[2.0, 1.0], [0.0, 1.0]]), 2)
    assert direction.tolist() == [[-1.0], [1.0]]


class _Opposed(MLP):
    """A learner that points uphill, except on request."""

    downhill_seeds: tuple[int, ...] = ()
    seeds: list[int] = []  # noqa: RUF012

    def fit(self, X: torch.Tensor, task: object, seed: int) -> object:
        head = super().fit(X, task, seed)
        type(self).seeds.append(seed)
        if len(self.seeds) % 3:  # every third attempt is a good one
            head.layers[-1].weight.neg_()
            head.layers[-1].bias.neg_()
        return head


def test_failing_learner_is_retried_from_a_fresh_start() -> None:
    _Opposed.seeds.clear()
    graph, y = two_blocks(40, n_classes=3)
    model = GBGNNClassifier(
        learner=_Opposed(epochs=20), rule=FunctionalGradient(retries=2), n_rounds=2, random_state=0
    ).fit(np.arange(20), y[:20], graph=graph)
    assert model.history_["attempts"] == [3, 3]
    assert len(set(_Opposed.seeds)) == 6


def stump_model(**rule: object) -> GBGNNClassifier:
    graph, y = two_blocks(40, n_classes=3)
    model = GBGNNClassifier(
        learner=DecisionTreeRegressor(max_depth=1),
        rule=FunctionalGradient(learning_rate=1.0, **rule),
        n_rounds=12,
        random_state=0,
    )
    return model.fit(np.arange(20), y[:20], graph=graph)


def reachable_cosine() -> float:
    """A bar that the stump of round 1 clears and one of a later round does not."""
    first, *later = stump_model().history_["cosine"]
    assert min(later) < first
    return (min(later) + first) / 2


def test_boosting_stops_when_retries_are_used_up() -> None:
    bar = reachable_cosine()
    model = stump_model(min_cosine=bar)
    assert model.stop_reason_ is StopReason.WEAK_LEARNING_FAILED
    assert 0 < len(model.ensemble_) < 12
    assert min(model.history_["cosine"]) >= bar


def test_warning_goes_on_without_the_learner() -> None:
    with pytest.warns(GBGNNWarning, match="no learner met the weak learning condition in 2 attempts"):
        model = stump_model(min_cosine=reachable_cosine(), on_failure="warn", retries=1)
    assert model.stop_reason_ is StopReason.ROUNDS_EXHAUSTED
    assert min(model.etas_) == 0 < max(model.etas_)
    assert len(model.ensemble_) == 12


def test_vanished_gradient_ends_boosting() -> None:
    graph, y = two_blocks(12, n_classes=2)
    problem = problem_of(graph, y, np.arange(10))
    rule = FunctionalGradient()
    scores = torch.tensor(np.where(y == 1, 1e4, -1e4))[:, None]
    task = rule.task(problem.train.weights, scores, problem)
    vote = rule.vote(torch.ones(12, 1, dtype=torch.float64), task, scores, problem)
    assert vote.refusal is StopReason.GRADIENT_VANISHED


def test_auto_loss_is_sigmoid_for_two_classes() -> None:
    assert fit(2, n_rounds=2).scores_.shape[1] == 1
    assert fit(2, n_rounds=2, loss="softmax").scores_.shape[1] == 2
    assert fit(3, n_rounds=2).scores_.shape[1] == 3


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"loss": "hinge"}, "loss must be one of auto, softmax, sigmoid; got 'hinge'"),
        ({"target": "label"}, "target must be one of .* Did you mean 'labels'"),
        ({"learning_rate": 2.0}, r"learning_rate must be in \(0, 2\); got 2.0"),
        ({"min_cosine": 1}, r"min_cosine must be in \[0, 1\); got 1"),
        ({"retries": -1}, "retries must be an integer >= 0; got -1"),
        ({"on_failure": "ignore"}, "on_failure must be one of stop, warn; got 'ignore'"),
    ],
)
def test_settings_are_checked(settings_: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=f"FunctionalGradient.{message}"):
        FunctionalGradient(**settings_).check(2)


def test_sigmoid_loss_refuses_three_classes() -> None:
    with pytest.raises(ParameterError, match=r'loss="sigmoid"\) is for two classes; got 3'):
        FunctionalGradient(loss="sigmoid").check(3)
