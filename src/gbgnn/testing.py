"""Toy graphs and contract checks, which raise AssertionError: for our own tests and for those of plug-ins."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from sklearn.base import clone

from gbgnn.aggregation import Aggregation
from gbgnn.boosting import BoostingRule
from gbgnn.graph import Graph
from gbgnn.learners import Learner, MLPHead
from gbgnn.learners.base import ALL_ROWS, GRAPH, LABELLED, USES
from gbgnn.losses import Loss, SoftmaxCrossEntropy, SquaredError
from gbgnn.problem import InputRecipe, LabelledNodes, NodeInputs, Problem
from gbgnn.propagation import (
    AugmentedAdjacency,
    DenseRows,
    NormalizedLaplacian,
    Propagation,
    Propagator,
    Representation,
)
from gbgnn.rounds import RoundContext, TrainingLoss, WeakTask, for_rows
from gbgnn.tasks import Classification, Task
from gbgnn.theory import WeakLearnings


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
    """Return the problem of predicting ``y`` (of all nodes) from those of ``train``; classes by default."""
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
    training, head = TrainingLoss.at(scores, problem.train, loss), _some_network(rows)
    return RoundContext(2, problem, rows, (), scores, training, seed, previous=lambda: head)


def _some_network(rows: Representation) -> MLPHead:
    """Return a network that the round before could have trained."""
    random = np.random.default_rng(0)

    def draw(*shape: int) -> torch.Tensor:
        return torch.tensor(random.normal(size=shape), dtype=rows.dtype, device=rows.device)

    return MLPHead([(draw(3, rows.shape[1]), draw(3)), (draw(2, 3), draw(2))])


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
    loss = SquaredError() if is_numeric else SoftmaxCrossEntropy()
    train = LabelledNodes(rows, targets, weights)
    P = Propagator(sp.eye_array(len(X), format="csr"), X.device, X.dtype)
    task = Classification(classes=np.arange(max(2, n_outputs)))
    problem = Problem(NodeInputs.from_tensor(X, P), task, train)
    scores = torch.zeros(len(X), n_outputs, dtype=X.dtype)
    training = TrainingLoss.at(scores, train, loss)
    asked = WeakTask(rows, targets, weights, n_outputs, loss, *(val or ()))
    return RoundContext(1, problem, problem.inputs.features, (), scores, training, seed, asked)


def check_aggregation(aggregation: Aggregation) -> None:
    """Check settings, determinism, untouched inputs, records and node-permutation equivariance."""
    _check_settings(aggregation)
    aggregation.check()
    problem, permuted, order = _problem_twice()
    context = make_context(problem, seed=1)
    before = context.X.dense().clone()
    hop, mixed = aggregation.step(context)
    X = mixed.dense().clone()
    assert torch.equal(context.X.dense(), before), "step changed its input"
    applied = hop(context.X, problem.inputs).dense()
    assert torch.equal(context.X.dense(), before), "the hop changed its input"
    assert torch.equal(X, applied), "step returned another representation than its hop gives"
    again = aggregation.fit(context)(context.X, problem.inputs).dense()
    assert torch.equal(X, again), "the same seed gave another hop"
    restored = type(hop).from_record(hop.record(), hop.state())(context.X, problem.inputs).dense()
    assert torch.equal(X, restored), "from_record(record(), state()) is another hop"
    _, mixed_permuted = aggregation.step(make_context(permuted, seed=1))
    assert torch.allclose(mixed_permuted.dense(), X[order]), "not equivariant"


def check_learner(learner: Learner, task: WeakTask | None = None) -> None:
    """Check settings, determinism, shape, untouched inputs, and that it looks at no more than it says."""
    _check_settings(learner)
    learner.check()
    problem, _, _ = _problem_twice()
    if task is None:
        train, n_outputs = problem.train, problem.task.n_columns
        task = WeakTask(train.rows, train.targets, train.weights, n_outputs, SoftmaxCrossEntropy())
    context = replace(make_context(problem, seed=1), task=task)
    before = context.X.dense().clone()
    head = learner.fit(context)
    output = head.evaluate(context.X, problem.inputs)
    assert torch.equal(context.X.dense(), before), "fit or evaluate changed its input"
    assert output.shape == (len(before), task.n_outputs), f"wrong output shape {tuple(output.shape)}"
    assert torch.equal(output, learner.fit(context).evaluate(context.X, problem.inputs)), (
        "the same seed gave another head"
    )
    named = dict(head.named_parameters())
    assert all(name in named for name in head.first_layer or ()), "first_layer must name parameters"
    owed = head.importances()
    is_share = owed is None or (owed.shape == before.shape[1:] and (owed >= 0).all())
    assert is_share, "importances must be a number per input column, zero or more"
    assert learner.uses in USES, f"uses must be one of {', '.join(USES)}; got {learner.uses!r}"
    if learner.uses in (LABELLED, ALL_ROWS):
        other_P = NormalizedLaplacian().build(two_blocks(30, seed=9)[0].adjacency)
        P = Propagator(other_P, before.device, before.dtype)
        inputs = NodeInputs.from_tensor(problem.inputs.features.dense().flip(0), P)
        other = learner.fit(replace(context, problem=replace(problem, inputs=inputs))).evaluate(
            context.X, inputs
        )
        assert torch.equal(output, other), f"the head depends on the graph, but uses is {learner.uses!r}"
    if learner.uses == LABELLED:
        scrambled = torch.full_like(before, 7.0)
        scrambled[task.rows] = before[task.rows]
        other = learner.fit(replace(context, X=DenseRows(scrambled))).evaluate(context.X, problem.inputs)
        is_same = torch.equal(output, other)
        assert is_same, "the head depends on rows that carry no label, but uses is 'labelled'"
    if learner.uses == GRAPH:
        assert learner.hypothesis_space() is None, "no bound covers a learner of the graph"


def check_rule(rule: BoostingRule, task: Task | None = None) -> None:
    """Check settings, sample weights, the shape of votes, and that fine-tuning can descend."""
    _check_settings(rule)
    problem, _, _ = _problem_twice(task)
    rule.check(problem.task)
    loss, voting = rule.loss_for(problem.task), rule.voting_for(problem.task)
    (alone, n_learned), (together, _) = (_vote_thrice(rule, problem, n_members) for n_members in (1, 3))
    for scores in together:
        assert torch.allclose(scores, alone[0]), "a member's votes depend on how many members there are"
    scores = alone[0]
    random = torch.Generator().manual_seed(0)
    output = torch.randn(len(scores), n_learned, generator=random, dtype=scores.dtype, requires_grad=True)
    soft = voting.softened().direction(output)
    assert soft.shape == scores.shape, "a soft direction must have the shape of the scores"
    assert soft.requires_grad, "no gradient passes softened(), so fine-tuning would move nothing"
    is_hard = not voting.direction(output).requires_grad
    assert voting.is_choice == is_hard, "is_choice must say whether direction is a choice"
    restored = type(voting).from_record(voting.record(), loss)
    is_same = restored == voting or restored.record() == voting.record()
    assert is_same, "from_record(record()) is another voting"
    assert voting.link(scores, 1.0).shape == scores.shape, "link must keep the shape of the scores"


def _vote_thrice(rule: BoostingRule, problem: Problem, n_members: int) -> tuple[torch.Tensor, int]:
    """Return members' scores after three rounds of the same random learners, and columns asked of these."""
    loss, voting = rule.loss_for(problem.task), rule.voting_for(problem.task)
    state = rule.start(problem, n_members)
    scores = problem.inputs.zero_scores(voting.n_outputs, n_members)
    random = torch.Generator().manual_seed(0)
    train, ids = problem.train, list(range(n_members))
    for _ in range(3):
        training = TrainingLoss.at(scores, train, loss)
        context = replace(make_context(problem), scores=scores, training=training, ids=ids)
        asked = rule.ask(context, state)
        assert asked.weights.shape == (n_members, train.size), "a task needs sample weights for each member"
        assert float((asked.weights.sum(dim=-1) - 1).abs().max()) < 1e-12, "sample weights do not sum to one"
        output = torch.randn(scores.shape[1], asked.n_outputs, generator=random, dtype=scores.dtype)
        direction = voting.direction(output.expand(n_members, -1, -1))
        assert direction.shape == scores.shape, "a direction must have the shape of the scores"
        shares = train.weights / train.size
        quality = WeakLearnings.measure(direction[:, train.rows], training.residuals, shares)
        vote = rule.vote(direction, quality, context, state).broadcast()
        state = rule.update(state, vote, context)
        scores = scores + for_rows(vote.eta, scores) * vote.direction
    return scores, asked.n_outputs


