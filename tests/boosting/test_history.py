from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score

from gbgnn import MLP, Adjacency, GBGNNClassifier
from gbgnn._random import Seeds
from gbgnn.boosting import BoostingRule, FunctionalGradient, History, Samme, SammeR, Vote, boost
from gbgnn.boosting.history import as_rows, guaranteed_decrease, measure, peak_memory, rounding_error
from gbgnn.boosting.loop import compare_own
from gbgnn.boosting.voting import class_codes
from gbgnn.errors import ParameterError
from gbgnn.losses import Loss, SoftmaxCrossEntropy, SquaredError
from gbgnn.metrics import as_metric
from gbgnn.problem import LabelledNodes, Problem
from gbgnn.rounds import TrainingLoss
from gbgnn.tasks import Regression
from gbgnn.testing import make_context, make_problem, two_blocks
from gbgnn.theory import WeakLearning, WeakLearnings, weak_learning

COLUMNS = {
    *("round", "eta", "train_loss", "train_accuracy", "val_loss", "val_accuracy", "gradient_norm"),
    *("cosine", "alpha", "beta", "gamma", "gamma_total", "guaranteed_decrease", "weighted_error"),
    *("edge", "exp_cosine", "exp_alpha", "exp_beta", "exp_gamma", "decrease", "rounding"),
    *("coefficients", "alignment", "learner", "attempts", "seconds", "peak_memory"),
}
# What a rule, a hop or a learner may have nothing to say about.
OPTIONAL = {"alpha", "beta", "gamma", "edge", "alignment", "learner"}
EXPONENTIAL = {name for name in COLUMNS if name.startswith("exp_")}


def test_rows_and_columns() -> None:
    history = History()
    history.append({"round": 1, "gamma": 0.5})
    history.append({"round": 2, "gamma": None})
    history.append({"round": 3, "gamma": 0.25})
    assert history["gamma_total"] == [0.5, 0.5, 0.75]
    assert history[-1]["round"] == 3
    assert [row["round"] for row in history] == [1, 2, 3]
    assert repr(history) == "History(3 rounds)"


def test_a_copy_does_not_grow() -> None:
    history = History(metric="f1")
    history.append({"round": 1, "gamma": 0.5})
    copy = history.copy()
    history.append({"round": 2, "gamma": 0.5})
    assert (len(copy), copy.metric, copy.rows) == (1, "f1", history.rows[:1])


def test_unknown_column_gets_a_hint() -> None:
    with pytest.raises(ParameterError, match="no column 'gama'. Did you mean 'gamma'"):
        History([{"gamma": 1}])["gama"]


@pytest.mark.parametrize("rule", ["gradient", "samme", "samme_r"])
def test_every_rule_records_every_column_as_json(rule: str, blocks: tuple) -> None:
    graph, y = blocks
    model = GBGNNClassifier(rule=rule, aggregation="kta", n_rounds=3, random_state=0)
    model.fit(range(15), y[:15], graph=graph, validation=(range(15, 25), y[15:25]))
    for row in model.history_:
        assert set(row) == COLUMNS
        assert all(row[name] is not None for name in COLUMNS - OPTIONAL - EXPONENTIAL)
        assert (row["exp_cosine"] is None) == (rule == "gradient")
    assert json.loads(json.dumps(model.history_.rows)) == model.history_.rows
    assert model.history_["alignment"][0] is None  # round 1 sees the raw features
    assert model.history_["alignment"][1] > 0
    assert len(model.history_["coefficients"][1]) == 5


@pytest.mark.parametrize("metric", ["neg_log_loss", "f1_macro"])
def test_columns_have_the_name_of_the_metric(metric: str, blocks: tuple) -> None:
    graph, y = blocks
    model = GBGNNClassifier(n_rounds=2, metric=metric, learner=MLP(epochs=3), random_state=0)
    model.fit(range(15), y[:15], graph=graph, validation=(range(15, 25), y[15:25]))
    assert model.history_.metric == metric
    renamed = {name.replace("accuracy", metric) for name in COLUMNS}
    assert all(set(row) == renamed for row in model.history_)
    with pytest.raises(ParameterError, match="the history has no column 'val_accuracy'"):
        model.history_["val_accuracy"]


def test_numbers_have_no_share_of_errors(blocks: tuple) -> None:
    graph, y = blocks
    problem = make_problem(graph, 1.5 * y, y.argsort()[:15], task=Regression())
    parts = (Adjacency(), MLP(epochs=3), FunctionalGradient())
    history = boost(problem, *parts, n_rounds=2, seeds=Seeds(0)).history
    assert history["weighted_error"] == [None, None]
    assert history.metric == "r2"
    assert all(isinstance(value, float) for value in history["train_r2"])
    assert history["val_r2"] == history["val_loss"] == [None, None]
    assert json.loads(json.dumps(history.rows)) == history.rows


