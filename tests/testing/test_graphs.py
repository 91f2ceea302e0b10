from __future__ import annotations

import numpy as np
import torch

from gbgnn.losses import SigmoidCrossEntropy, SoftmaxCrossEntropy, SquaredError
from gbgnn.tasks import MultiLabel, Regression
from gbgnn.testing import learner_round, make_context, make_problem, make_round, path4, two_blocks

GRAPH, Y = two_blocks(60, n_classes=3)


def test_graphs_are_what_they_say() -> None:
    assert path4().n_edges == 3
    ends = GRAPH.adjacency.tocoo()
    assert (Y[ends.row] == Y[ends.col]).mean() > 0.6
    problem = make_problem(GRAPH, Y, np.arange(6), np.arange(6, 9))
    assert problem.validation is not None
    assert (problem.task.n_columns, problem.train.size, problem.validation.size) == (3, 6, 3)


def test_graphs_of_several_sizes_share_their_class_centres() -> None:
    means = []
    for n_nodes in (600, 900):
        graph, y = two_blocks(n_nodes)
        means.append([np.asarray(graph.features)[y == k].mean(axis=0) for k in range(2)])
    np.testing.assert_allclose(means[0], means[1], atol=0.3)


def test_a_problem_may_be_of_any_task() -> None:
    numbers = np.asarray(GRAPH.features)[:, 0]
    problem = make_problem(GRAPH, numbers, np.arange(6), task=Regression())
    np.testing.assert_allclose(problem.task.decode(problem.train.targets.numpy()), numbers[:6])
    labels = (np.asarray(GRAPH.features) > 0).astype(int)
    several = make_problem(GRAPH, labels, np.arange(6), task=MultiLabel())
    assert several.train.targets.tolist() == labels[:6].tolist()


def test_a_round_starts_from_nothing_at_the_raw_features_or_others() -> None:
    context = make_round(GRAPH, Y, np.arange(6), seed=4)
    assert (context.t, context.seed, context.task) == (2, 4, None)
    assert context.X is context.inputs.features
    assert not context.scores.any()
    assert isinstance(context.training.loss, SoftmaxCrossEntropy)
    other = torch.ones(60, 2, dtype=torch.float64)
    assert make_context(context.problem, other).X.dense() is other
    two = make_round(GRAPH, Y % 2, np.arange(6))
    assert isinstance(two.training.loss, SigmoidCrossEntropy)
    assert two.scores.shape == (60, 1)


def test_a_round_for_a_learner_asks_for_what_it_is_given() -> None:
    X, rows = torch.arange(10.0).view(5, 2), torch.tensor([3, 0])
    classes = learner_round(X, torch.tensor([2, 0]), rows=rows, seed=7)
    task = classes.weak_task
    assert (task.rows.tolist(), task.weights.tolist(), task.n_outputs) == ([3, 0], [0.5, 0.5], 3)
    assert isinstance(task.loss, SoftmaxCrossEntropy)
    assert classes.seed == 7
    assert torch.equal(classes.X.dense(), X)
    assert torch.equal(classes.inputs.P(X), X)  # a graph without edges
    weights = torch.tensor([0.25, 0.75])
    numbers = learner_round(
        X, torch.zeros(2, 4), rows=rows, weights=weights, val=(torch.tensor([4]), torch.zeros(1, 4))
    ).weak_task
    assert numbers.weights is weights
    assert isinstance(numbers.loss, SquaredError)
    assert (numbers.n_outputs, numbers.is_regression, numbers.val_rows.tolist()) == (4, True, [4])