def check_loss(loss: Loss, scores: torch.Tensor, targets: torch.Tensor) -> None:
    """Check settings, and gradient, curvature and smoothness against autograd, in double precision."""
    _check_settings(loss)
    rows = scores.double().clone().requires_grad_()
    values = loss.values(rows, targets)
    assert values.shape == (len(scores),), "values must have an entry per row"
    (gradient,) = torch.autograd.grad(values.sum(), rows)
    assert torch.allclose(loss.gradient(scores.double(), targets), gradient, atol=1e-12), "wrong gradient"
    for i in range(len(scores)):
        hessian = torch.autograd.functional.hessian(
            lambda row, i=i: loss.values(row[None], targets[i : i + 1])[0], scores[i].double()
        )
        curvature = loss.curvature(scores[i : i + 1].double(), targets[i : i + 1])[0]
        assert torch.allclose(curvature, hessian.diagonal(), atol=1e-10), "wrong curvature"
        if loss.smoothness is not None:
            largest = float(torch.linalg.eigvalsh(hessian)[-1])
            assert largest <= loss.smoothness + 1e-10, "the curvature exceeds smoothness"
    assert loss.link(scores).shape == scores.shape, "link must keep the shape of the scores"


def check_task(task: Task, y: Any) -> None:
    """Check that labels come back as they went in, that records restore, and the shapes of all."""
    _check_settings(task)
    fitted = task.fit(y)
    targets = fitted.encode(y)
    decoded = fitted.decode(targets)
    is_same = np.allclose if decoded.dtype.kind == "f" else np.array_equal  # numbers may be rounded
    assert decoded.shape == np.shape(y), "decode(encode(y)) has another shape than y"
    assert is_same(decoded, np.asarray(y)), "decode(encode(y)) is not y"
    restored = type(task).from_record(fitted.record())
    np.testing.assert_array_equal(restored.encode(y), targets, "from_record(record()) is another task")
    codes = fitted.codes(torch.as_tensor(targets), torch.float64)
    assert codes.shape == (len(targets), fitted.n_columns), "codes must have a row per target"
    loss = fitted.default_loss
    scores = torch.randn(len(targets), fitted.n_outputs(loss), generator=torch.Generator().manual_seed(0))
    decided = fitted.decide(scores, loss.link)
    assert decided.shape == targets.shape, "decide must return targets"
    loss.values(scores, torch.as_tensor(targets))


