"""Small graphs with names."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from gbgnn.graph import Graph
from gbgnn.losses import SoftmaxCrossEntropy, SquaredError
from gbgnn.problem import InputRecipe, LabelledNodes, NodeInputs, Problem
from gbgnn.propagation import AugmentedAdjacency, DenseRows, Operator, Propagator
from gbgnn.rounds import RoundContext, TrainingLoss, WeakTask
from gbgnn.tasks import Classification, Task


def path4() -> Graph:
    """Return the path 0 - 1 - 2 - 3 with features 1, 2, 4, 8: small enough to work by hand."""
    adjacency = np.diag(np.ones(3), 1) + np.diag(np.ones(3), -1)
    return Graph(adjacency, [[1.0], [2.0], [4.0], [8.0]])


def two_blocks(
    n_nodes: int = 40, n_classes: int = 2, seed: int = 0, n_features: int = 5
) -> tuple[Graph, NDArray[np.int64]]:
    """Return a noisy block graph with class-dependent features, and the classes."""
    random = np.random.default_rng(seed)
    # Drawn first, so that graphs of several sizes share their class centres.
    centres = random.normal(size=(n_classes, n_features))
    y = np.arange(n_nodes) % n_classes
    chance = np.where(y[:, None] == y, 0.4, 0.05)
    upper = np.triu(random.random((n_nodes, n_nodes)) < chance, 1)
    features = centres[y] + random.normal(size=(n_nodes, n_features))
    return Graph((upper | upper.T).astype(float), features), y


def make_problem(
    graph: Graph,
    y: NDArray[Any],
    train: NDArray[np.int64],
    val: NDArray[np.int64] | None = None,
    dtype: torch.dtype = torch.float64,
    task: Task | None = None,
) -> Problem:
    """Return the problem of predicting ``y`` (of all nodes) from those of the nodes ``train``.

    The task is to tell classes apart unless another is given.
    """
    task = (Classification() if task is None else task).fit(y)
    return Problem(
        inputs=InputRecipe(AugmentedAdjacency(), dtype=dtype).build(graph),
        task=task,
        train=LabelledNodes.build(train, task.encode(y[train])),
        validation=None if val is None else LabelledNodes.build(val, task.encode(y[val])),
    )


def make_round(
    graph: Graph, y: NDArray[Any], train: NDArray[np.int64], *, seed: int = 0, task: Task | None = None
) -> RoundContext:
    """Return the second round of a problem, before its hop, with nothing in the scores."""
    return make_context(make_problem(graph, y, train, task=task), seed=seed)


def make_context(problem: Problem, X: torch.Tensor | None = None, seed: int = 0) -> RoundContext:
    """Return the second round of a problem, before its hop; ``X`` is another representation to start from."""
    loss = problem.task.default_loss
    scores = problem.inputs.zero_scores(problem.task.n_outputs(loss))
    rows = problem.inputs.features if X is None else DenseRows(X)
    return RoundContext(2, problem, rows, (), scores, TrainingLoss.at(scores, problem.train, loss), seed)


def learner_round(
    X: torch.Tensor,
    targets: torch.Tensor,
    *,
    seed: int = 0,
    weights: torch.Tensor | None = None,
    rows: torch.Tensor | None = None,
    val: tuple[torch.Tensor, torch.Tensor] | None = None,
    n_outputs: int | None = None,
) -> RoundContext:
    """Return a round that asks a learner to fit some rows of a representation, in a graph without edges.

    Targets are class indices, to be fitted by cross entropy, or numbers, by squared error. They are those of
    the nodes ``rows``; None is all. Weights are uniform unless given, ``val`` holds ids and targets of
    validation nodes, and ``n_outputs=None`` counts the classes, or the columns of numbers.
    """
    is_numeric = targets.is_floating_point()
    rows = torch.arange(len(X)) if rows is None else rows
    weights = torch.full((len(rows),), 1 / len(rows), dtype=torch.float64) if weights is None else weights
    if n_outputs is None:
        n_outputs = targets.shape[1] if is_numeric else int(targets.max()) + 1
    val_rows, val_targets = (None, None) if val is None else val
    loss = SquaredError() if is_numeric else SoftmaxCrossEntropy()
    train = LabelledNodes(rows, targets, weights)
    P = Propagator(Operator.from_matrix(sp.eye_array(len(X), format="csr")), X.device, X.dtype)
    task = Classification(classes=np.arange(max(2, n_outputs)))
    problem = Problem(NodeInputs.from_tensor(X, P), task, train)
    scores = torch.zeros(len(X), n_outputs, dtype=X.dtype)
    return RoundContext(
        t=1,
        problem=problem,
        X=problem.inputs.features,
        hops=(),
        scores=scores,
        training=TrainingLoss.at(scores, train, loss),
        seed=seed,
        task=WeakTask(rows, targets, weights, n_outputs, loss, val_rows, val_targets),
    )
