from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.test_population import GRAPH, TRAIN, VAL, build, check_on_gpu, check_population, inputs_of, on_gpu
from torch import nn
from torch.nn import functional

from gbgnn import (
    MLP,
    FunctionalGradient,
    GBGNNClassifier,
)
from gbgnn.aggregation import Aggregation, Hop, PolynomialHop
from gbgnn.boosting import BoostingRule, Vote, Voting
from gbgnn.boosting.rules import check_classes, label_task, normalized
from gbgnn.boosting.voting import ClassVoting
from gbgnn.learners import Head, Learner
from gbgnn.losses import Loss, SigmoidCrossEntropy, SoftmaxCrossEntropy
from gbgnn.metrics import Metric, Predicted
from gbgnn.population import reason_apart, train_population
from gbgnn.problem import NodeInputs, Problem
from gbgnn.propagation import DenseRows, Representation
from gbgnn.rounds import RoundContext, WeakTask
from gbgnn.tasks import Task
from gbgnn.testing import check_aggregation, check_learner, check_loss, check_rule


class MeansHead(Head):
    """Logits that fall with the squared distance to the means of the classes."""

    def __init__(self, means: torch.Tensor) -> None:
        super().__init__()
        self.means = means

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return -(X[:, None] - self.means).square().sum(dim=2)

    def state(self) -> dict[str, torch.Tensor]:
        return {"means": self.means}

    @classmethod
    def from_state(cls, state: dict[str, torch.Tensor]) -> MeansHead:
        return cls(state["means"])


@dataclass(kw_only=True, eq=False, repr=False)
class NearestMean(Learner):
    """A learner of a few lines that knows nothing of members."""

    shrinkage: float = 0.0

    def check(self) -> None:
        pass

    def fit(self, context: RoundContext) -> Head:
        task = context.weak_task
        rows = context.X.rows(task.rows)
        shares = (functional.one_hot(task.targets, task.n_outputs) * task.weights[:, None]).to(rows)
        return MeansHead((1 - self.shrinkage) * (shares / shares.sum(dim=0)).T @ rows)


@dataclass(kw_only=True, eq=False, repr=False)
class CentredMeans(NearestMean):
    """The same of rows without what all nodes have in common, so that it looks at all of them."""

    uses = "all rows"

    def fit(self, context: RoundContext) -> Head:
        head, centre = super().fit(context), context.X.dense().mean(dim=0)
        return MeansHead(head.means + 0.1 * centre)


class SumHead(Head):
    """The sum of what two heads say."""

    def __init__(self, heads: Sequence[Head]) -> None:
        super().__init__()
        self.heads = nn.ModuleList(heads)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return sum(head(X) for head in self.heads)

    def state(self) -> dict[str, torch.Tensor]:
        return dict(self.state_dict())

    @classmethod
    def from_state(cls, state: dict[str, torch.Tensor]) -> SumHead:
        raise NotImplementedError


@dataclass(kw_only=True, eq=False, repr=False)
class Couple(Learner):
    """Two networks of different sizes, the second trained as long as asked."""

    rate: float = 0.05
    epochs: int = 20

    def check(self) -> None:
        pass

    def fit(self, context: RoundContext) -> Head:
        small = MLP(units=3, epochs=9, learning_rate=self.rate)
        return SumHead([small.fit(context), MLP(units=8, epochs=self.epochs).fit(context)])


@dataclass(kw_only=True, eq=False, repr=False)
class Bold(MLP):
    """A network that says everything twice as loudly."""

    def fit(self, context: RoundContext) -> Head:
        head = super().fit(context)
        return SumHead([head, head])


@dataclass(frozen=True)
class SquashHop(Hop):
    """No polynomial of P."""

    slope: float

    def __call__(self, X: Representation, inputs: NodeInputs) -> Representation:
        return DenseRows((self.slope * inputs.P(X.dense())).tanh())

    def record(self) -> dict[str, Any]:
        return {"slope": self.slope}

    @classmethod
    def from_record(cls, record: dict[str, Any], state: dict[str, torch.Tensor]) -> SquashHop:
        return cls(record["slope"])


@dataclass(kw_only=True, eq=False, repr=False)
class Squash(Aggregation):
    """An aggregation whose hop is no polynomial."""

    slope: float = 1.0

    def check(self) -> None:
        pass

    def fit(self, context: RoundContext) -> Hop:
        return SquashHop(self.slope)


