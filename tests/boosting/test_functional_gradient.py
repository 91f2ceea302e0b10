from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from gbgnn import MLP, FunctionalGradient, GBGNNClassifier, GBGNNRegressor, StopReason
from gbgnn.boosting import Vote
from gbgnn.boosting.history import guaranteed_decrease
from gbgnn.errors import GBGNNWarning, ParameterError, WeakLearnerError
from gbgnn.learners import Head
from gbgnn.losses import Loss, SigmoidCrossEntropy, SoftmaxCrossEntropy, SquaredError
from gbgnn.problem import Problem
from gbgnn.rounds import RoundContext, TrainingLoss
from gbgnn.tasks import Classification, MultiLabel, Regression, Task
from gbgnn.testing import make_context, make_problem, two_blocks
from gbgnn.theory import WeakLearning, WeakLearnings


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


def problem_with(n_classes: int) -> Problem:
    graph, y = two_blocks(12, n_classes=n_classes)
    return make_problem(graph, y, np.arange(10))


def round_at(scores: torch.Tensor, problem: Problem, rule: FunctionalGradient) -> RoundContext:
    training = TrainingLoss.at(scores, problem.train, rule.loss_for(problem.task))
    return replace(make_context(problem), scores=scores, training=training)


def judged(
    direction: torch.Tensor, context: RoundContext, rule: FunctionalGradient
) -> tuple[Vote, WeakLearning]:
    """The vote for a direction and its quality, as the loop finds them."""
    train, context = context.train, context.batched()
    shares = train.weights / train.size
    quality = WeakLearnings.measure(direction[None, train.rows], context.training.residuals, shares)
    vote = rule.vote(direction[None], quality, context, rule.start(context.problem, 1))
    return vote, quality[0]


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
    smoothness = model.loss_.smoothness
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


TASKS: list[tuple[Task, str]] = [
    *((Classification().fit(np.arange(n)), loss) for n in range(2, 6) for loss in ("auto", "softmax")),
    (MultiLabel(), "auto"),
    (MultiLabel(), "sigmoid"),
    (Regression(), "auto"),
    (Regression(), "squared"),
]


@settings(max_examples=500)
@given(
    seed=st.integers(0, 10**6),
    case=st.sampled_from(TASKS),
    scale=st.sampled_from([0.1, 1.0, 10.0, 1000.0]),
)
def test_certificate_holds_for_any_scores_and_directions(
    seed: int, case: tuple[Task, str], scale: float
) -> None:
    task, loss = case
    graph, _ = two_blocks(12)
    random = np.random.default_rng(seed)
    if task.has_classes:
        y = np.arange(12) % task.n_columns
    else:
        y = random.integers(2, size=(12, 3)) if isinstance(task, MultiLabel) else random.normal(size=(12, 2))
    problem = make_problem(graph, y, np.arange(10), task=task)
    rule = FunctionalGradient(loss=loss, learning_rate=1.0)
    rule.check(problem.task)
    objective, shape = rule.loss_for(problem.task), (12, rule.voting_for(problem.task).n_outputs)
    scores, direction = (torch.tensor(size * random.normal(size=shape)) for size in (scale, 1.0))
    context = round_at(scores, problem, rule)
    vote, quality = judged(direction, context, rule)
    if vote.refusal:
        assert quality.cosine <= 0
        return
    promised = guaranteed_decrease(quality, float(vote.eta), context.training)
    expected = 10 / (2 * objective.smoothness) * quality.cosine**2 * quality.gradient_norm**2
    assert promised == pytest.approx(expected, rel=1e-9)
    train = problem.train
    before, after = (
        float(objective.mean(s[train.rows], train.targets)) for s in (scores, scores + vote.eta * direction)
    )
    assert before - after >= promised - 1e-9 * max(1.0, before)