def check_propagation(propagation: Propagation) -> None:
    """Check settings, shape, and node-permutation equivariance."""
    _check_settings(propagation)
    graph, _ = two_blocks(20)
    order = np.random.default_rng(0).permutation(20)
    P = propagation.build(graph.adjacency).toarray()
    assert P.shape == (20, 20), "P must be N x N"
    permuted = propagation.build(graph.adjacency[order][:, order]).toarray()
    np.testing.assert_allclose(permuted, P[order][:, order], rtol=1e-6, atol=1e-12)


def _check_settings(part: Any) -> None:
    copy = clone(part)
    assert repr(copy) == repr(part), "clone gave other settings"
    assert copy.get_params().keys() == part.get_params().keys(), "clone lost a setting"


def _problem_twice(task: Task | None = None) -> tuple[Problem, Problem, torch.Tensor]:
    """Return a problem, the same with its nodes permuted, and the permutation."""
    graph, y = two_blocks(30, n_classes=3)
    train = np.arange(12)
    order = np.random.default_rng(0).permutation(30)
    place = np.argsort(order)
    permuted = Graph(graph.adjacency[order][:, order], np.asarray(graph.features)[order])
    if task is not None and not task.has_classes:
        y = (y[:, None] == np.arange(3)).astype(float)
    problem = make_problem(graph, y, train, task=task)
    return problem, make_problem(permuted, y[order], place[train], task=task), torch.from_numpy(order)
