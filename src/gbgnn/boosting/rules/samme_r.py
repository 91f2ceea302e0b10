"""SAMME.R: the real-valued variant, in which learners vote with their probabilities."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from gbgnn._checks import check_number
from gbgnn.boosting.rules.base import (
    Vote,
    WeightedRule,
    check_classes,
    code_residuals,
    normalized,
    weighted_error,
)
from gbgnn.boosting.voting import LogProbaVoting, Voting
from gbgnn.rounds import RoundContext
from gbgnn.tasks import Task
from gbgnn.theory import WeakLearnings


@dataclass(kw_only=True, eq=False, repr=False)
class SammeR(WeightedRule):
    r"""Vote with :math:`f_k = (K-1)(\log p_k - \frac1K \sum_j \log p_j)`, the same step every round.

    The sample weight of a node is multiplied by :math:`\exp(-\nu f_y / (K-1))`, y its class: what was
    predicted well matters less.

    Parameters
    ----------
    proba_floor
        Probabilities are kept above this before the logarithm.
    learning_rate
        The step :math:`\nu` of every round, greater than 0.

    Examples
    --------
    >>> SammeR(learning_rate=0.5)
    SammeR(learning_rate=0.5)
    """

    proba_floor: float = 1e-7
    learning_rate: float = 1.0

    def check(self, task: Task) -> None:
        """Raise when a setting is out of range, or y has no classes."""
        check_number("SammeR", "proba_floor", self.proba_floor, 0, 0.5, open_low=True, open_high=True)
        check_number("SammeR", "learning_rate", self.learning_rate, 0, open_low=True)
        check_classes(self, task)

    def voting_for(self, task: Task) -> Voting:
        """Return the vote with centred log-probabilities."""
        return LogProbaVoting(n_outputs=task.n_columns, proba_floor=self.proba_floor)

    def vote(
        self, direction: torch.Tensor, quality: WeakLearnings, context: RoundContext, state: torch.Tensor
    ) -> Vote:
        """Return the same step every round."""
        error = weighted_error(direction, context.train, state)
        return Vote(self.learning_rate, direction, quality, error)

    def update(self, state: torch.Tensor, vote: Vote, context: RoundContext) -> torch.Tensor:
        """Lower the weight of the nodes that were predicted well."""
        train, K = context.train, context.problem.task.n_columns
        rows = vote.direction[..., train.rows, :].double()
        own = rows.gather(-1, train.targets.expand(rows.shape[:-1])[..., None])[..., 0]
        return normalized(state * torch.exp(-vote.eta[..., None] * own / (K - 1)))

    def own_residuals(self, state: torch.Tensor, context: RoundContext) -> torch.Tensor:
        r"""Return the gradient for :math:`\exp(-\langle y, Y\rangle / K)`."""
        K = context.problem.task.n_columns
        return code_residuals(state, context.train, K, 1 / K)
