"""RoundContext: the one object that the parts of a round are handed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from gbgnn.losses import Loss
from gbgnn.problem import LabelledNodes, NodeInputs, Problem
from gbgnn.propagation import Representation

RowMap = Callable[[Representation, NodeInputs], Representation]


@dataclass(frozen=True, eq=False)
class WeakTask:
    """What the learner is asked to fit in one round; made by the boosting rule.

    Parameters
    ----------
    rows
        Ids of the labelled nodes, shape (M,).
    targets
        Class indices, shape (M,), or numbers, shape (M, n_outputs): what ``loss`` takes.
    weights
        Sample weights of the labelled nodes; they sum to one.
    n_outputs
        Columns the head must return: one logit per class, or one number per score column.
    loss
        What the learner should make small.
    val_rows, val_targets
        The same of the validation nodes, for learners that stop early.
    """

    rows: torch.Tensor
    targets: torch.Tensor
    weights: torch.Tensor
    n_outputs: int
    loss: Loss
    val_rows: torch.Tensor | None = None
    val_targets: torch.Tensor | None = None

    @property
    def is_regression(self) -> bool:
        """Whether the targets are numbers rather than classes."""
        return self.loss.takes == "numbers"


@dataclass(frozen=True, eq=False)
class TrainingLoss:
    """The training loss at some scores; its value and its gradient are computed once, in double precision.

    Parameters
    ----------
    loss
        The loss by which progress is measured.
    train
        The labelled nodes.
    scores
        Those of the labelled nodes, shape (M, K).
    """

    loss: Loss
    train: LabelledNodes
    scores: torch.Tensor

    @classmethod
    def at(cls, scores: torch.Tensor, train: LabelledNodes, loss: Loss) -> TrainingLoss:
        """Return the training loss at the scores of all nodes."""
        return cls(loss, train, scores[train.rows].double())

    @cached_property
    def residuals(self) -> torch.Tensor:
        """Each labelled row's negative gradient in its scores, its weight left out, shape (M, K)."""
        return -self.loss.gradient(self.scores, self.train.targets)

    @cached_property
    def value(self) -> float:
        """The weighted mean of the losses."""
        return self.loss.mean(self.scores, self.train.targets, self.train.weights)

    @cached_property
    def gradient_norm(self) -> float:
        r"""The norm of the paper's gradient.

        With uniform weights 1/M that is the gradient of the mean loss. With others every row is scaled by
        :math:`\sqrt{s_n / M}`, and so are directions: then inner products are those of the weighted loss,
        and every statement about uniform weights holds word for word.
        """
        scale = (self.train.weights / self.train.size).sqrt()
        return float((self.residuals * scale[:, None]).norm())


@dataclass(frozen=True, eq=False)
class RoundContext:
    """What a part of the method may look at in a round.

    An aggregation sees the representation before the hop, a rule and a learner that after it.

    Parameters
    ----------
    t
        The round's number, from 1.
    problem
        The raw features of all nodes and P (``problem.inputs``), the task, labelled and validation nodes.
    X
        The representation of all nodes.
    hops
        The hops so far, from that of round 1.
    scores
        Scores of all nodes before the round.
    training
        The training loss at those scores, and its gradient.
    seed
        All that the part may draw from.
    task
        What the learner must fit; None before the rule has said so.
    """

    t: int
    problem: Problem
    X: Representation
    hops: Sequence[RowMap]
    scores: torch.Tensor
    training: TrainingLoss
    seed: int
    task: WeakTask | None = None

    @property
    def inputs(self) -> NodeInputs:
        """The raw features of all nodes, and P."""
        return self.problem.inputs

    @property
    def train(self) -> LabelledNodes:
        """The labelled nodes."""
        return self.problem.train

    @property
    def weak_task(self) -> WeakTask:
        """What the learner must fit."""
        assert self.task is not None, "the rule has not asked for anything yet"
        return self.task

    def propagate(self, features: Representation) -> Representation:
        """Return what the hops so far make of other features, perturbed ones for example."""
        for hop in self.hops:
            features = hop(features, self.inputs)
        return features
