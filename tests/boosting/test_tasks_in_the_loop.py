"""One loop for every task: numbers and several labels per node go through ``boost`` as classes do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression
from sklearn.metrics import f1_score, r2_score

from gbgnn import (
    MLP,
    Adjacency,
    ConstrainedMLP,
    FunctionalGradient,
    Graph,
    Identity,
    InputInjection,
    KernelTargetAlignment,
    Linear,
    MultiLabel,
    Regression,
    SklearnLearner,
    WideReLU,
)
from gbgnn._random import Seeds
from gbgnn.aggregation import Aggregation
from gbgnn.boosting import Boosted, StopReason, boost, stage
from gbgnn.learners import Head, Learner
from gbgnn.losses import Loss
from gbgnn.metrics import as_metric
from gbgnn.problem import LabelledNodes, Problem
from gbgnn.rounds import RoundContext
from gbgnn.tasks import Task
from gbgnn.testing import make_problem, two_blocks
from gbgnn.theory import Certificate

N, TRAIN, VAL = 120, np.arange(60), np.arange(60, 100)


def targets_that_the_graph_tells(task: str) -> tuple[Graph, np.ndarray]:
    """Smooth functions of the features over the graph, with some noise."""
    graph, blocks = two_blocks(N, n_classes=3, seed=0)
    random = np.random.default_rng(0)
    A = graph.adjacency + np.eye(N)
    P = np.asarray(A / A.sum(axis=1, keepdims=True))
    smooth = P @ np.asarray(graph.features)
    numbers = smooth[:, :2] @ np.array([[2.0, 0.5], [-1.0, 1.0]]) + 0.1 * random.normal(size=(N, 2))
    if task == "number":
        return graph, 1000 + 50 * numbers[:, 0]
    if task == "numbers":
        return graph, np.array([1000.0, -3.0]) + np.array([50.0, 0.01]) * numbers
    return graph, np.column_stack([numbers > np.median(numbers, axis=0), blocks == 1]).astype(int)


KINDS: dict[str, Task] = {"number": Regression(), "numbers": Regression(), "labels": MultiLabel()}
AGGREGATIONS = [Adjacency(), KernelTargetAlignment(epochs=5), InputInjection(), Linear()]


def problem_for(kind: str, dtype: torch.dtype = torch.float32) -> Problem:
    graph, y = targets_that_the_graph_tells(kind)
    return make_problem(graph, y, TRAIN, VAL, dtype=dtype, task=KINDS[kind])


def run(problem: Problem, aggregation: Aggregation, n_rounds: int = 8, **options: Any) -> Boosted:
    rule = options.pop("rule", FunctionalGradient(learning_rate=0.7))
    learner = options.pop("learner", MLP(epochs=30, units=16))
    rule.check(problem.task)
    return boost(problem, aggregation, learner, rule, n_rounds=n_rounds, seeds=Seeds(0), **options)


def assert_certified(result: Boosted, problem: Problem, loss: Loss) -> None:
    """Every round lowered the training loss by what smoothness alone promises of it."""
    for row in result.history:
        assert row["guaranteed_decrease"] > 0
        assert row["decrease"] >= row["guaranteed_decrease"] - row["rounding"]
    certificate = Certificate.from_history(result.history.rows, loss.smoothness, problem.train.size)
    assert certificate.met == tuple(range(1, len(result.ensemble) + 1))
    assert certificate.holds


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("aggregation", AGGREGATIONS, ids=repr)
@pytest.mark.parametrize("kind", KINDS)
def test_every_task_is_learned_with_its_certificate(
    kind: str, aggregation: Aggregation, dtype: torch.dtype
) -> None:
    problem = problem_for(kind, dtype)
    result = run(problem, aggregation)
    assert result.stop is StopReason.ROUNDS_EXHAUSTED
    assert_certified(result, problem, problem.task.default_loss)
    losses = [problem_loss(problem), *result.history["train_loss"]]
    assert losses == sorted(losses, reverse=True)
    metric = problem.task.default_metric
    assert result.history.metric == metric
    best = result.history[result.best.t - 1]
    assert best[f"val_{metric}"] == max(result.history[f"val_{metric}"])
    assert best[f"train_{metric}"] > 0.6
    assert best[f"val_{metric}"] > 0.5


def problem_loss(problem: Problem) -> float:
    """The loss before round 1."""
    loss, train = problem.task.default_loss, problem.train
    zeros = torch.zeros(train.size, problem.task.n_outputs(loss), dtype=torch.float64)
    return loss.mean(zeros, train.targets)


@pytest.mark.parametrize("kind", ["number", "numbers"])
def test_r2_is_that_of_the_numbers_in_their_own_unit(kind: str) -> None:
    _, y = targets_that_the_graph_tells(kind)
    problem = problem_for(kind)
    result = run(problem, Adjacency())
    decoded = problem.task.decode(result.scores.double().numpy())
    assert decoded.shape == y.shape
    for part, nodes in (("train", TRAIN), ("val", VAL)):
        assert result.history[-1][f"{part}_r2"] == pytest.approx(r2_score(y[nodes], decoded[nodes]), rel=1e-5)


def test_f1_is_that_of_all_entries_of_the_labels() -> None:
    _, y = targets_that_the_graph_tells("labels")
    result = run(problem_for("labels"), Adjacency())
    decided = result.scores.numpy() > 0
    expected = f1_score(y[VAL], decided[VAL], average="micro")
    assert result.history[-1]["val_f1_micro"] == pytest.approx(expected)


@pytest.mark.parametrize("aggregation", AGGREGATIONS, ids=repr)
@pytest.mark.parametrize("kind", KINDS)
def test_staged_equals_shorter_fits_and_known_rounds_are_replayed(
    kind: str, aggregation: Aggregation
) -> None:
    problem = problem_for(kind)
    whole = run(problem, aggregation, 4)
    voting = FunctionalGradient().voting_for(problem.task)
    for t, scores in stage(whole.ensemble, problem.inputs, voting):
        assert scores.numpy().tobytes() == run(problem, aggregation, t).scores.numpy().tobytes()
    again = run(problem, aggregation, 4, known=whole.ensemble[:2])
    assert torch.equal(again.scores, whole.scores)


@pytest.mark.parametrize("kind", KINDS)
def test_labels_of_other_nodes_do_not_matter(kind: str) -> None:
    """A problem is given the whole of y, and looks at the labelled nodes only."""
    _, y = targets_that_the_graph_tells(kind)
    task, scrambled = KINDS[kind].fit(y[TRAIN]), y.copy()
    scrambled[100:] = scrambled[100:][::-1]
    first, second = (
        Problem(
            problem_for(kind).inputs,
            task,
            LabelledNodes.build(TRAIN, task.encode(labels)[TRAIN]),
            LabelledNodes.build(VAL, task.encode(labels)[VAL]),
        )
        for labels in (y, scrambled)
    )
    assert torch.equal(run(first, InputInjection(), 3).scores, run(second, InputInjection(), 3).scores)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_of_nodes_are_those_of_the_loss(kind: str) -> None:
    """A node of weight two counts like two nodes of weight one; the certificate holds all the same."""
    problem = problem_for(kind, torch.float64)
    random = np.random.default_rng(0)
    train = problem.train
    weighted = replace(
        problem, train=LabelledNodes.build(TRAIN, train.targets.numpy(), random.uniform(0.1, 1, size=60))
    )
    result = run(weighted, KernelTargetAlignment(epochs=5))
    assert_certified(result, weighted, problem.task.default_loss)
    assert result.history["train_loss"][-1] < 0.5 * problem_loss(problem)


@pytest.mark.parametrize(
    "learner",
    [
        ConstrainedMLP(max_norm=4.0),
        WideReLU(units=512, beta=0.9),
        SklearnLearner(estimator=LinearRegression()),
        MLP(epochs=200, patience=10, units=16),
    ],
    ids=lambda learner: type(learner).__name__,
)
@pytest.mark.parametrize("kind", KINDS)
def test_every_learner_can_follow_the_gradient_of_every_task(kind: str, learner: Learner) -> None:
    problem = problem_for(kind)
    result = run(problem, InputInjection(), 5, learner=learner)
    assert_certified(result, problem, problem.task.default_loss)
    assert result.history["train_loss"][-1] < 0.8 * problem_loss(problem)


class LinearHead(Head):
    """Least squares, for the closed form below."""

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.weight = weight

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return X @ self.weight

    def state(self) -> dict[str, torch.Tensor]:
        return {"weight": self.weight}

    @classmethod
    def from_state(cls, state: dict[str, torch.Tensor]) -> Head:
        return cls(state["weight"])


@dataclass(kw_only=True, eq=False, repr=False)
class LeastSquares(Learner):
    def check(self) -> None:
        pass

    def fit(self, context: RoundContext) -> Head:
        task = context.weak_task
        roots = task.weights.sqrt()[:, None]
        solved = torch.linalg.lstsq(roots * context.X.rows(task.rows), roots * task.targets)
        return LinearHead(solved.solution)


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("learning_rate", [0.3, 1.0])
def test_without_a_graph_and_with_least_squares_boosting_has_a_closed_form(
    learning_rate: float, is_weighted: bool
) -> None:
    """Every round goes the same share of what is left to the least squares solution.

    With H the projection on the columns of X, the residual is 2 (y - s) and f = 2 H (y - s), so that the best
    step along it is 1/2: s_t = (1 - (1 - nu)^t) H y.
    """
    problem = problem_for("numbers", torch.float64)
    if is_weighted:
        weights = np.random.default_rng(0).uniform(0.1, 1, size=60)
        train = LabelledNodes.build(TRAIN, problem.train.targets.numpy(), weights)
        problem = replace(problem, train=train)
    rule = FunctionalGradient(learning_rate=learning_rate)
    n_rounds = 1 if learning_rate == 1 else 6
    result = run(problem, Identity(), n_rounds, rule=rule, learner=LeastSquares())
    X, roots = problem.inputs.features.dense().numpy(), problem.train.weights.sqrt().numpy()[:, None]
    solution, *_ = np.linalg.lstsq(roots * X[:60], roots * problem.train.targets.numpy(), rcond=None)
    assert result.ensemble.etas == pytest.approx([learning_rate / 2] * n_rounds)
    for t, scores in stage(result.ensemble, problem.inputs, rule.voting_for(problem.task)):
        np.testing.assert_allclose(scores, (1 - (1 - learning_rate) ** t) * X @ solution, atol=1e-10)
    rows = problem.train.targets.numpy() - X[:60] @ solution
    left, start = (roots**2 * rows**2).sum(), (roots**2 * problem.train.targets.numpy() ** 2).sum()
    share = (1 - learning_rate) ** (2 * n_rounds)
    assert result.history["train_loss"][-1] == pytest.approx(left + share * (start - left))


def test_with_the_whole_step_nothing_is_left_that_a_linear_learner_could_follow() -> None:
    problem = problem_for("number", torch.float64)
    rule = FunctionalGradient(learning_rate=1.0, min_cosine=1e-6)
    result = run(problem, Identity(), 5, rule=rule, learner=LeastSquares())
    assert len(result.ensemble) == 1
    assert result.stop is StopReason.WEAK_LEARNING_FAILED


def test_the_unit_of_y_changes_nothing_but_the_unit_of_predictions() -> None:
    graph, y = targets_that_the_graph_tells("number")
    problems = [make_problem(graph, z, TRAIN, VAL, task=Regression()) for z in (y, 2.0**20 * y)]
    first, second = (run(problem, Adjacency(), 3) for problem in problems)
    np.testing.assert_allclose(second.scores, first.scores, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        problems[1].task.decode(second.scores.numpy()),
        2.0**20 * problems[0].task.decode(first.scores.numpy()),
        rtol=1e-9,
    )


@dataclass(kw_only=True, eq=False, repr=False)
class LogCosh(Loss):
    """A loss of one's own."""

    takes = "numbers"
    smoothness = 1.0

    def values(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return torch.log(torch.cosh(scores - targets)).sum(dim=1)

    def gradient(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return torch.tanh(scores - targets)

    def curvature(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return 1 - self.gradient(scores, targets).square()

    def link(self, scores: torch.Tensor) -> torch.Tensor:
        return scores


def test_a_loss_of_ones_own_is_descended_on_with_its_certificate() -> None:
    problem, loss = problem_for("number"), LogCosh()
    result = run(problem, Adjacency(), rule=FunctionalGradient(loss=loss, learning_rate=1.0))
    assert_certified(result, problem, loss)
    assert result.history[-1]["train_r2"] > 0.5
    expected = loss.mean(result.scores[TRAIN].double(), problem.train.targets)
    assert result.history[-1]["train_loss"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("kind", "metric"),
    [
        ("number", "neg_mean_absolute_error"),
        ("numbers", "neg_root_mean_squared_error"),
        ("labels", "roc_auc"),
    ],
)
def test_another_metric_chooses_the_round_of_any_task(kind: str, metric: str) -> None:
    result = run(problem_for(kind), Adjacency(), metric=as_metric(metric))
    column = result.history[f"val_{metric}"]
    assert column[result.best.t - 1] == max(column)
    assert "val_r2" not in result.history[0]
