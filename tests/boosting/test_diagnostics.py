from __future__ import annotations

import numpy as np
import pytest
import torch

from gbgnn.boosting import BoostingRule, Samme, SammeR, Vote
from gbgnn.boosting.diagnostics import (
    direction_quality,
    guaranteed_decrease,
    look_ahead,
    measure,
    negative_gradient,
    peak_memory,
    rounding_error,
)
from gbgnn.boosting.rules.base import class_codes
from gbgnn.losses import SigmoidCrossEntropy, SoftmaxCrossEntropy
from gbgnn.problem import LabelledNodes, Problem
from gbgnn.testing import problem_of, two_blocks
from gbgnn.theory import weak_learning


def weighted_problem(n_classes: int, weights: np.ndarray | None = None) -> Problem:
    graph, y = two_blocks(12, n_classes=n_classes)
    problem = problem_of(graph, y, np.arange(8), np.arange(8, 12))
    train = LabelledNodes.build(np.arange(8), y[:8], weights)
    return Problem(problem.inputs, train, n_classes, problem.validation)


@pytest.mark.parametrize(("n_classes", "loss"), [(2, SigmoidCrossEntropy()), (3, SoftmaxCrossEntropy())])
def test_gradient_equals_autograd(n_classes: int, loss: object) -> None:
    problem = weighted_problem(n_classes)
    shape = (12, loss.n_outputs(n_classes))
    scores = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    scores.requires_grad_()
    loss.values(scores[problem.train.rows], problem.train.targets).mean().backward()
    expected = -scores.grad[problem.train.rows]
    torch.testing.assert_close(negative_gradient(scores.detach(), problem, loss), expected)
    measured = measure(scores.detach(), problem, loss)["gradient_norm"]
    assert measured == pytest.approx(float(expected.norm()))


def test_weighted_inner_products_are_those_of_the_weighted_loss() -> None:
    """d/d eta of the weighted loss along f, at 0, is -M <Z, g>."""
    problem = weighted_problem(3, np.arange(1.0, 9.0))
    loss = SoftmaxCrossEntropy()
    random = torch.Generator().manual_seed(0)
    scores, f = torch.randn(2, 12, 3, generator=random, dtype=torch.float64)
    train, step = problem.train, 1e-6
    ends = [
        loss.mean((scores + sign * step * f)[train.rows], train.targets, train.weights) for sign in (1, -1)
    ]
    quality = direction_quality(f, scores, problem, loss)
    assert -(ends[0] - ends[1]) / (2 * step) == pytest.approx(train.size * quality.inner, rel=1e-5)


def test_guarantee_of_a_step_too_long_is_negative() -> None:
    problem, loss = weighted_problem(3), SoftmaxCrossEntropy()
    scores = torch.zeros(12, 3, dtype=torch.float64)
    direction = torch.nn.functional.one_hot(torch.arange(12) % 3).double()
    quality = direction_quality(direction, scores, problem, loss)
    best = 1 / (loss.smoothness * quality.alpha)
    assert guaranteed_decrease(quality, best, problem, loss) > 0
    assert guaranteed_decrease(quality, 2 * best, problem, loss) == pytest.approx(0, abs=1e-12)
    assert guaranteed_decrease(quality, 3 * best, problem, loss) < 0


def test_accuracies_and_losses_are_of_their_own_nodes() -> None:
    problem, loss = weighted_problem(3), SoftmaxCrossEntropy()
    scores = torch.zeros(12, 3, dtype=torch.float64)
    scores[torch.arange(8), torch.arange(8) % 3] = 50.0  # right on the train nodes only
    scores[torch.arange(8, 12), (torch.arange(8, 12) + 1) % 3] = 50.0
    measured = measure(scores, problem, loss)
    assert measured["train_accuracy"] == 1
    assert measured["val_accuracy"] == 0
    assert measured["train_loss"] < 1e-9
    assert measured["val_loss"] == pytest.approx(50)


def test_peak_memory_is_a_number_of_bytes() -> None:
    assert peak_memory(torch.device("cpu")) > 10 * 2**20


def test_peak_memory_is_unknown_where_the_system_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "resource", None)
    assert peak_memory(torch.device("cpu")) is None


@pytest.mark.parametrize(("rule", "scale"), [(Samme(), (2 / 3) ** 2), (SammeR(), 1 / 3)])
def test_exponential_condition_is_that_of_the_rules_own_loss(rule: BoostingRule, scale: float) -> None:
    """The oracle is autograd through log sum s exp(-c <y, Y>), at the scores that rounds have reached."""
    problem = weighted_problem(3, np.arange(1.0, 9.0))
    train = problem.train
    scores, importance = torch.zeros(12, 3, dtype=torch.float64), rule.initial_importance(problem)
    for t in range(4):
        output = torch.randn(12, 3, generator=torch.Generator().manual_seed(t), dtype=torch.float64)
        output[torch.arange(12), torch.arange(12) % 3] += 2  # better than chance
        vote = rule.vote(rule.direction(output, 3), rule.task(importance, scores, problem), scores, problem)
        Y = scores.clone().requires_grad_()
        codes = class_codes(train.targets, 3, like=scores)
        exponents = -scale * (codes * Y[train.rows]).sum(dim=1) + train.weights.log()
        exponents.logsumexp(0).backward()
        expected = -Y.grad[train.rows] / train.weights[:, None]
        torch.testing.assert_close(rule.exponential_residuals(importance, problem), expected)
        own = look_ahead(vote, importance, scores, problem, rule).own_quality
        oracle = weak_learning(vote.direction[train.rows], expected, train.weights / train.size)
        assert own.cosine == pytest.approx(oracle.cosine)
        assert own.alpha == pytest.approx(oracle.alpha)
        assert own.is_met  # better than chance is the condition, for this loss
        scores = scores + vote.eta * vote.direction
        importance = rule.advance(importance, vote, problem)


def test_rounding_error_bounds_what_float32_does_to_the_loss() -> None:
    problem, loss = weighted_problem(3), SoftmaxCrossEntropy()
    train = problem.train
    for seed in range(200):
        random = torch.Generator().manual_seed(seed)
        scores = (torch.randn(12, 3, generator=random) * 10.0 ** (seed % 4)).float()
        vote = Vote(0.37 * 3.0 ** (seed % 5), torch.randn(12, 3, generator=random), 0.0)
        exact = scores.double() + vote.eta * vote.direction.double()
        rounded = scores + vote.eta * vote.direction
        moved = loss.mean(exact[train.rows], train.targets) - loss.mean(rounded[train.rows], train.targets)
        assert abs(moved) <= rounding_error(vote, rounded, problem)