@dataclass(frozen=True)
class WideningHop(SquashHop):
    """Keeps what was there, and adds columns."""

    def __call__(self, X: Representation, inputs: NodeInputs) -> Representation:
        return DenseRows(torch.cat([X.dense(), super().__call__(X, inputs).dense()[:, :2]], dim=1))


@dataclass(kw_only=True, eq=False, repr=False)
class Widening(Squash):
    """An aggregation that adds columns in every round."""

    def fit(self, context: RoundContext) -> Hop:
        return WideningHop(self.slope)


@dataclass(kw_only=True, eq=False, repr=False)
class TwoSteps(Aggregation):
    """An aggregation that is made of a polynomial, and says so."""

    is_polynomial = True
    max_power = 2

    share: float = 0.5

    def check(self) -> None:
        pass

    def fit(self, context: RoundContext) -> Hop:
        return PolynomialHop((0, 2), (1 - self.share, 0.9 * self.share), injection=0.1 * self.share)


@dataclass(kw_only=True, eq=False, repr=False)
class Sharpen(TwoSteps):
    """One with a negative coefficient that depends on the labelled rows."""

    may_cancel = True

    def fit(self, context: RoundContext) -> Hop:
        size = float(context.X.rows(context.train.rows).abs().mean())
        return PolynomialHop((0, 1, 2), (1.0, self.share, -self.share / (1 + size)))


@dataclass(kw_only=True, eq=False, repr=False)
class Bagging(BoostingRule):
    """The example of the family's docstring, with a weight."""

    weight: float = 1.0

    def check(self, task: Task) -> None:
        check_classes(self, task)

    def loss_for(self, task: Task) -> Loss:
        return SoftmaxCrossEntropy()

    def voting_for(self, task: Task) -> Voting:
        return ClassVoting(task.n_columns, task.n_columns)

    def ask(self, context: RoundContext, state: Any) -> WeakTask:
        return label_task(context, context.train.weights)

    def vote(self, direction: torch.Tensor, quality: Any, context: RoundContext, state: Any) -> Vote:
        return Vote(self.weight, direction, quality)


@dataclass(kw_only=True, eq=False, repr=False)
class OneAgainstRest(Bagging):
    """Asks for several labels instead of classes, and weighs down what was right before."""

    def start(self, problem: Problem, n_members: int) -> torch.Tensor:
        return problem.train.weights.expand(n_members, -1)

    def ask(self, context: RoundContext, state: torch.Tensor) -> WeakTask:
        task = label_task(context, state)
        labels = functional.one_hot(task.targets, task.n_outputs).double()
        watched = task.val_targets
        if watched is not None:
            watched = functional.one_hot(watched, task.n_outputs).double()
        return replace(task, targets=labels, val_targets=watched, loss=SigmoidCrossEntropy())

    def update(self, state: torch.Tensor, vote: Vote, context: RoundContext) -> torch.Tensor:
        train = context.train
        is_right = vote.direction[:, train.rows].argmax(dim=2) == train.targets
        return normalized(torch.where(is_right, 0.7 * state, state))


