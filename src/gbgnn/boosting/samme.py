"""SAMME, AdaBoost for several classes, and SAMME.R, in which learners vote with their probabilities."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from gbgnn._checks import check_number
from gbgnn.boosting.rules import BoostingRule, Vote, check_classes, label_task, reweighted
from gbgnn.boosting.selection import StopReason
from gbgnn.boosting.voting import ClassVoting, LogProbaVoting, Voting, class_codes, samme_step
from gbgnn.losses import Loss, SoftmaxCrossEntropy
from gbgnn.problem import LabelledNodes, Problem
from gbgnn.rounds import RoundContext, WeakTask
from gbgnn.tasks import Task
from gbgnn.theory import WeakLearnings

_ROUNDING = 1e-12
"""By so much the weighted error of a learner that is no better than chance may be off."""


class WeightedRule(BoostingRule):
    """A rule that asks for the classes every round, and remembers how much each labelled node weighs."""

    def loss_for(self, task: Task) -> Loss:
        """Return the softmax cross entropy: progress is measured by it in the paper's figures."""
        return SoftmaxCrossEntropy()

    def start(self, problem: Problem, n_members: int) -> torch.Tensor:
        """Return the sample weights of round 1: those of the training loss."""
        return problem.train.weights.expand(n_members, -1)

    def ask(self, context: RoundContext, state: torch.Tensor) -> WeakTask:
        """Ask for the classes, by sample weight."""
        return label_task(context, state)


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
        return reweighted(state, vote.eta[..., None] * wrong)

    def own_residuals(self, state: torch.Tensor, context: RoundContext) -> torch.Tensor:
        r"""Return the gradient for :math:`\exp(-(1 - 1/K)^2 \langle y, Y\rangle)`: a miss costs exp(eta)."""
        K = context.problem.task.n_columns
        return code_residuals(state, context.train, K, (1 - 1 / K) ** 2)


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
        return reweighted(state, -vote.eta[..., None] * own / (K - 1))

    def own_residuals(self, state: torch.Tensor, context: RoundContext) -> torch.Tensor:
        r"""Return the gradient for :math:`\exp(-\langle y, Y\rangle / K)`."""
        K = context.problem.task.n_columns
        return code_residuals(state, context.train, K, 1 / K)


def code_residuals(sample_weight: torch.Tensor, train: LabelledNodes, K: int, scale: float) -> torch.Tensor:
    r"""Return the negative gradient of :math:`\log \sum_n s_n \exp(-c \langle y_n, Y_n\rangle)`, y in codes.

    The sample weight of a node is its share of the sum, so the gradient is ``sample_weight * scale * code``.
    """
    codes = class_codes(train.targets, K, like=sample_weight)
    shares = torch.where(train.weights > 0, sample_weight / train.weights, 0.0)
    return scale * shares[..., None] * codes


def find_wrong(direction: torch.Tensor, train: LabelledNodes) -> torch.Tensor:
    """Return which labelled nodes have their largest column at another class."""
    return direction[..., train.rows, :].argmax(dim=-1) != train.targets


def weighted_error(
    direction: torch.Tensor, train: LabelledNodes, sample_weight: torch.Tensor
) -> torch.Tensor:
    """Return the share of labelled nodes, by weight, whose largest column is not their class."""
    return (sample_weight * find_wrong(direction, train)).sum(dim=-1)
