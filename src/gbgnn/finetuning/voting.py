"""SoftVote: a rule by its soft direction, for a model that was tuned along it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from gbgnn.boosting import BoostingRule, Vote
from gbgnn.learners import WeakTask
from gbgnn.losses import Loss
from gbgnn.problem import NodeInputs, Problem


@dataclass(kw_only=True, eq=False, repr=False)
class SoftVote(BoostingRule):
    """A rule whose direction is the ``soft_direction`` of another: it has a gradient. All else is the same.

    Learners that voted for one class vote for all, as far as they believe in them.

    Parameters
    ----------
    rule
        The rule that the model was boosted with.

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
        """Return the wrapped rule's soft direction."""
        return self.rule.soft_direction(output, n_classes)

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