def test_for_the_squared_error_the_step_is_the_best_there_is() -> None:
    """Its curvature is 2 everywhere, so that the bound is reached: no other step ends lower."""
    graph, _ = two_blocks(12)
    y = np.random.default_rng(0).normal(size=12)
    problem, rule = (
        make_problem(graph, y, np.arange(10), task=Regression()),
        FunctionalGradient(learning_rate=1),
    )
    random = torch.Generator().manual_seed(0)
    scores, direction = torch.randn(2, 12, 1, generator=random, dtype=torch.float64)
    context, train = round_at(scores, problem, rule), problem.train
    vote, quality = judged(direction, context, rule)
    if vote.refusal:
        direction = -direction
        vote, quality = judged(direction, context, rule)
    f, r = direction[train.rows], train.targets - scores[train.rows]
    assert float(vote.eta) == pytest.approx(float((f * r).sum() / f.square().sum()))
    after = TrainingLoss.at(scores + vote.eta * direction, train, context.training.loss)
    promised = guaranteed_decrease(quality, float(vote.eta), context.training)
    assert float(context.training.value - after.value) == pytest.approx(promised)


def test_step_minimises_the_quadratic_bound() -> None:
    problem, rule = problem_with(3), FunctionalGradient(learning_rate=1.0)
    direction = torch.randn(12, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    context = round_at(problem.inputs.zero_scores(3), problem, rule)
    vote, quality = judged(direction, context, rule)
    best = guaranteed_decrease(quality, float(vote.eta), context.training)
    for eta in np.linspace(0, 3 * float(vote.eta), 31):
        assert guaranteed_decrease(quality, eta, context.training) <= best + 1e-12


def test_sigmoid_task_is_label_minus_probability() -> None:
    problem, rule = problem_with(2), FunctionalGradient(loss="sigmoid")
    scores = torch.full((12, 1), math.log(3), dtype=torch.float64)  # sigmoid = 0.75
    context = round_at(scores, problem, rule)
    task = rule.ask(context, None)
    assert task.is_regression
    assert task.targets is context.training.residuals  # computed once
    expected = np.where(problem.train.targets == 1, 0.25, -0.75)
    np.testing.assert_allclose(task.targets[:, 0], expected)


def test_validation_nodes_are_asked_for_their_own_gradient() -> None:
    graph, y = two_blocks(12, n_classes=2)
    problem = make_problem(graph, y, np.arange(8), np.arange(8, 12))
    rule, scores = FunctionalGradient(), torch.full((12, 1), math.log(3), dtype=torch.float64)
    task = rule.ask(round_at(scores, problem, rule), None)
    assert torch.equal(task.val_rows, torch.arange(8, 12))
    np.testing.assert_allclose(task.val_targets[:, 0], np.where(y[8:] == 1, 0.25, -0.75))


def test_learners_of_the_loss_are_told_the_validation_nodes_and_their_scores() -> None:
    graph, y = two_blocks(12, n_classes=2)
    rule, scores = FunctionalGradient(target="loss"), torch.arange(12.0, dtype=torch.float64)[:, None]
    problem = make_problem(graph, y, np.arange(8), np.arange(8, 12))
    task = rule.ask(round_at(scores, problem, rule), None)
    assert torch.equal(task.val_rows, torch.arange(8, 12))
    assert torch.equal(task.val_targets, torch.as_tensor(y[8:]).to(task.val_targets.dtype))
    assert torch.equal(task.val_offsets[:, 0], scores[8:, 0])
    alone = rule.ask(round_at(scores, make_problem(graph, y, np.arange(8)), rule), None)
    assert alone.val_rows is alone.val_targets is alone.val_offsets is None


def test_task_of_numbers_is_twice_what_is_missing() -> None:
    graph, _ = two_blocks(12)
    y = np.arange(12.0)
    problem = make_problem(graph, y, np.arange(10), task=Regression(centre=0.0, scale=1.0))
    rule = FunctionalGradient()
    task = rule.ask(round_at(torch.full((12, 1), 3.0, dtype=torch.float64), problem, rule), None)
    np.testing.assert_allclose(task.targets[:, 0], 2 * (y[:10] - 3))
    assert isinstance(task.loss, SquaredError)
    assert task.val_rows is task.val_targets is None


def test_weighted_task_of_two_classes_is_the_size_of_the_gradient() -> None:
    problem, rule = problem_with(2), FunctionalGradient(target="labels")
    scores = torch.full((12, 1), math.log(3), dtype=torch.float64)
    task = rule.ask(round_at(scores, problem, rule), None)
    sizes = np.where(problem.train.targets == 1, 0.25, 0.75)
    np.testing.assert_allclose(task.weights, sizes / sizes.sum())


@pytest.mark.parametrize(
    ("loss", "task", "expected"),
    [
        ("auto", Classification().fit([0, 1]), SigmoidCrossEntropy),
        ("auto", Classification().fit([0, 1, 2]), SoftmaxCrossEntropy),
        ("auto", MultiLabel().fit([[0, 1]]), SigmoidCrossEntropy),
        ("auto", Regression().fit([0.0, 1.0]), SquaredError),
        ("softmax", Classification().fit([0, 1]), SoftmaxCrossEntropy),
        (SoftmaxCrossEntropy(), Classification().fit([0, 1]), SoftmaxCrossEntropy),
    ],
)
def test_loss_is_a_name_an_object_or_what_suits_the_task(
    loss: str | Loss, task: Task, expected: type[Loss]
) -> None:
    rule = FunctionalGradient(loss=loss)
    rule.check(task)
    found = rule.loss_for(task)
    assert type(found) is expected
    assert isinstance(loss, str) or found is loss
    assert rule.voting_for(task).n_outputs == task.n_outputs(found)


class _Opposed(MLP):
    """A learner that points uphill, except at every third attempt."""

    seeds: list[int] = []  # noqa: RUF012

    def fit(self, context: RoundContext) -> Head:
        head = super().fit(context)
        type(self).seeds.append(context.seed)
        if len(self.seeds) % 3:
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
    problem, rule = problem_with(2), FunctionalGradient()
    scores = torch.full((12, 1), -1e4, dtype=torch.float64)
    scores[problem.train.rows[problem.train.targets == 1]] = 1e4
    context = round_at(scores, problem, rule)
    vote, _ = judged(torch.ones(12, 1, dtype=torch.float64), context, rule)
    assert vote.refusals() == [StopReason.GRADIENT_VANISHED]


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_right_angle_is_refused_whichever_way_rounding_tilts_it(dtype: torch.dtype, sign: int) -> None:
    problem, rule = problem_with(2), FunctionalGradient()
    context = round_at(torch.zeros(12, 1, dtype=dtype), problem, rule)
    gradient = context.training.residuals.new_zeros(12, 1)
    gradient[problem.train.rows] = context.training.residuals
    across = torch.ones_like(gradient) - gradient * gradient.sum() / gradient.square().sum()
    tilted = (across + sign * torch.finfo(dtype).eps * gradient).to(dtype)
    vote, quality = judged(tilted, context, rule)
    assert abs(quality.cosine) < 8 * torch.finfo(dtype).eps
    assert vote.refusals() == [StopReason.WEAK_LEARNING_FAILED]


def test_auto_loss_is_sigmoid_for_two_classes() -> None:
    assert fit(2, n_rounds=2).scores_.shape[1] == 1
    assert fit(2, n_rounds=2, loss="softmax").scores_.shape[1] == 2
    assert fit(3, n_rounds=2).scores_.shape[1] == 3


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"loss": "hinge"}, "loss must be one of auto, softmax, sigmoid, squared, .*; got 'hinge'"),
        ({"target": "label"}, "target must be one of .* Did you mean 'labels'"),
        ({"learning_rate": 2.0}, r"learning_rate must be in \(0, 2\); got 2.0"),
        ({"min_cosine": 1}, r"min_cosine must be in \[0, 1\); got 1"),
        ({"retries": -1}, "retries must be an integer >= 0; got -1"),
        ({"on_failure": "ignore"}, "on_failure must be one of stop, warn; got 'ignore'"),
    ],
)
def test_settings_are_checked(settings_: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=f"FunctionalGradient.{message}"):
        FunctionalGradient(**settings_).check(Classification().fit([0, 1]))


