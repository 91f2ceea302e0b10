from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
import torch

from gbgnn.aggregation import Adjacency, KernelTargetAlignment
from gbgnn.losses import Loss, SigmoidCrossEntropy, SoftmaxCrossEntropy, SquaredError
from gbgnn.problem import LabelledNodes
from gbgnn.propagation import DenseRows
from gbgnn.rounds import TrainingLoss, WeakTask
from gbgnn.testing import make_context, make_problem, two_blocks

GRAPH, Y = two_blocks(12, n_classes=3)


def scored(n_columns: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(12, n_columns, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def nodes(targets: np.ndarray, weights: np.ndarray | None = None) -> LabelledNodes:
    return LabelledNodes.build(np.array([7, 1, 4, 2, 9]), targets, weights)


CASES: list[tuple[Loss, int, np.ndarray]] = [
    (SigmoidCrossEntropy(), 1, np.array([0, 1, 1, 0, 1])),
    (SigmoidCrossEntropy(), 2, np.array([[0.0, 1], [1, 1], [1, 0], [0, 0], [0, 1]])),
    (SoftmaxCrossEntropy(), 3, np.array([0, 2, 1, 2, 0])),
    (SquaredError(), 2, np.arange(10.0).reshape(5, 2)),
]


def test_the_loss_of_a_task_tells_classes_from_numbers() -> None:
    rows, weights = torch.tensor([0]), torch.tensor([1.0])
    assert WeakTask(rows, torch.tensor([[0.5]]), weights, 1, SquaredError()).is_regression
    assert not WeakTask(rows, torch.tensor([1]), weights, 2, SoftmaxCrossEntropy()).is_regression
    # Numbers that happen to be whole, and 0/1 targets that happen to be floats, are what the loss says.
    assert WeakTask(rows, torch.tensor([[1]]), weights, 1, SquaredError()).is_regression
    assert not WeakTask(rows, torch.tensor([[1.0]]), weights, 1, SigmoidCrossEntropy()).is_regression


@pytest.mark.parametrize(("loss", "n_columns", "targets"), CASES)
def test_gradient_equals_autograd(loss: Loss, n_columns: int, targets: np.ndarray) -> None:
    train, scores = nodes(targets), scored(n_columns).requires_grad_()
    loss.values(scores[train.rows], train.targets).mean().backward()
    expected = -scores.grad[train.rows]
    at = TrainingLoss.at(scores.detach(), train, loss)
    torch.testing.assert_close(at.residuals / train.size, expected)
    assert at.gradient_norm == pytest.approx(float(expected.norm()))


@pytest.mark.parametrize(("loss", "n_columns", "targets"), CASES)
def test_weights_scale_rows_by_their_roots(loss: Loss, n_columns: int, targets: np.ndarray) -> None:
    train, scores = nodes(targets, np.arange(1.0, 6.0)), scored(n_columns)
    at = TrainingLoss.at(scores, train, loss)
    rows, shares = scores[train.rows], np.arange(1.0, 6.0) / 15
    assert at.value == pytest.approx(float(loss.values(rows, train.targets) @ torch.tensor(shares)))
    expected = np.sqrt((shares / 5) @ loss.gradient(rows, train.targets).square().sum(dim=1).numpy())
    assert at.gradient_norm == pytest.approx(float(expected))
    uniform = TrainingLoss.at(scores, nodes(targets), loss)
    assert torch.equal(at.residuals, uniform.residuals)  # weights are left out of them


def test_numbers_are_in_double_precision_and_computed_once() -> None:
    calls = []

    class Counting(SoftmaxCrossEntropy):
        def gradient(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
            calls.append(scores.dtype)
            return super().gradient(scores, targets)

    at = TrainingLoss.at(scored(3, dtype=torch.float32), nodes(CASES[2][2]), Counting())
    assert calls == []  # not before somebody asks
    assert at.residuals is at.residuals
    assert at.gradient_norm == at.gradient_norm
    assert calls == [torch.float64]


def test_a_context_shows_its_problem_and_cannot_be_changed() -> None:
    problem = make_problem(GRAPH, Y, np.arange(6))
    context = make_context(problem, seed=3)
    assert context.inputs is problem.inputs
    assert context.train is problem.train
    assert (context.t, context.seed, context.hops) == (2, 3, ())
    with pytest.raises(FrozenInstanceError):
        context.seed = 4
    with pytest.raises(AssertionError, match="the rule has not asked for anything yet"):
        _ = context.weak_task
    task = WeakTask(torch.tensor([0]), torch.tensor([1]), torch.tensor([1.0]), 3, SoftmaxCrossEntropy())
    assert replace(context, task=task).weak_task is task


def test_other_features_take_the_way_of_the_hops_so_far() -> None:
    context = make_context(make_problem(GRAPH, Y, np.arange(6)))
    hops, X = [], context.X
    for part in (Adjacency(), KernelTargetAlignment(epochs=3)):
        hop, X = part.step(replace(context, X=X))
        hops.append(hop)
    later = replace(context, X=X, hops=tuple(hops))
    torch.testing.assert_close(later.propagate(context.inputs.features).dense(), X.dense())
    doubled = later.propagate(DenseRows(2 * context.inputs.features.dense())).dense()
    torch.testing.assert_close(doubled, 2 * X.dense())
    assert context.propagate(context.X) is context.X