def weighted_problem(n_classes: int, weights: np.ndarray | None = None) -> Problem:
    graph, y = two_blocks(12, n_classes=n_classes)
    problem = make_problem(graph, y, np.arange(8), np.arange(8, 12))
    return replace(problem, train=LabelledNodes.build(np.arange(8), y[:8], weights))


def training_at(scores: torch.Tensor, problem: Problem, loss: Loss | None = None) -> TrainingLoss:
    return TrainingLoss.at(scores, problem.train, SoftmaxCrossEntropy() if loss is None else loss)


def quality_of(direction: torch.Tensor, training: TrainingLoss) -> WeakLearning:
    """As the loop measures it."""
    train = training.train
    return weak_learning(direction[train.rows], training.residuals, train.weights / train.size)


def measured(scores: torch.Tensor, problem: Problem, metric: str = "accuracy") -> dict[str, float | None]:
    """As one member of one."""
    training, total = training_at(scores[None], problem), torch.ones(1, dtype=torch.float64)
    rule = FunctionalGradient(loss="softmax")
    return as_rows(measure(scores[None], total, problem, training, rule, as_metric(metric)), 1)[0]


@pytest.mark.parametrize("loss", [SoftmaxCrossEntropy(), SquaredError()])
def test_weighted_inner_products_are_those_of_the_weighted_loss(loss: Loss) -> None:
    """d/d eta of the weighted loss along f, at 0, is -M <Z, g>."""
    problem = weighted_problem(3, np.arange(1.0, 9.0))
    train, step = problem.train, 1e-6
    if loss.takes == "numbers":
        train = replace(train, targets=torch.arange(24.0, dtype=torch.float64).view(8, 3))
    random = torch.Generator().manual_seed(0)
    scores, f = torch.randn(2, 12, 3, generator=random, dtype=torch.float64)
    ends = [
        float(loss.mean((scores + sign * step * f)[train.rows], train.targets, train.weights))
        for sign in (1, -1)
    ]
    quality = quality_of(f, TrainingLoss.at(scores, train, loss))
    assert -(ends[0] - ends[1]) / (2 * step) == pytest.approx(train.size * quality.inner, rel=1e-5)


def test_guarantee_of_a_step_too_long_is_negative() -> None:
    training = training_at(torch.zeros(12, 3, dtype=torch.float64), weighted_problem(3))
    direction = torch.nn.functional.one_hot(torch.arange(12) % 3).double()
    quality = quality_of(direction, training)
    best = 1 / (training.loss.smoothness * quality.alpha)
    assert guaranteed_decrease(quality, best, training) > 0
    assert guaranteed_decrease(quality, 2 * best, training) == pytest.approx(0, abs=1e-12)
    assert guaranteed_decrease(quality, 3 * best, training) < 0


def test_without_a_bound_of_the_curvature_nothing_is_promised() -> None:
    class Rough(SoftmaxCrossEntropy):
        smoothness = None

    training = training_at(torch.zeros(12, 3, dtype=torch.float64), weighted_problem(3), Rough())
    quality = quality_of(torch.nn.functional.one_hot(torch.arange(12) % 3).double(), training)
    assert guaranteed_decrease(quality, 1.0, training) is None


def test_accuracies_and_losses_are_of_their_own_nodes() -> None:
    problem = weighted_problem(3)
    scores = torch.zeros(12, 3, dtype=torch.float64)
    scores[torch.arange(8), torch.arange(8) % 3] = 50.0  # right on the train nodes only
    scores[torch.arange(8, 12), (torch.arange(8, 12) + 1) % 3] = 50.0
    found = measured(scores, problem)
    assert list(found) == ["train_loss", "train_accuracy", "val_loss", "val_accuracy"]
    assert found["train_accuracy"] == 1
    assert found["val_accuracy"] == 0
    assert found["train_loss"] < 1e-9
    assert found["val_loss"] == pytest.approx(50)


