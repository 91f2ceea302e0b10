"""SAMME: AdaBoost for several classes, the paper's default."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from gbgnn._checks import check_number
from gbgnn.boosting.rules.base import (
    BoostingRule,
    Vote,
    average_codes,
    class_codes,
    code_residuals,
    label_task,
    normalized,
    weighted_error,
)
from gbgnn.boosting.stopping import StopReason
from gbgnn.learners import WeakTask
from gbgnn.losses import Loss, SoftmaxCrossEntropy
from gbgnn.problem import Problem


@dataclass(kw_only=True, eq=False, repr=False)
class Samme(BoostingRule):
    r"""Stage-wise additive modelling with a multi-class exponential loss (Hastie et al., 2009).

    The learner votes for one class per node; with weighted error e its step is
    :math:`\eta = \nu \left(\log\frac{1-e}{e} + \log(K-1)\right)`, and the importance of the nodes it gets
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

    def loss_for(self, n_classes: int) -> Loss:
        """Progress is measured by the softmax cross entropy, as in the paper's figures."""
        return SoftmaxCrossEntropy()

    def check(self, n_classes: int) -> None:
        """Raise when a setting is out of range."""
        check_number("Samme", "error_floor", self.error_floor, 0, 0.5, open_low=True, open_high=True)
        check_number("Samme", "learning_rate", self.learning_rate, 0, open_low=True)

    def task(self, importance: torch.Tensor, scores: torch.Tensor, problem: Problem) -> WeakTask:
        """Ask for the labels, weighted by importance."""
        return label_task(importance, problem)

    def direction(self, output: torch.Tensor, n_classes: int) -> torch.Tensor:
        """Vote for the likeliest class of every node."""
        return class_codes(output.argmax(dim=1), n_classes, like=output)

    @property
    def votes_for_one_class(self) -> bool:
        """Yes."""
        return True

    def soft_direction(self, output: torch.Tensor, n_classes: int) -> torch.Tensor:
        """Vote for every class as far as it is believed in."""
        return average_codes(output, n_classes)

    def vote(self, direction: torch.Tensor, task: WeakTask, scores: torch.Tensor, problem: Problem) -> Vote:
        """Return the larger a step the fewer errors there are."""
        n_classes = problem.n_classes
        error = weighted_error(direction, task)
        clipped = min(max(error, self.error_floor), 1 - self.error_floor)
        eta = self.learning_rate * step(clipped, n_classes)
        refusal = StopReason.NO_BETTER_THAN_CHANCE if error >= 1 - 1 / n_classes else None
        return Vote(eta, direction, error, refusal)

    def advance(self, importance: torch.Tensor, vote: Vote, problem: Problem) -> torch.Tensor:
        """Raise the importance of the nodes that were got wrong."""
        train = problem.train
        wrong = vote.direction[train.rows].argmax(dim=1) != train.targets
        return normalized(importance * torch.exp(vote.eta * wrong.double()))

    def soft_total(self, n_classes: int) -> float:
        """Scale to the step of one learner that gets every twentieth node wrong."""
        return step(0.05, n_classes)

    def exponential_residuals(self, importance: torch.Tensor, problem: Problem) -> torch.Tensor:
        r"""Return the gradient for :math:`\exp(-(1 - 1/K)^2 \langle y, Y\rangle)`: a miss costs exp(eta)."""
        return code_residuals(importance, problem, (1 - 1 / problem.n_classes) ** 2)

    def proba(self, scores: torch.Tensor, total_eta: float, n_classes: int) -> torch.Tensor:
        """Return softmax of the average vote over K - 1, as scikit-learn's AdaBoost does."""
        return average_vote_proba(scores, total_eta, n_classes)


def step(error: float, n_classes: int) -> float:
    """Return SAMME's step for a learner with this weighted error.

    Examples
    --------
    >>> step(0.5, 2), round(step(0.05, 3), 2)
    (0.0, 3.64)
    """
    return math.log((1 - error) / error) + math.log(n_classes - 1)


def average_vote_proba(scores: torch.Tensor, total_eta: float, n_classes: int) -> torch.Tensor:
    """Return probabilities of a sum of SAMME votes; dividing by the steps keeps them from saturating."""
    average = scores / total_eta if total_eta > 0 else scores
    return (average / (n_classes - 1)).softmax(dim=1)
