"""SoftVote: the vote for one class, smoothed so that it has a gradient."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from gbgnn.boosting import BoostingRule, Vote
from gbgnn.learners import WeakTask
from gbgnn.losses import Loss
from gbgnn.problem import NodeInputs, Problem


@dataclass(kw_only=True, eq=False, repr=False)
class SoftVote(BoostingRule):
    r"""A rule whose learners vote for all classes, by belief: the argmax becomes a softmax.

    The code of a class is 1 in its own column and -1/(K-1) in the others; the average code under
    :math:`p = \mathrm{softmax}(b(x))` is :math:`(K p_k - 1) / (K - 1)`. All else is the wrapped rule's.

    Parameters
    ----------
    rule
        The rule that the model was boosted with: one whose learners vote for a single class.

    Examples
    --------
    >>> from gbgnn.boosting import Samme
    >>> SoftVote(rule=Samme()).direction(torch.zeros(1, 3), n_classes=3)
    tensor([[0., 0., 0.]])
    """

    rule: BoostingRule

    def loss_for(self, n_classes: int) -> Loss:
        """Return the wrapped rule's loss."""
        return self.rule.loss_for(n_classes)

    def check(self, n_classes: int) -> None:
        """Check the wrapped rule."""
        self.rule.check(n_classes)

    def task(self, importance: torch.Tensor, scores: torch.Tensor, problem: Problem) -> WeakTask:
        """Ask for what the wrapped rule asks for."""
        return self.rule.task(importance, scores, problem)

    def direction(self, output: torch.Tensor, n_classes: int) -> torch.Tensor:
        """Return the average class code; for the sigmoid loss, its last column."""
        codes = (n_classes * output.softmax(dim=1) - 1) / (n_classes - 1)
        return codes[:, -self.loss_for(n_classes).n_outputs(n_classes) :]

    def vote(self, direction: torch.Tensor, task: WeakTask, scores: torch.Tensor, problem: Problem) -> Vote:
        """Step as far as the wrapped rule would."""
        return self.rule.vote(direction, task, scores, problem)

    def advance(self, importance: torch.Tensor, vote: Vote, problem: Problem) -> torch.Tensor:
        """Remember what the wrapped rule remembers."""
        return self.rule.advance(importance, vote, problem)

    @property
    def max_attempts(self) -> int:
        """As many as the wrapped rule's."""
        return self.rule.max_attempts

    def settle(self, vote: Vote) -> Vote:
        """Decide as the wrapped rule does."""
        return self.rule.settle(vote)

    def initial_importance(self, problem: Problem) -> torch.Tensor:
        """Start where the wrapped rule does."""
        return self.rule.initial_importance(problem)

    def initial_scores(self, inputs: NodeInputs, n_classes: int) -> torch.Tensor:
        """Start where the wrapped rule does."""
        return self.rule.initial_scores(inputs, n_classes)

    def exponential_residuals(self, importance: torch.Tensor, problem: Problem) -> torch.Tensor | None:
        """Return the wrapped rule's."""
        return self.rule.exponential_residuals(importance, problem)

    def proba(self, scores: torch.Tensor, total_eta: float, n_classes: int) -> torch.Tensor:
        """Return the wrapped rule's probabilities."""
        return self.rule.proba(scores, total_eta, n_classes)


def votes_for_one_class(rule: BoostingRule, n_classes: int) -> bool:
    """Return whether a rule's direction is a choice, which no gradient passes.

    Examples
    --------
    >>> from gbgnn.boosting import Samme, SammeR
    >>> votes_for_one_class(Samme(), 3), votes_for_one_class(SammeR(), 3)
    (True, False)
    """
    with torch.enable_grad():
        probe = torch.zeros(1, n_classes, requires_grad=True)
        return not rule.direction(probe, n_classes).requires_grad


def differentiable(rule: BoostingRule, n_classes: int) -> BoostingRule:
    """Return the rule itself, or its soft form where its learners vote for one class."""
    return SoftVote(rule=rule) if votes_for_one_class(rule, n_classes) else rule
