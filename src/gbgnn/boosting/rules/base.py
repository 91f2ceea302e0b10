"""BoostingRule: what the learner must fit, and how it is added to the scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from sklearn.base import BaseEstimator

from gbgnn.boosting.stopping import StopReason
from gbgnn.learners import WeakTask
from gbgnn.losses import Loss
from gbgnn.problem import NodeInputs, Problem


@dataclass(frozen=True, eq=False)
class Vote:
    """What a rule makes of a learner: ``eta * direction`` is added to the scores of all nodes.

    Parameters
    ----------
    eta
        The step.
    direction
        The paper's f^(t), all nodes, shape (N, n_outputs).
    weighted_error
        Share of the labelled nodes the learner gets wrong, by their importance this round.
    refusal
        Why the learner cannot be used, or None.
    attempts
        How many learners the loop tried before it settled on this one.
    """

    eta: float
    direction: torch.Tensor
    weighted_error: float
    refusal: StopReason | None = None
    attempts: int = 1


class BoostingRule(BaseEstimator, ABC):
    """How rounds are asked for and added up.

    In every round the loop calls ``task`` (what must be fitted now?), lets a learner fit it, calls
    ``direction`` (where do its outputs point?) and ``vote`` (how far to go?), adds that to the scores, and
    calls ``advance`` (what does the rule remember?). Prediction calls ``direction`` alone. What a rule
    remembers is its importance of the labelled nodes: it is handed in and returned, never stored on the
    rule. ``check`` runs once before a fit. A rule whose learners vote for one class also says so, by
    ``votes_for_one_class``, and has a ``soft_direction`` for fine-tuning: no gradient passes a choice. A
    rule of one's own::

        @dataclass(kw_only=True, eq=False, repr=False)
        class Bagging(BoostingRule):
            def loss_for(self, n_classes):
                return SoftmaxCrossEntropy()

            def check(self, n_classes):
                pass

            def task(self, importance, scores, problem):
                return label_task(importance, problem)

            def direction(self, output, n_classes):
                return output.softmax(dim=1)

            def vote(self, direction, task, scores, problem):
                return Vote(1.0, direction, weighted_error(direction, task))

            def advance(self, importance, vote, problem):
                return importance
    """

    @abstractmethod
    def loss_for(self, n_classes: int) -> Loss:
        """Return the loss by which progress is measured and probabilities are made."""

    @abstractmethod
    def check(self, n_classes: int) -> None:
        """Raise when a setting is out of range, or does not fit the number of classes."""

    @abstractmethod
    def task(self, importance: torch.Tensor, scores: torch.Tensor, problem: Problem) -> WeakTask:
        """Return what the learner must fit this round."""

    @abstractmethod
    def direction(self, output: torch.Tensor, n_classes: int) -> torch.Tensor:
        """Return the paper's f^(t) for a head's ``output``, row by row."""

    @abstractmethod
    def vote(self, direction: torch.Tensor, task: WeakTask, scores: torch.Tensor, problem: Problem) -> Vote:
        """Return the step along ``direction`` (all nodes) from ``scores``, or a refusal."""

    @abstractmethod
    def advance(self, importance: torch.Tensor, vote: Vote, problem: Problem) -> torch.Tensor:
        """Return the importance of the labelled nodes for the next round; it sums to one."""

    def soft_total(self, n_classes: int) -> float | None:
        """Return what the steps are scaled to add up to before fine-tuning; None leaves them as they are.

        For a rule whose predictions do not change with that scale, and whose cross entropy would otherwise be
        all but zero from the start, with nothing left to descend.
        """
        return None

    @property
    def max_attempts(self) -> int:
        """How many learners may be tried in a round, each from a fresh initialisation."""
        return 1

    @property
    def votes_for_one_class(self) -> bool:
        """Whether ``direction`` is a choice, which no gradient passes; ``soft_direction`` then is another."""
        return False

    def soft_direction(self, output: torch.Tensor, n_classes: int) -> torch.Tensor:
        """Return the direction as fine-tuning follows it, with a gradient; by default, ``direction``."""
        return self.direction(output, n_classes)

    def settle(self, vote: Vote) -> Vote:
        """Decide what becomes of a refusal when no attempts are left; by default it stands."""
        return vote

    def initial_importance(self, problem: Problem) -> torch.Tensor:
        """Return the importance in round 1: the weights of the training loss."""
        return problem.train.weights

    def initial_scores(self, inputs: NodeInputs, n_classes: int) -> torch.Tensor:
        """Return the scores before round 1: zero."""
        n_outputs = self.loss_for(n_classes).n_outputs(n_classes)
        return inputs.features.new_zeros(inputs.n_nodes, n_outputs)

    def exponential_residuals(self, importance: torch.Tensor, problem: Problem) -> torch.Tensor | None:
        """Return the negative gradient of the logarithm of the rule's own exponential loss, row by row.

        The logarithm has the same direction and neither overflows nor vanishes. As in
        :meth:`Loss.residuals <gbgnn.losses.Loss.residuals>`, the nodes' weights in the training loss are
        divided out. None for a rule that descends on the cross entropy itself.
        """
        return None

    @property
    def adds_outputs(self) -> bool:
        """Whether what a round adds to the scores is its head's output times the step; bounds need that."""
        return False

    def proba(self, scores: torch.Tensor, total_eta: float, n_classes: int) -> torch.Tensor:
        """Return class probabilities for scores that are a sum of steps ``total_eta`` in all."""
        return self.loss_for(n_classes).proba(scores)


