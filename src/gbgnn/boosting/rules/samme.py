"""SAMME: AdaBoost for several classes, the paper's default."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from gbgnn._checks import check_number
from gbgnn.boosting.rules.base import (
    BoostingRule,
    Vote,
    check_classes,
    code_residuals,
    label_task,
    normalized,
    weighted_error,
)
from gbgnn.boosting.stopping import StopReason
from gbgnn.boosting.voting import ClassVoting, Voting, samme_step
from gbgnn.losses import Loss, SoftmaxCrossEntropy
from gbgnn.problem import Problem
from gbgnn.rounds import RoundContext, WeakTask
from gbgnn.tasks import Task
from gbgnn.theory import WeakLearning


@dataclass(kw_only=True, eq=False, repr=False)
class Samme(BoostingRule):
    r"""Stage-wise additive modelling with a multi-class exponential loss (Hastie et al., 2009).

    The learner votes for one class per node; with weighted error e its step is
    :math:`\eta = \nu \left(\log\frac{1-e}{e} + \log(K-1)\right)`, and the sample weight of the nodes it gets
    wrong grows by :math:`\exp(\eta)`. A learner no better than chance, e >= 1 - 1/K, ends boosting.

    Parameters
    ----------
    error_floor
        The paper's clipping value: e is kept within [error_floor, 1 - error_floor]. A learner that
        makes no error gets the largest step the floor allows: 16 + log(K-1) at 1e-7.
    learning_rate
        The shrinkage :math:`\nu`, greater than 0; 1 is none.

    Examples
    --------
    >>> Samme(error_floor=1e-6)
    Samme(error_floor=1e-06)
    """

    error_floor: float = 1e-7
    learning_rate: float = 1.0

    def check(self, task: Task) -> None:
        """Raise when a setting is out of range, or y has no classes."""
        check_number("Samme", "error_floor", self.error_floor, 0, 0.5, open_low=True, open_high=True)
        check_number("Samme", "learning_rate", self.learning_rate, 0, open_low=True)
        check_classes(self, task)

    def loss_for(self, task: Task) -> Loss:
        """Return the softmax cross entropy: progress is measured by it in the paper's figures."""
        return SoftmaxCrossEntropy()

    def voting_for(self, task: Task) -> Voting:
        """Return the vote for the likeliest class of every node."""
        return ClassVoting(n_outputs=task.n_columns, n_classes=task.n_columns)

    def start(self, problem: Problem) -> torch.Tensor:
        """Return the sample weights of round 1: those of the training loss."""
        return problem.train.weights

    def ask(self, context: RoundContext, state: torch.Tensor) -> WeakTask:
        """Ask for the classes, by sample weight."""
        return label_task(context, state)

    def vote(
        self, direction: torch.Tensor, quality: WeakLearning, context: RoundContext, state: torch.Tensor
    ) -> Vote:
        """Return the larger a step the fewer errors there are."""
        n_classes = context.problem.task.n_columns
        error = weighted_error(direction, context.train, state)
        clipped = min(max(error, self.error_floor), 1 - self.error_floor)
        eta = self.learning_rate * samme_step(clipped, n_classes)
        refusal = StopReason.NO_BETTER_THAN_CHANCE if error >= 1 - 1 / n_classes else None
        return Vote(eta, direction, quality, error, refusal)

    def update(self, state: torch.Tensor, vote: Vote, context: RoundContext) -> torch.Tensor:
        """Raise the weight of the nodes that were got wrong."""
        train = context.train
        wrong = vote.direction[train.rows].argmax(dim=1) != train.targets
        return normalized(state * torch.exp(vote.eta * wrong.double()))

    def own_residuals(self, state: torch.Tensor, context: RoundContext) -> torch.Tensor:
        r"""Return the gradient for :math:`\exp(-(1 - 1/K)^2 \langle y, Y\rangle)`: a miss costs exp(eta)."""
        K = context.problem.task.n_columns
        return code_residuals(state, context.train, K, (1 - 1 / K) ** 2)
