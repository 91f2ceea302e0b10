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
from gbgnn.propagation import DenseRows, Operator, Representation
from gbgnn.rounds import RoundContext
from gbgnn.tasks import MultiLabel, Regression, Task
from gbgnn.testing import check_aggregation, check_learner, check_propagation, check_rule


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