class Rough(SoftmaxCrossEntropy):
    smoothness = None


@pytest.mark.parametrize(
    ("rule", "task", "message"),
    [
        (
            FunctionalGradient(loss="sigmoid"),
            Classification().fit([0, 1, 2]),
            'loss="sigmoid" is for two classes; got 3. Use loss="softmax".',
        ),
        (
            FunctionalGradient(loss="squared"),
            Classification().fit([0, 1]),
            "SquaredError takes numbers, but y",
        ),
        (
            FunctionalGradient(loss="softmax"),
            Regression().fit([0.0, 1.0]),
            "takes classes, but numeric y has",
        ),
        (FunctionalGradient(loss="squared"), MultiLabel().fit([[1, 0]]), "takes numbers, but multi-label y"),
        (
            FunctionalGradient(loss=Rough(), learning_rate=1.5),
            Classification().fit([0, 1]),
            r"learning_rate must be in \(0, 1\] under Rough, whose steps are searched for; got 1.5",
        ),
    ],
)
def test_a_loss_that_does_not_fit_the_task_is_refused(
    rule: FunctionalGradient, task: Task, message: str
) -> None:
    with pytest.raises(ParameterError, match=message):
        rule.check(task)


def test_the_weighted_error_is_a_share_of_the_gradient() -> None:
    problem, rule = problem_with(2), FunctionalGradient()
    scores = torch.linspace(-2, 2, 12, dtype=torch.float64)[:, None]
    context = round_at(scores, problem, rule)
    targets = problem.train.targets
    right = torch.where(targets == 1, 1.0, -1.0).double()
    right[:3] *= -1  # of the first three the direction is wrong
    direction = torch.zeros(12, 1, dtype=torch.float64)
    direction[:10, 0] = right
    vote, _ = judged(direction, context, rule)
    sizes = (torch.sigmoid(scores[:10, 0]) - targets).abs()
    assert float(vote.weighted_error) == pytest.approx(float(sizes[:3].sum() / sizes.sum()))