def label_task(importance: torch.Tensor, problem: Problem) -> WeakTask:
    """Return the task of fitting the labels, weighted by importance."""
    train, val = problem.train, problem.validation
    return WeakTask(
        rows=train.rows,
        targets=train.targets,
        weights=importance,
        n_outputs=problem.n_classes,
        val_rows=None if val is None else val.rows,
        val_targets=None if val is None else val.targets,
    )


def class_codes(labels: torch.Tensor, n_classes: int, like: torch.Tensor) -> torch.Tensor:
    """Return SAMME's code of each label: 1 for the class, -1/(K-1) for every other.

    Examples
    --------
    >>> class_codes(torch.tensor([1]), 3, like=torch.empty(0)).tolist()
    [[-0.5, 1.0, -0.5]]
    """
    codes = like.new_full((len(labels), n_classes), -1 / (n_classes - 1))
    return codes.scatter_(1, labels[:, None], 1.0)


def average_codes(output: torch.Tensor, n_classes: int) -> torch.Tensor:
    r"""Return the average code of the classes under a learner's belief :math:`p = \mathrm{softmax}(b(x))`.

    The argmax of a vote for one class becomes a softmax: column k is :math:`(K p_k - 1) / (K - 1)`.

    Examples
    --------
    >>> average_codes(torch.tensor([[0.0, 0.0], [0.0, 50.0]]), 2).tolist()
    [[0.0, 0.0], [-1.0, 1.0]]
    """
    return (n_classes * output.softmax(dim=1) - 1) / (n_classes - 1)


def code_residuals(importance: torch.Tensor, problem: Problem, scale: float) -> torch.Tensor:
    r"""Return the negative gradient of :math:`\log \sum_n s_n \exp(-c \langle y_n, Y_n\rangle)`, y in codes.

    The importance of a node is its share of the sum, so the gradient is ``importance * scale * code``.
    """
    train = problem.train
    codes = class_codes(train.targets, problem.n_classes, like=importance)
    shares = torch.where(train.weights > 0, importance / train.weights, 0.0)
    return scale * shares[:, None] * codes


def weighted_error(direction: torch.Tensor, task: WeakTask) -> float:
    """Return the share of labelled nodes, by weight, whose largest column is not their class."""
    wrong = direction[task.rows].argmax(dim=1) != task.targets
    return float((task.weights * wrong).sum())


def normalized(importance: torch.Tensor) -> torch.Tensor:
    """Return the importance scaled to sum to one."""
    return importance / importance.sum()
