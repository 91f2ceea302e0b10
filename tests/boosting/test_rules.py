from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch

from gbgnn import MLP, Adjacency, MultiLabel, Regression
from gbgnn._random import Seeds
from gbgnn.boosting import BoostingRule, FunctionalGradient, Samme, SammeR, StopReason, Vote, Voting, boost
from gbgnn.boosting.rules import check_classes, label_task, normalized
from gbgnn.boosting.samme import code_residuals, weighted_error
from gbgnn.boosting.voting import ClassVoting
from gbgnn.errors import ParameterError
from gbgnn.losses import Loss, SoftmaxCrossEntropy
from gbgnn.problem import LabelledNodes
from gbgnn.rounds import RoundContext, WeakTask
from gbgnn.tasks import Classification, Task
from gbgnn.testing import check_rule, make_context, make_problem, two_blocks
from gbgnn.theory import WeakLearning

GRAPH, Y = two_blocks(30, n_classes=3)
PROBLEM = make_problem(GRAPH, Y, np.arange(12), np.arange(12, 20))


@dataclass(kw_only=True, eq=False, repr=False)
class Bagging(BoostingRule):
    """The example of the family's docstring."""

    def check(self, task: Task) -> None:
        check_classes(self, task)

    def loss_for(self, task: Task) -> Loss:
        return SoftmaxCrossEntropy()

    def voting_for(self, task: Task) -> Voting:
        return ClassVoting(task.n_columns, task.n_columns)

    def ask(self, context: RoundContext, state: Any) -> WeakTask:
        return label_task(context, context.train.weights)

    def vote(self, direction: torch.Tensor, quality: WeakLearning, context: RoundContext, state: Any) -> Vote:
        return Vote(1.0, direction, quality)


def test_family_is_abstract() -> None:
    with pytest.raises(TypeError, match="abstract"):
        BoostingRule()


@pytest.mark.parametrize(
    "rule",
    [
        Samme(),
        Samme(error_floor=0.01, learning_rate=0.5),
        SammeR(),
        FunctionalGradient(loss="softmax"),
        FunctionalGradient(target="labels"),
        Bagging(),
    ],
    ids=repr,
)
def test_rule_keeps_its_contract(rule: BoostingRule) -> None:
    check_rule(rule)


def test_a_rule_of_ones_own_boosts() -> None:
    result = boost(PROBLEM, Adjacency(), MLP(epochs=20), Bagging(), n_rounds=4, seeds=Seeds(0))
    assert result.ensemble.etas == (1.0,) * 4
    assert result.stop is StopReason.ROUNDS_EXHAUSTED
    assert result.history["exp_cosine"] == [None] * 4
    # Four votes of 1 or -1/2 per class: multiples of 1.5 above -2.
    assert set(((result.scores + 2) / 1.5).round(decimals=9).unique().tolist()) <= {0, 1, 2, 3, 4}


def test_a_rule_remembers_nothing_and_is_refused_for_good_unless_it_says_so() -> None:
    rule, context = Bagging(), make_context(PROBLEM)
    direction = torch.ones(30, 3, dtype=torch.float64)
    vote = Vote(1.0, direction, WeakLearning(0.0, 0.0, 0.0), refusal=StopReason.NO_BETTER_THAN_CHANCE.code)
    assert rule.start(PROBLEM, 2) == ()
    assert rule.update("state", vote, context) == "state"
    assert rule.own_residuals(None, context) is None
    assert rule.max_attempts == 1
    assert rule.on_exhausted(vote) is vote


@pytest.mark.parametrize(
    "rule", [Samme(), SammeR(), FunctionalGradient(target="labels"), Bagging()], ids=repr
)
@pytest.mark.parametrize("task", [Regression().fit([1.0, 2.0]), MultiLabel().fit([[0, 1]])], ids=["r", "m"])
def test_rules_that_vote_for_classes_refuse_other_tasks(rule: BoostingRule, task: Task) -> None:
    name, other = type(rule).__name__, type(task).__name__
    with pytest.raises(
        ParameterError, match=rf"{name} votes for classes.*for {other} use FunctionalGradient"
    ):
        rule.check(task)
    rule.check(Classification().fit([0, 1]))


def test_labels_are_asked_for_with_their_weights_and_validation_nodes() -> None:
    weights = torch.linspace(1, 2, 12, dtype=torch.float64)
    task = label_task(make_context(PROBLEM), weights)
    assert task.rows is PROBLEM.train.rows
    assert task.targets is PROBLEM.train.targets
    assert torch.equal(task.weights, weights)
    assert (task.n_outputs, task.is_regression, type(task.loss)) == (3, False, SoftmaxCrossEntropy)
    assert torch.equal(task.val_rows, torch.arange(12, 20))
    assert torch.equal(task.val_targets, torch.tensor(Y[12:20]))
    without = label_task(make_context(replace(PROBLEM, validation=None)), weights)
    assert without.val_rows is without.val_targets is None


def test_error_is_weighed_by_the_sample_weights() -> None:
    train = LabelledNodes.build(np.array([2, 0]), np.array([1, 0]))
    direction = torch.tensor([[0.0, 1.0], [0.0, 0.0], [0.0, 1.0]])  # node 2 is right, node 0 wrong
    assert weighted_error(direction, train, torch.tensor([0.25, 0.75])) == 0.75


def test_residuals_of_a_node_without_weight_are_zero() -> None:
    train = LabelledNodes.build(np.arange(2), np.array([0, 1]), np.array([0.0, 1.0]))
    found = code_residuals(torch.tensor([0.0, 1.0], dtype=torch.float64), train, 2, 0.5)
    assert found.tolist() == [[0.0, 0.0], [-0.5, 0.5]]


def test_normalized_sums_to_one() -> None:
    assert normalized(torch.tensor([1.0, 3.0])).tolist() == [0.25, 0.75]


def test_a_vote_cannot_be_changed() -> None:
    vote = Vote(1.0, torch.zeros(3, 1), WeakLearning(0.0, 0.0, 0.0))
    with pytest.raises(FrozenInstanceError):
        vote.eta = 2.0
