from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gbgnn import (
    MLP,
    Adjacency,
    FunctionalGradient,
    Graph,
    Identity,
    InputInjection,
    KernelTargetAlignment,
    Lazy,
    Linear,
    NonLinear,
    Samme,
    SammeR,
)
from gbgnn._random import Seeds
from gbgnn.aggregation import IDENTITY, Aggregation, alignment
from gbgnn.boosting import Boosted, BoostingRule, StopReason, boost, boost_many
from gbgnn.learners import Head
from gbgnn.losses import Loss, SoftmaxCrossEntropy
from gbgnn.propagation import DenseRows, Propagator, SparseRows
from gbgnn.rounds import RoundContext
from gbgnn.tasks import Task
from gbgnn.testing import make_problem, two_blocks

GRAPH, Y = two_blocks(40, n_classes=3)
PROBLEM = make_problem(GRAPH, Y, np.arange(15), np.arange(15, 25))


def run(n_rounds: int, learner: MLP | None = None, **options: Any) -> Boosted:
    learner = MLP(epochs=15, units=8) if learner is None else learner
    parts = (KernelTargetAlignment(epochs=3), learner, Samme())
    return boost(PROBLEM, *parts, n_rounds=n_rounds, seeds=Seeds(0), **options)


class Spy(MLP):
    """Keeps the contexts it was handed."""

    seen: list[RoundContext]

    def fit(self, context: RoundContext) -> Head:
        vars(self).setdefault("seen", []).append(context)
        return super().fit(context)


def test_the_loop_is_short() -> None:
    body = inspect.getsource(boost_many).split('"""')[2]
    assert len(body.strip().splitlines()) <= 50


@pytest.mark.parametrize(
    "word", ["Classification", "Regression", "MultiLabel", "has_classes", "takes", "n_cla"]
)
def test_the_loop_and_what_it_calls_know_no_kind_of_task(word: str) -> None:
    source = inspect.getsource(inspect.getmodule(boost))
    assert word not in source
    assert "isinstance" not in source


def test_round_one_sees_the_raw_features_and_later_ones_mixed() -> None:
    spy = Spy(epochs=2)
    boost(PROBLEM, Adjacency(), spy, Samme(), n_rounds=3, seeds=Seeds(0))
    P, X = PROBLEM.inputs.P, PROBLEM.inputs.features.dense()
    seen = [context.X.dense() for context in spy.seen]
    torch.testing.assert_close(seen[0], X)
    torch.testing.assert_close(seen[1], P(X))
    torch.testing.assert_close(seen[2], P(P(X)))


def test_a_round_hands_its_learner_all_there_is() -> None:
    """Representation, hops so far, scores so far and their loss, labelled and validation rows, seed."""
    spy = Spy(epochs=15, units=8)
    result = run(4, spy)
    seeds = Seeds(0)
    for t, context in enumerate(spy.seen, start=1):
        assert context.t == t
        assert context.problem is PROBLEM
        assert context.seed == seeds.head(t)
        assert context.hops == result.ensemble.hops[:t]
        torch.testing.assert_close(context.propagate(PROBLEM.inputs.features).dense(), context.X.dense())
        assert torch.equal(context.weak_task.rows, PROBLEM.train.rows)
        assert torch.equal(context.weak_task.val_rows, PROBLEM.validation.rows)
        expected = 0 if t == 1 else run(t - 1).scores
        assert torch.equal(context.scores, torch.zeros(40, 3, dtype=torch.float64) + expected)
        assert float(context.training.value) == pytest.approx(
            float(torch.nn.functional.cross_entropy(context.scores[:15], PROBLEM.train.targets))
        )


def test_an_aggregation_sees_the_representation_before_its_hop() -> None:
    class Watching(Adjacency):
        def fit(self, context: RoundContext) -> Any:
            vars(self).setdefault("seen", []).append(context)
            return super().fit(context)

    part, spy = Watching(), Spy(epochs=2)
    boost(PROBLEM, part, spy, Samme(), n_rounds=3, seeds=Seeds(0))
    assert [context.t for context in part.seen] == [2, 3]  # round 1 has no hop
    assert [context.seed for context in part.seen] == [Seeds(0).hop(2), Seeds(0).hop(3)]
    for before, learner_before in zip(part.seen, spy.seen[:-1], strict=True):
        assert before.X is learner_before.X
        assert before.task is None
        assert before.hops == learner_before.hops