def test_shrinkage_shortens_steps_that_were_searched_for() -> None:
    graph, _ = two_blocks(20)
    y = np.asarray(graph.features)[:, 0]
    one, half = (
        GBGNNRegressor(preset="fast", loss="absolute", learning_rate=rate, n_rounds=1, random_state=0).fit(
            np.arange(15), y[:15], graph=graph
        )
        for rate in (1.0, 0.5)
    )
    assert half.etas_[0] == pytest.approx(one.etas_[0] / 2)
    targets, scores = one.model_.task.encode(y[:15]).reshape(15, 1), one.model_.scores[:15]
    found, less, more = (np.abs(share * scores - targets).mean() for share in (1.0, 0.97, 1.03))
    assert found < min(less, more)  # the whole step is where the loss is smallest


def test_steps_that_are_searched_for_are_best_by_weighted_losses() -> None:
    graph, _ = two_blocks(20)
    y, weights = np.asarray(graph.features)[:, 0], np.where(np.arange(15) < 5, 9.0, 0.1)
    model = GBGNNRegressor(preset="fast", loss="absolute", learning_rate=1.0, n_rounds=1, random_state=0)
    model.fit(np.arange(15), y[:15], graph=graph, sample_weight=weights)
    targets, scores = model.model_.task.encode(y[:15]).reshape(15, 1), model.model_.scores[:15]
    losses = [weights @ np.abs(share * scores - targets)[:, 0] for share in (1.0, 0.97, 1.03)]
    assert losses[0] < min(losses[1:])


def test_retries_are_those_of_the_docs() -> None:
    assert FunctionalGradient().get_params()["retries"] == 3