@dataclass(kw_only=True, eq=False, repr=False)
class Brier(Loss):
    """Squared distance of the scores to the indicator of the class, written for one table of scores."""

    factor: float = 1.0

    takes = "classes"
    smoothness = 2.0

    def values(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        own = scores[torch.arange(len(scores), device=scores.device), targets]
        return scores.square().sum(dim=1) - own.square() + (own - 1).square()

    def gradient(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        result = 2 * scores
        result[torch.arange(len(scores), device=scores.device), targets] -= 2
        return result

    def curvature(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        assert scores.ndim == 2
        return torch.full_like(scores, 2.0)

    def link(self, scores: torch.Tensor) -> torch.Tensor:
        return scores.softmax(dim=1)


class Margin(Metric):
    """How far the score of the class is above the mean of all, on average."""

    name = "margin"

    def score(self, predicted: Predicted) -> float:
        own = predicted.scores.gather(1, predicted.targets[:, None])[:, 0]
        hits = (predicted.decided() == predicted.targets).double().mean()
        return float(hits + (own - predicted.scores.mean(dim=1)).mean())


PLUG_INS: dict[str, tuple[str, list[Any], dict[str, Any]]] = {
    "a learner": ("learner", [NearestMean(), NearestMean(shrinkage=0.5)], {"aggregation": "lazy"}),
    "a learner of all rows": ("learner", [CentredMeans(), CentredMeans(shrinkage=0.2)], {}),
    "a learner made of networks": ("learner", [Couple(), Couple(rate=0.2)], {}),
    "a learner made of networks, on a gradient": (
        "learner",
        [Couple(), Couple(rate=0.2)],
        {"rule": "gradient"},
    ),
    "a kind of network": (
        "learner",
        [Bold(units=9, epochs=40), Bold(units=6, epochs=20)],
        {"aggregation": "lazy"},
    ),
    "an aggregation": ("aggregation", [Squash(), Squash(slope=0.5)], {}),
    "an aggregation that adds columns": ("aggregation", [Widening(), Widening(slope=0.5)], {}),
    "a polynomial aggregation": ("aggregation", [TwoSteps(), TwoSteps(share=0.9)], {}),
    "a polynomial aggregation that learns": (
        "aggregation",
        [Sharpen(), Sharpen(share=0.9)],
        {"rule": "gradient"},
    ),
    "a rule": ("rule", [Bagging(), Bagging(weight=0.3)], {"aggregation": "kta"}),
    "a rule with a memory and targets of its own": (
        "rule",
        [OneAgainstRest(), OneAgainstRest(weight=0.3)],
        {},
    ),
    "the same in batches": (
        "rule",
        [OneAgainstRest(), OneAgainstRest(weight=0.3)],
        {"learner__batch_size": 7, "learner__patience": 3},
    ),
    "a loss": (
        "rule",
        [FunctionalGradient(loss=Brier()), FunctionalGradient(loss=Brier(), learning_rate=0.9)],
        {"aggregation": "injection"},
    ),
    "a loss, on its labels": (
        "rule",
        [
            FunctionalGradient(loss=Brier(), target="labels"),
            FunctionalGradient(loss=Brier(), target="labels", learning_rate=0.9),
        ],
        {"learner__patience": 3},
    ),
    "a metric": ("metric", [Margin(), Margin()], {"rule": "gradient", "aggregation": "lazy"}),
}


def plugged(name: str) -> list[GBGNNClassifier]:
    """Two models with parts of one's own."""
    family, parts, others = PLUG_INS[name]
    models = [build(n_rounds=4, random_state=i) for i in range(2)]
    return [m.set_params(**{family: part}, **others) for m, part in zip(models, parts, strict=True)]


@pytest.mark.parametrize("name", PLUG_INS)
def test_parts_of_ones_own_are_trained_alone_and_in_a_population(name: str) -> None:
    results = check_population(plugged(name))
    assert [result.n_rounds for result in results] == [4, 4]
    assert all(result.boosted.history["train_loss"][-1] < np.log(3) * 1.5 for result in results)


def test_parts_of_ones_own_keep_their_contracts() -> None:
    for family, (part, *_), _ in PLUG_INS.values():
        if family == "learner":
            check_learner(part)
        elif family == "aggregation":
            check_aggregation(part)
        elif family == "rule":
            check_rule(part)
    random = torch.Generator().manual_seed(0)
    check_loss(Brier(), torch.randn(9, 3, generator=random), torch.arange(9) % 3)


@pytest.mark.parametrize("name", ["an aggregation", "a learner of all rows"])
def test_parts_that_need_all_nodes_are_trained_one_after_another(name: str) -> None:
    heard: list[list[int]] = []
    models = plugged(name)

    def listen(t: int, scores: Mapping[int, float | None]) -> list[int]:
        heard.append(list(scores))
        return []

    train_population(inputs_of(models[0]), models, on_round=listen)
    assert heard == [[0]] * 4 + [[1]] * 4


def test_parts_that_need_the_rows_of_labelled_nodes_are_shown_no_others() -> None:
    models, shapes = plugged("a learner"), set()

    @dataclass(kw_only=True, eq=False, repr=False)
    class Watching(NearestMean):
        def fit(self, context: RoundContext) -> Head:
            shapes.add(context.X.shape)
            return super().fit(context)

    for model in models:
        model.set_params(learner=Watching())
    train_population(inputs_of(models[0], predict_nodes=[69]), models)
    assert shapes == {(len(TRAIN) + len(VAL) + 1, GRAPH.n_features)}


def test_losses_of_ones_own_with_other_settings_are_trained_apart() -> None:
    models = [build(rule=FunctionalGradient(loss=Brier(factor=factor))) for factor in (1.0, 2.0)]
    reason = reason_apart(models)
    assert reason is not None
    assert re.search(r"share the rule.loss; member 0 has .?Brier\(", reason)


@pytest.mark.gpu
@on_gpu
@pytest.mark.parametrize("name", PLUG_INS)
def test_parts_of_ones_own_are_trained_on_a_gpu_as_on_a_cpu(name: str) -> None:
    check_on_gpu(plugged(name))