def test_the_metric_judges_both_sets_of_nodes_and_none_where_there_are_none() -> None:
    problem = weighted_problem(3)
    scores = torch.randn(12, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = measured(scores, problem, "f1_macro")
    for part, nodes in (("train", problem.train), ("val", problem.validation)):
        decided = scores[nodes.rows].argmax(dim=1)
        assert found[f"{part}_f1_macro"] == pytest.approx(f1_score(nodes.targets, decided, average="macro"))
    found = measured(scores, replace(problem, validation=None))
    assert found["val_loss"] is found["val_accuracy"] is None


def test_probabilities_are_those_of_all_steps_so_far() -> None:
    problem = weighted_problem(3)
    scores = torch.randn(12, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    many, totals = torch.stack([scores, 9 * scores]), torch.tensor([1.0, 9.0], dtype=torch.float64)
    training, metric = training_at(many, problem), as_metric("neg_log_loss")
    short, long = as_rows(measure(many, totals, problem, training, Samme(), metric), 2)
    assert long["val_neg_log_loss"] == pytest.approx(short["val_neg_log_loss"])
    assert long["val_loss"] != pytest.approx(short["val_loss"])


def test_peak_memory_is_a_number_of_bytes() -> None:
    assert peak_memory(torch.device("cpu")) > 10 * 2**20


def test_peak_memory_is_unknown_where_the_system_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "resource", None)
    assert peak_memory(torch.device("cpu")) is None


@pytest.mark.parametrize(("rule", "scale"), [(Samme(), (2 / 3) ** 2), (SammeR(), 1 / 3)])
def test_exponential_condition_is_that_of_the_rules_own_loss(rule: BoostingRule, scale: float) -> None:
    """The oracle is autograd through log sum s exp(-c <y, Y>), at the scores that rounds have reached."""
    problem = weighted_problem(3, np.arange(1.0, 9.0))
    train, voting = problem.train, rule.voting_for(problem.task)
    scores, state = torch.zeros(12, 3, dtype=torch.float64), rule.start(problem, 1)
    for t in range(4):
        output = torch.randn(12, 3, generator=torch.Generator().manual_seed(t), dtype=torch.float64)
        output[torch.arange(12), torch.arange(12) % 3] += 2  # better than chance
        training = training_at(scores, problem)
        context = replace(make_context(problem), scores=scores, training=training).batched()
        direction = voting.direction(output)[None]
        shares = train.weights / train.size
        quality = WeakLearnings.measure(direction[:, train.rows], training.residuals[None], shares)
        vote = rule.vote(direction, quality, context, state).broadcast()
        Y = scores.clone().requires_grad_()
        codes = class_codes(train.targets, 3, like=scores)
        exponents = -scale * (codes * Y[train.rows]).sum(dim=1) + train.weights.log()
        exponents.logsumexp(0).backward()
        expected = -Y.grad[train.rows] / train.weights[:, None]
        torch.testing.assert_close(rule.own_residuals(state, context)[0], expected)
        own = compare_own(vote, context, rule, state)[0]
        oracle = weak_learning(vote.direction[0, train.rows], expected, shares)
        assert own.cosine == pytest.approx(oracle.cosine)
        assert own.alpha == pytest.approx(oracle.alpha)
        assert own.is_met  # better than chance is the condition, for this loss
        scores = scores + vote.eta * vote.direction[0]
        state = rule.update(state, vote, context)


def test_rounding_error_bounds_what_float32_does_to_the_loss() -> None:
    problem, loss = weighted_problem(3), SoftmaxCrossEntropy()
    train = problem.train
    for seed in range(200):
        random = torch.Generator().manual_seed(seed)
        scores = (torch.randn(12, 3, generator=random) * 10.0 ** (seed % 4)).float()
        direction = torch.randn(12, 3, generator=random)
        vote = Vote(0.37 * 3.0 ** (seed % 5), direction, quality_of(direction, training_at(scores, problem)))
        exact = scores.double() + vote.eta * direction.double()
        rounded = scores + vote.eta * direction  # as the loop does
        moved = loss.mean(exact[train.rows], train.targets) - loss.mean(rounded[train.rows], train.targets)
        assert abs(moved) <= rounding_error(vote, training_at(rounded, problem))


def test_rounding_error_bounds_the_squared_error_too() -> None:
    """Its gradient grows with the error, and so must the bound."""
    graph, _ = two_blocks(12)
    loss = SquaredError()
    for seed in range(200):
        random = torch.Generator().manual_seed(seed)
        y = 3 * np.random.default_rng(seed).normal(size=(12, 2))
        problem = make_problem(graph, y, np.arange(8), task=Regression())
        train = problem.train
        scores = torch.randn(12, 2, generator=random) * 10.0 ** (seed % 4)
        direction = torch.randn(12, 2, generator=random)
        quality = quality_of(direction, training_at(scores, problem, loss))
        vote = Vote(0.37 * 3.0 ** (seed % 5), direction, quality)
        exact = scores.double() + vote.eta * direction.double()
        rounded = scores + vote.eta * direction
        moved = loss.mean(exact[train.rows], train.targets) - loss.mean(rounded[train.rows], train.targets)
        assert abs(moved) <= rounding_error(vote, training_at(rounded, problem, loss))
