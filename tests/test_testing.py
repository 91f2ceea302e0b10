"""A contract check that cannot fail is worth nothing: each is shown a part that breaks it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gbgnn import MLP, Adjacency, AugmentedAdjacency, FunctionalGradient, Samme
from gbgnn.aggregation import Hop, PolynomialHop
from gbgnn.boosting import Vote, Voting
from gbgnn.boosting.voting import ClassVoting
from gbgnn.learners import Head, HeadSpace
from gbgnn.losses import SigmoidCrossEntropy, SoftmaxCrossEntropy, SquaredError
from gbgnn.propagation import DenseRows, Operator, Representation
from gbgnn.rounds import RoundContext
from gbgnn.tasks import MultiLabel, Regression, Task
from gbgnn.testing import (
    check_aggregation,
    check_learner,
    check_propagation,
    check_rule,
    learner_round,
    make_context,
    make_problem,
    make_round,
    path4,
    two_blocks,
)

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


class Shifted(MLP):
    """A learner whose last bias tells what it has looked at."""

    def look(self, context: RoundContext) -> torch.Tensor:
        raise NotImplementedError

    def fit(self, context: RoundContext) -> Head:
        head = super().fit(context)
        head.layers[-1].bias.add_(self.look(context))
        return head


class Peeks(Shifted):
    """Standardises by all rows, though it says that it looks at labelled ones only."""

    def look(self, context: RoundContext) -> torch.Tensor:
        return context.X.dense().mean()


class PeeksOpenly(Peeks):
    uses: ClassVar[str] = "all rows"


class Multiplies(Shifted):
    """Looks one hop further, though it says that it looks at rows only."""

    uses: ClassVar[str] = "all rows"

    def look(self, context: RoundContext) -> torch.Tensor:
        return context.inputs.P(context.X.dense())[0, 0]


class MultipliesSecretly(Multiplies):
    uses: ClassVar[str] = "labelled"


class LooksBack(Multiplies):
    """Looks at the raw features."""

    def look(self, context: RoundContext) -> torch.Tensor:
        return context.inputs.features.dense()[0, 0]


class MultipliesOpenly(Multiplies):
    uses: ClassVar[str] = "graph"


class LooksBackOpenly(LooksBack):
    uses: ClassVar[str] = "graph"


class Boasts(MultipliesOpenly):
    def hypothesis_space(self) -> HeadSpace:
        return HeadSpace(2, 1.0)


class Mumbles(MLP):
    uses: ClassVar[str] = "everything"


class Restless(Shifted):
    """Draws from the global generator."""

    def look(self, context: RoundContext) -> torch.Tensor:
        return torch.randn(())


class Rude(Shifted):
    def look(self, context: RoundContext) -> torch.Tensor:
        context.X.dense().mul_(2)
        return torch.zeros(())


class Wide(MLP):
    """Returns a column too many."""

    def fit(self, context: RoundContext) -> Head:
        head = super().fit(context)
        last = head.layers[-1]
        n_out, n_in = last.weight.shape
        head.layers[-1] = torch.nn.Linear(n_in, n_out + 1, dtype=last.weight.dtype)
        return head


class Owes(MLP):
    """Says of one column that it owes it less than nothing."""

    def fit(self, context: RoundContext) -> Head:
        head = super().fit(context)
        owed = np.array([-1.0, *[1.0] * (context.X.shape[1] - 1)])
        head.__class__ = type("Head", (type(head),), {"importances": lambda _: owed})
        return head


class Misnamed(MLP):
    def fit(self, context: RoundContext) -> Head:
        head = super().fit(context)
        head.__class__ = type("Head", (type(head),), {"first_layer": ("no.weight", "no.bias")})
        return head


class Changes(Adjacency):
    def fit(self, context: RoundContext) -> Hop:
        context.X.dense().mul_(2)
        return super().fit(context)


class Numbered(Adjacency):
    def fit(self, context: RoundContext) -> Hop:
        return PolynomialHop((1,), (float(context.X.dense()[0, 0]),))


class Random(Adjacency):
    def fit(self, context: RoundContext) -> Hop:
        return PolynomialHop((1,), (float(torch.rand(())),))


class TwoFaced(Adjacency):
    """Goes on with another representation than its hop would give."""

    def step(self, context: RoundContext) -> tuple[Hop, Representation]:
        hop, X = super().step(context)
        return hop, DenseRows(X.dense() + 1)


class ForgetfulHop(PolynomialHop):
    def record(self) -> dict[str, Any]:
        return super().record() | {"injection": 0.0}


class Forgetful(Adjacency):
    def fit(self, context: RoundContext) -> Hop:
        return ForgetfulHop((1,), (1.0,), injection=0.5)


class Unweighted(Samme):
    def update(self, state: torch.Tensor, vote: Vote, context: RoundContext) -> torch.Tensor:
        return 2 * state


class HardVoting(ClassVoting):
    def softened(self) -> ClassVoting:
        return self


@dataclass(frozen=True)
class SilentVoting(ClassVoting):
    is_choice = False


class NarrowVoting(ClassVoting):
    def direction(self, output: torch.Tensor) -> torch.Tensor:
        return super().direction(output)[:, :1]


class FlatVoting(ClassVoting):
    def link(self, scores: torch.Tensor, total_eta: float) -> torch.Tensor:
        return super().link(scores, total_eta)[:, 0]


@dataclass(frozen=True)
class UnrecordedVoting(ClassVoting):
    @classmethod
    def from_record(cls, record: dict[str, Any], loss: object) -> Voting:
        return cls(**record | {"n_classes": 7})


def samme_with(voting: type[ClassVoting]) -> Samme:
    class Rule(Samme):
        def voting_for(self, task: Task) -> Voting:
            return voting(task.n_columns, task.n_columns)

    return Rule()


class Ordered(AugmentedAdjacency):
    def build(self, adjacency: sp.csr_array) -> Operator:
        return Operator.from_matrix(sp.csr_array(sp.diags_array(np.arange(20.0))))


BROKEN: dict[str, tuple[Callable[[Any], None], Any, str]] = {
    "learner, unlabelled rows": (check_learner, Peeks(epochs=1), "depends on rows that carry no label"),
    "learner, P as rows": (check_learner, Multiplies(epochs=1), "on the graph, but uses is 'all rows'"),
    "learner, P as labelled": (check_learner, MultipliesSecretly(epochs=1), "graph, but uses is 'labelled'"),
    "learner, raw features": (check_learner, LooksBack(epochs=1), "on the graph, but uses is 'all rows'"),
    "learner, bound": (check_learner, Boasts(epochs=1), "no bound covers a learner of the graph"),
    "learner, unknown use": (check_learner, Mumbles(epochs=1), "uses must be one of labelled, all rows, gr"),
    "learner, seed": (check_learner, Restless(epochs=1), "the same seed gave another head"),
    "learner, input": (check_learner, Rude(epochs=1), "fit or evaluate changed its input"),
    "learner, importances": (check_learner, Owes(epochs=1), "a number per input column, zero or more"),
    "learner, shape": (check_learner, Wide(epochs=1), r"wrong output shape \(30, 4\)"),
    "learner, names": (check_learner, Misnamed(epochs=1), "first_layer must name parameters"),
    "aggregation, input": (check_aggregation, Changes(), "step changed its input"),
    "aggregation, order": (check_aggregation, Numbered(), "not equivariant"),
    "aggregation, seed": (check_aggregation, Random(), "the same seed gave another hop"),
    "aggregation, step": (check_aggregation, TwoFaced(), "another representation than its hop gives"),
    "aggregation, record": (
        check_aggregation,
        Forgetful(),
        r"from_record\(record\(\), state\(\)\) is another",
    ),
    "rule, weights": (check_rule, Unweighted(), "weights do not sum to one"),
    "rule, no gradient": (check_rule, samme_with(HardVoting), r"no gradient passes softened\(\)"),
    "rule, choice": (check_rule, samme_with(SilentVoting), "is_choice must say"),
    "rule, direction": (check_rule, samme_with(NarrowVoting), "direction must have the shape of the scores"),
    "rule, link": (check_rule, samme_with(FlatVoting), "link must keep the shape of the scores"),
    "rule, record": (check_rule, samme_with(UnrecordedVoting), "is another voting"),
    "propagation, order": (check_propagation, Ordered(), "Not equal to tolerance"),
}


@pytest.mark.parametrize(("check", "part", "message"), BROKEN.values(), ids=BROKEN)
def test_broken_part_is_caught(check: Callable[[Any], None], part: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check(part)


@pytest.mark.parametrize("learner", [PeeksOpenly, MultipliesOpenly, LooksBackOpenly])
def test_a_learner_that_says_what_it_looks_at_may_look(learner: type[Shifted]) -> None:
    check_learner(learner(epochs=1))


@pytest.mark.parametrize("task", [Regression(), MultiLabel()], ids=repr)
def test_rules_are_checked_with_other_tasks_too(task: Task) -> None:
    check_rule(FunctionalGradient(), task)
