"""SAMME: AdaBoost for several classes, the paper's default."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from gbgnn._checks import check_number
from gbgnn.boosting.rules.base import (
    Vote,
    WeightedRule,
    check_classes,
    code_residuals,
    find_wrong,
    normalized,
    weighted_error,
)
from gbgnn.boosting.stopping import StopReason
from gbgnn.boosting.voting import ClassVoting, Voting, samme_step
from gbgnn.rounds import RoundContext
from gbgnn.tasks import Task
from gbgnn.theory import WeakLearnings

_ROUNDING = 1e-12
"""By so much the weighted error of a learner that is no better than chance may be off."""


@dataclass(kw_only=True, eq=False, repr=False)
class Samme(WeightedRule):
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

    def voting_for(self, task: Task) -> Voting:
        """Return the vote for the likeliest class of every node."""
        return ClassVoting(n_outputs=task.n_columns, n_classes=task.n_columns)

    def vote(
        self, direction: torch.Tensor, quality: WeakLearnings, context: RoundContext, state: torch.Tensor
    ) -> Vote:
        """Return the larger a step the fewer errors there are; refuse learners no better than chance."""
        n_classes = context.problem.task.n_columns
        error = weighted_error(direction, context.train, state)
        floor = torch.as_tensor(self.error_floor, dtype=error.dtype, device=error.device)
        eta = self.learning_rate * samme_step(error.clamp(floor, 1 - floor), n_classes)
        is_chance = error >= 1 - 1 / n_classes - _ROUNDING
        refusal = torch.where(is_chance, StopReason.NO_BETTER_THAN_CHANCE.code, 0)
        return Vote(eta, direction, quality, error, refusal)

    def update(self, state: torch.Tensor, vote: Vote, context: RoundContext) -> torch.Tensor:
        """Raise the weight of the nodes that were got wrong."""
        wrong = find_wrong(vote.direction, context.train).double()
        return normalized(state * torch.exp(vote.eta[..., None] * wrong))

    def own_residuals(self, state: torch.Tensor, context: RoundContext) -> torch.Tensor:
        r"""Return the gradient for :math:`\exp(-(1 - 1/K)^2 \langle y, Y\rangle)`: a miss costs exp(eta)."""
        K = context.problem.task.n_columns
        return code_residuals(state, context.train, K, (1 - 1 / K) ** 2)
