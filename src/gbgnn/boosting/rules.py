"""BoostingRule: what the learner must fit, and how far to go along it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import torch
from sklearn.base import BaseEstimator

from gbgnn.boosting.selection import StopReason
from gbgnn.boosting.voting import Voting
from gbgnn.errors import ParameterError
from gbgnn.losses import Loss, SoftmaxCrossEntropy
from gbgnn.problem import Problem
from gbgnn.rounds import RoundContext, WeakTask
from gbgnn.tasks import Task
from gbgnn.theory import WeakLearnings

_LARGEST_EXPONENT = 700.0
"""Beyond, exponentials of double precision are infinite soon."""

Numbers = Any
"""A number for all members, or one for each, a tensor of shape (members,)."""


@dataclass(frozen=True, eq=False)
class Vote:
    """What a rule makes of learners: ``eta * direction`` is added to the scores of all nodes.

    The direction is the paper's f^(t), shape (members, N, n_outputs), and ``quality`` its angle with the
    negative gradient, on the labelled rows. ``weighted_error`` is the share of the labelled nodes that the
    learner gets wrong, by their sample weights this round, None where the task has no right and wrong. A
    ``refusal`` says why a learner cannot be used, by its :attr:`StopReason.code
    <gbgnn.boosting.StopReason.code>`; 0 where it can. The loop counts the ``attempts`` before it settled.
    """

    eta: Numbers
    direction: torch.Tensor
    quality: WeakLearnings
    weighted_error: Numbers | None = None
    refusal: Numbers = 0
    attempts: Numbers = 1

    def broadcast(self) -> Vote:
        """Return the vote with a number for each member wherever one stands for all."""
        size = self.direction.shape[:1]

        def expand(number: Numbers, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
            if isinstance(number, torch.Tensor):
                return number.to(device, dtype).expand(size)
            return torch.full(size, number, dtype=dtype, device=device)  # which sends nothing to a device

        device, error = self.direction.device, self.weighted_error
        return replace(
            self,
            eta=expand(self.eta, torch.float64, device),
            weighted_error=None if error is None else expand(error, torch.float64, device),
            refusal=expand(self.refusal, torch.int64, device),
            attempts=expand(self.attempts, torch.int64, torch.device("cpu")),
        )

    def refusals(self) -> list[StopReason | None]:
        """Return why each learner cannot be used, or None."""
        return [StopReason.from_code(code) for code in self.refusal.tolist()]


class BoostingRule(BaseEstimator, ABC):
    """How rounds are asked for and added up.

    Before a fit ``check`` is called with the task, then ``loss_for`` and ``voting_for``: by what progress is
    measured, and how outputs become scores. In every round the loop calls ``ask`` (what must be fitted
    now?), lets a learner fit it, and calls ``vote`` (how far along its direction?); it adds that to the
    scores, and calls ``update`` (what does the rule remember?). What a rule remembers is a value of its own
    kind, ``state``: it is handed in and returned, never stored on the rule.

    Several models may be boosted at once, by one rule that stands for theirs: scores, directions and what
    the rule remembers have an axis of members in front, and so may its settings that are numbers with a
    fraction; the steps and refusals it returns are a number for each member or one for all. A rule of
    one's own::

        @dataclass(kw_only=True, eq=False, repr=False)
        class Bagging(BoostingRule):
            def check(self, task):
                check_classes(self, task)

            def loss_for(self, task):
                return SoftmaxCrossEntropy()

            def voting_for(self, task):
                return ClassVoting(task.n_columns, task.n_columns)

            def ask(self, context, state):
                return label_task(context, context.train.weights)

            def vote(self, direction, quality, context, state):
                return Vote(1.0, direction, quality)
    """

    @abstractmethod
    def check(self, task: Task) -> None:
        """Raise when a setting is out of range, or does not fit the task."""

    @abstractmethod
    def loss_for(self, task: Task) -> Loss:
        """Return the loss by which progress is measured."""

    @abstractmethod
    def voting_for(self, task: Task) -> Voting:
        """Return how outputs become scores, and scores predictions."""

    @abstractmethod
    def ask(self, context: RoundContext, state: Any) -> WeakTask:
        """Return what the learner must fit this round."""

    @abstractmethod
    def vote(
        self, direction: torch.Tensor, quality: WeakLearnings, context: RoundContext, state: Any
    ) -> Vote:
        """Return the step along ``direction`` (all nodes), or a refusal."""

    def start(self, problem: Problem, n_members: int) -> Any:
        """Return what the rule remembers before round 1: tensors with a row for each member."""
        return ()

    def update(self, state: Any, vote: Vote, context: RoundContext) -> Any:
        """Return what the rule remembers after a round."""
        return state

    def own_residuals(self, state: Any, context: RoundContext) -> torch.Tensor | None:
        """Return the negative gradient of the rule's own loss, row by row; None where that is ``loss_for``.

        For a rule of an exponential loss it is that of the logarithm, which has the same direction and
        neither overflows nor vanishes. The nodes' weights in the training loss are divided out.
        """
        return None

    @property
    def uses_offsets(self) -> bool:
        """Whether learners are asked for what is to be added to the scores so far, by its loss."""
        return False

    @property
    def max_attempts(self) -> int:
        """How many learners may be tried in a round, each from a fresh initialisation."""
        return 1

    def on_exhausted(self, vote: Vote) -> Vote:
        """Return the votes of the last attempt, and what becomes of refusals; by default they stand."""
        return vote


def check_classes(rule: BoostingRule, task: Task) -> None:
    """Raise unless the task is to tell classes apart, one per node."""
    if not task.has_classes:
        raise ParameterError(
            f"{type(rule).__name__} votes for classes, one per node; for {type(task).__name__} use "
            "FunctionalGradient()."
        )


def label_task(context: RoundContext, sample_weight: torch.Tensor) -> WeakTask:
    """Return the task of fitting the classes, weighted."""
    train, val = context.train, context.problem.validation
    return WeakTask(
        rows=train.rows,
        targets=train.targets,
        weights=sample_weight.expand(*context.scores.shape[:-2], -1),
        n_outputs=context.problem.task.n_columns,
        loss=SoftmaxCrossEntropy(),
        val_rows=None if val is None else val.rows,
        val_targets=None if val is None else val.targets,
    )


def normalized(sample_weight: torch.Tensor) -> torch.Tensor:
    """Return weights scaled to sum to one."""
    return sample_weight / sample_weight.sum(dim=-1, keepdim=True)


def reweighted(sample_weight: torch.Tensor, exponents: torch.Tensor) -> torch.Tensor:
    """Return weights times exponentials, scaled to sum to one, however large the exponents are."""
    counted = torch.where(sample_weight > 0, exponents, -math.inf)
    # Nothing is subtracted where nothing would overflow, so that usual steps round as they always did.
    excess = (counted.amax(dim=-1, keepdim=True) - _LARGEST_EXPONENT).clamp(min=0)
    return normalized(sample_weight * torch.exp(counted - excess))
