"""SAMME.R: the real-valued variant, in which learners vote with their probabilities."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from gbgnn._checks import check_number
from gbgnn.boosting.rules.base import (
    BoostingRule,
    Vote,
    code_residuals,
    label_task,
    normalized,
    weighted_error,
)
from gbgnn.boosting.rules.samme import average_vote_proba
from gbgnn.learners import WeakTask
from gbgnn.losses import Loss, SoftmaxCrossEntropy
from gbgnn.problem import Problem


@dataclass(kw_only=True, eq=False, repr=False)
class SammeR(BoostingRule):
    r"""Vote with :math:`f_k = (K-1)(\log p_k - \frac1K \sum_j \log p_j)`, the same step every round.

    The importance of a node is multiplied by :math:`\exp(-\nu f_y / (K-1))`, y its class: what was predicted
    well matters less.

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

    def loss_for(self, n_classes: int) -> Loss:
        """Progress is measured by the softmax cross entropy, as in the paper's figures."""
        return SoftmaxCrossEntropy()

    def check(self, n_classes: int) -> None:
        """Raise when a setting is out of range."""
        check_number("SammeR", "proba_floor", self.proba_floor, 0, 0.5, open_low=True, open_high=True)
        check_number("SammeR", "learning_rate", self.learning_rate, 0, open_low=True)

    def task(self, importance: torch.Tensor, scores: torch.Tensor, problem: Problem) -> WeakTask:
        """Ask for the labels, weighted by importance."""
        return label_task(importance, problem)

    def direction(self, output: torch.Tensor, n_classes: int) -> torch.Tensor:
        """Vote with the centred log-probabilities."""
        logs = output.softmax(dim=1).clamp_min(self.proba_floor).log()
        return (n_classes - 1) * (logs - logs.mean(dim=1, keepdim=True))

    def vote(self, direction: torch.Tensor, task: WeakTask, scores: torch.Tensor, problem: Problem) -> Vote:
        """Return the same step every round."""
        return Vote(self.learning_rate, direction, weighted_error(direction, task))

    def advance(self, importance: torch.Tensor, vote: Vote, problem: Problem) -> torch.Tensor:
        """Lower the importance of the nodes that were predicted well."""
        train = problem.train
        own = vote.direction[train.rows].double().gather(1, train.targets[:, None])[:, 0]
        return normalized(importance * torch.exp(-vote.eta * own / (problem.n_classes - 1)))

    def exponential_residuals(self, importance: torch.Tensor, problem: Problem) -> torch.Tensor:
        r"""Return the gradient for :math:`\exp(-\langle y, Y\rangle / K)`."""
        return code_residuals(importance, problem, 1 / problem.n_classes)

    def proba(self, scores: torch.Tensor, total_eta: float, n_classes: int) -> torch.Tensor:
        """Return the normalised geometric mean of the learners' probabilities."""
        return average_vote_proba(scores, total_eta, n_classes)