AGGREGATIONS: list[tuple[Aggregation, int]] = [
    (KernelTargetAlignment(degree=3, epochs=3), 8),
    (KernelTargetAlignment(degree=1, solver="exact"), 2),
    (Linear(), 1),
    (NonLinear(), 1),
    (Adjacency(), 1),
    (InputInjection(), 1),
    (Lazy(), 1),
    (Identity(), 0),
]


@pytest.fixture
def products(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The shapes of what is multiplied by P."""
    multiply, shapes = Propagator.__call__, []

    def count(P: Propagator, X: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        shapes.append(tuple(X.shape))
        return multiply(P, X, out)

    monkeypatch.setattr(Propagator, "__call__", count)
    return shapes


@pytest.mark.parametrize(("aggregation", "n_products"), AGGREGATIONS, ids=lambda value: repr(value))
def test_no_product_with_p_is_done_twice(
    aggregation: Aggregation, n_products: int, products: list[tuple[int, ...]]
) -> None:
    boost(PROBLEM, aggregation, MLP(epochs=1), SammeR(), n_rounds=4, seeds=Seeds(0))
    assert products == [(40, 5)] * (3 * n_products)  # round 1 sees the raw features


def test_large_powers_are_computed_again_rather_than_kept(
    products: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = run(3)
    assert len(products) == 2 * 8
    monkeypatch.setattr(alignment, "KEPT_BYTES", 5 * PROBLEM.inputs.features.nbytes - 1)
    streamed = run(3)
    assert len(products) == 2 * 8 + 2 * 16
    assert torch.equal(streamed.scores, kept.scores)


@pytest.mark.parametrize("aggregation", [part for part, _ in AGGREGATIONS], ids=repr)
def test_sparse_features_train_the_same_rounds(aggregation: Aggregation) -> None:
    few = np.where(np.asarray(GRAPH.features) > 0.5, np.asarray(GRAPH.features), 0)
    sparse = sp.csr_array(np.hstack([few, np.zeros((40, 20))]))
    problems = [
        make_problem(Graph(GRAPH.adjacency, X), Y, np.arange(15), np.arange(15, 25))
        for X in (sparse, sparse.toarray())
    ]
    assert [type(problem.inputs.features) for problem in problems] == [SparseRows, DenseRows]
    one, other = (
        boost(problem, aggregation, MLP(epochs=5), SammeR(), n_rounds=4, seeds=Seeds(0))
        for problem in problems
    )
    torch.testing.assert_close(one.scores, other.scores, rtol=1e-7, atol=1e-9)
    assert one.best.t == other.best.t


class Counted(SoftmaxCrossEntropy):
    """Notes on how many rows its gradient was computed."""

    def __init__(self) -> None:
        self.n_rows: list[int] = []

    def gradient(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        self.n_rows.append(scores.shape[-2])
        return super().gradient(scores, targets)


def measuring(kind: type[BoostingRule], loss: Loss) -> BoostingRule:
    """A rule that measures progress by this object."""

    class Rule(kind):  # type: ignore[misc,valid-type]
        def loss_for(self, task: Task) -> Loss:
            return loss

    return Rule()


@pytest.mark.parametrize(
    "rule",
    [
        lambda loss: FunctionalGradient(loss=loss),
        lambda loss: FunctionalGradient(loss=loss, target="labels"),
        lambda loss: measuring(Samme, loss),
        lambda loss: measuring(SammeR, loss),
    ],
    ids=["gradient", "labels", "samme", "samme_r"],
)
def test_residuals_are_computed_once_a_round(rule: Callable[[Loss], BoostingRule]) -> None:
    """At the start, and after each of the rounds; a rule may ask for those of validation nodes as well."""
    loss = Counted()
    result = boost(PROBLEM, Adjacency(), MLP(epochs=10), rule(loss), n_rounds=4, seeds=Seeds(0))
    assert len(result.ensemble) == 4
    assert loss.n_rows.count(PROBLEM.train.size) == 4 + 1
    assert set(loss.n_rows) <= {PROBLEM.train.size, PROBLEM.validation.size}
    assert loss.n_rows.count(PROBLEM.validation.size) <= 4


def test_a_retry_does_not_compute_them_again() -> None:
    loss = Counted()
    rule = FunctionalGradient(loss=loss, min_cosine=0.999999, retries=5)
    result = boost(PROBLEM, Adjacency(), MLP(epochs=1), rule, n_rounds=4, seeds=Seeds(0))
    assert result.stop is StopReason.WEAK_LEARNING_FAILED
    assert loss.n_rows.count(PROBLEM.train.size) == 1


def test_a_longer_run_begins_with_the_shorter_one() -> None:
    short, long = run(3), run(6)
    assert long.ensemble[:3].etas == short.ensemble.etas
    for name in ("train_loss", "cosine", "weighted_error"):
        assert long.history[name][:3] == short.history[name]


def test_known_rounds_are_replayed_to_the_byte() -> None:
    spy, whole = Spy(epochs=15, units=8), run(6)
    again = run(6, spy, known=whole.ensemble[:4])
    assert [context.t for context in spy.seen] == [5, 6]
    assert torch.equal(again.scores, whole.scores)
    assert again.history["train_loss"] == whole.history["train_loss"]
    assert again.best.t == whole.best.t
    assert all(
        mine is other for mine, other in zip(again.ensemble.hops[:4], whole.ensemble.hops, strict=False)
    )


def test_dropped_learners_change_no_score() -> None:
    lean, full = run(4, keep_learners=False), run(4)
    assert torch.equal(lean.scores, full.scores)
    assert all(r.head is None for r in lean.ensemble)


def test_scores_of_a_round_are_never_written_to_again() -> None:
    """Whoever was shown a round may keep its scores."""
    kept = []

    def look(so_far: Boosted) -> None:
        kept.append((so_far.scores, so_far.scores.clone()))

    run(5, announce=look)
    assert all(torch.equal(scores, copy) for scores, copy in kept)
    assert len({scores.data_ptr() for scores, _ in kept}) == 5


def test_every_round_is_announced_and_an_answer_ends_boosting() -> None:
    seen = []

    def announce(so_far: Boosted) -> StopReason | None:
        seen.append((len(so_far.ensemble), len(so_far.history), so_far.best.t, so_far.stop))
        return StopReason.REQUESTED if len(so_far.ensemble) == 2 else None

    result = run(5, announce=announce, select="last")
    assert seen == [(t, t, t, StopReason.INTERRUPTED) for t in (1, 2)]
    assert result.stop is StopReason.REQUESTED
    assert len(result.ensemble) == 2


def test_an_answer_in_the_last_round_is_the_reason() -> None:
    assert run(2, announce=lambda _: None).stop is StopReason.ROUNDS_EXHAUSTED
    assert run(1, announce=lambda _: StopReason.REQUESTED).stop is StopReason.REQUESTED


def test_learner_that_returns_nan_ends_boosting() -> None:
    class Broken(MLP):
        def fit(self, context: RoundContext) -> Head:
            head = super().fit(context)
            if context.t > 1:
                head.layers[0].weight.fill_(float("nan"))
            return head

    result = boost(PROBLEM, Adjacency(), Broken(epochs=20), Samme(), n_rounds=5, seeds=Seeds(0))
    assert len(result.ensemble) == 1
    assert result.stop is StopReason.DIVERGED


def test_a_learner_refused_in_round_one_leaves_nothing() -> None:
    class Wrong(MLP):
        def fit(self, context: RoundContext) -> Head:
            head = super().fit(context)
            head.layers[-1].weight.neg_()
            head.layers[-1].bias.neg_()
            return head

    result = boost(PROBLEM, Adjacency(), Wrong(epochs=30), Samme(), n_rounds=5, seeds=Seeds(0))
    assert result.stop is StopReason.NO_BETTER_THAN_CHANCE
    assert (len(result.ensemble), len(result.history), result.best) == (0, 0, None)
    assert not result.scores.any()


def test_validation_nodes_train_nothing() -> None:
    without = boost(
        replace(PROBLEM, validation=None),
        KernelTargetAlignment(epochs=3),
        MLP(epochs=15, units=8),
        Samme(),
        n_rounds=4,
        seeds=Seeds(0),
    )
    assert torch.equal(without.scores, run(4).scores)


def test_round_one_has_no_hop() -> None:
    assert run(1).ensemble[0].hop is IDENTITY
