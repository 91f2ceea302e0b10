"""RoundContext: the one object that the parts of a round are handed.

Several models may be boosted at once. What differs between these members then has an axis of members in
front: scores are (members, N, K), sample weights (members, M). :meth:`RoundContext.member` is the round of
one of them, without that axis: what an aggregation and a learner are handed that know nothing of members.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import torch
from sklearn.base import BaseEstimator, clone

from gbgnn.losses import Loss
from gbgnn.problem import LabelledNodes, NodeInputs, Problem
from gbgnn.propagation import Representation

P = TypeVar("P", bound=BaseEstimator)
Index = int | slice | torch.Tensor | None
"""Members: the number of one, whose axis goes; all; the numbers of several. None gives one alone an axis."""


@dataclass(frozen=True, eq=False)
class WeakTask:
    """What the learner is asked to fit in one round; made by the boosting rule.

    ``rows`` are ids of the labelled nodes, shape (M,); ``targets`` class indices, (M,), the same for all
    members, or numbers, (members, M, n_outputs); ``weights`` their sample weights, (members, M), which sum to
    one. The head must return ``n_outputs`` columns, one logit per class or one number per score column, that
    make ``loss`` small, after ``offsets``, (members, M, n_outputs), are added to them where there are some.
    ``val_rows``, ``val_targets`` and ``val_offsets`` are for learners that stop early.
    """

    rows: torch.Tensor
    targets: torch.Tensor
    weights: torch.Tensor
    n_outputs: int
    loss: Loss
    val_rows: torch.Tensor | None = None
    val_targets: torch.Tensor | None = None
    offsets: torch.Tensor | None = None
    val_offsets: torch.Tensor | None = None

    @property
    def is_regression(self) -> bool:
        """Whether the targets are numbers rather than classes."""
        return self.loss.takes == "numbers"

    def members(self, index: Index) -> WeakTask:
        """Return what some members, or one, are asked to fit."""
        n_axes = 2 if index is None else 3  # of numbers, which members have their own of

        def choose(each: Any, n_own: int) -> Any:
            return each if each is None or each.ndim < n_own else each[index]

        return replace(
            self,
            targets=choose(self.targets, n_axes),
            weights=choose(self.weights, n_axes - 1),
            val_targets=choose(self.val_targets, n_axes),
            offsets=choose(self.offsets, n_axes),
            val_offsets=choose(self.val_offsets, n_axes),
        )


@dataclass(frozen=True, eq=False)
class TrainingLoss:
    """The training loss at some scores; its value and its gradient are computed once, in double precision.

    ``scores`` are those of the labelled nodes, shape (M, K) or (members, M, K).
    """

    loss: Loss
    train: LabelledNodes
    scores: torch.Tensor

    @classmethod
    def at(cls, scores: torch.Tensor, train: LabelledNodes, loss: Loss) -> TrainingLoss:
        """Return the training loss at the scores of all nodes."""
        return cls(loss, train, scores[..., train.rows, :].double())

    def members(self, index: Index) -> TrainingLoss:
        """Return the training loss of some members, or of one."""
        return replace(self, scores=self.scores[index])

    @cached_property
    def residuals(self) -> torch.Tensor:
        """Each labelled row's negative gradient in its scores, its weight left out, shape (..., M, K)."""
        return -self.loss.evaluate("gradient", self.scores, self.train.targets)

    @cached_property
    def value(self) -> torch.Tensor:
        """The weighted mean of the losses."""
        return self.loss.mean(self.scores, self.train.targets, self.train.weights)

    @cached_property
    def gradient_norm(self) -> torch.Tensor:
        r"""The norm of the paper's gradient.

        With uniform weights 1/M that is the gradient of the mean loss. With others every row is scaled by
        :math:`\sqrt{s_n / M}`, and so are directions: then inner products are those of the weighted loss,
        and every statement about uniform weights holds word for word.
        """
        scale = (self.train.weights / self.train.size).sqrt()
        norms: torch.Tensor = (self.residuals * scale[:, None]).norm(dim=(-2, -1))
        return norms


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
        The hops so far, from that of round 1; of several members a sequence for each.
    scores
        Scores of all nodes before the round.
    training
        The training loss at those scores, and its gradient.
    seed
        All that the part may draw from; of several members a seed for each.
    task
        What the learner must fit; None before the rule has said so.
    ids
        The members' numbers among all that began; None for one model without the axis of members.
    workspace
        Where parts may keep memory, not results, from round to round.
    previous
        Returns the head of the round before when called, None before there is one; of several members a
        sequence of such.
    """

    t: int
    problem: Problem
    X: Representation
    hops: Sequence[Any]
    scores: torch.Tensor
    training: TrainingLoss
    seed: Any
    task: WeakTask | None = None
    ids: Sequence[int] | None = None
    workspace: dict[Any, Any] = field(default_factory=dict)
    previous: Any = None

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

    @property
    def n_members(self) -> int:
        """How many models are boosted."""
        return 1 if self.ids is None else len(self.ids)

    def batched(self) -> RoundContext:
        """Return the round of one model with an axis of members, of which it is the only one."""
        if self.ids is not None:
            return self
        return self._select(None, self.X, [self.hops], [self.seed], [0], [self.previous])

    def member(self, i: int) -> RoundContext:
        """Return the round of one member, without the axis of members."""
        if self.ids is None:
            return self
        previous = None if self.previous is None else self.previous[i]
        return self._select(i, self.X.member(i), self.hops[i], self.seed[i], None, previous)

    def members(self, positions: Sequence[int]) -> RoundContext:
        """Return the round of some members."""
        assert self.ids is not None
        if len(positions) == len(self.ids):
            return self
        hops, seeds, ids = ([each[i] for i in positions] for each in (self.hops, self.seed, self.ids))
        index = torch.tensor(positions, device=self.scores.device, dtype=torch.int64)
        previous = None if self.previous is None else [self.previous[i] for i in positions]
        return self._select(index, self.X.members(positions), hops, seeds, ids, previous)

    def _select(
        self,
        index: Index,
        X: Representation,
        hops: Sequence[Any],
        seed: Any,
        ids: Sequence[int] | None,
        previous: Any,
    ) -> RoundContext:
        return replace(
            self,
            X=X,
            hops=hops,
            scores=self.scores[index],
            training=self.training.members(index),
            seed=seed,
            task=None if self.task is None else self.task.members(index),
            ids=ids,
            previous=previous,
        )

    def propagate(self, features: Representation) -> Representation:
        """Return what the hops so far make of other features, perturbed ones for example."""
        for hop in self.hops:
            features = hop(features, self.inputs)
        return features


def free_settings(part: Any) -> tuple[str, ...]:
    """Return the settings that members of a population may differ in.

    A part names them in a tuple ``may_differ``; without one, they are its numbers with a fraction, such as
    rates.
    """
    named: tuple[str, ...] | None = getattr(part, "may_differ", None)
    if named is not None:
        return named
    if is_dataclass(part):  # a rate of 1 is an integer that means a fraction
        return tuple(field.name for field in fields(part) if field.type in (float, "float"))
    return tuple(name for name, value in part.get_params(deep=False).items() if isinstance(value, float))


def shared_settings(part: Any) -> dict[str, Any]:
    """Return the settings that parts of one class must agree in to be trained together.

    Examples
    --------
    >>> from gbgnn import FunctionalGradient
    >>> shared_settings(FunctionalGradient(min_cosine=0.1))
    {'loss': 'auto', 'target': 'gradient', 'retries': 3, 'on_failure': 'stop'}
    """
    settings, free = vars(part) if is_dataclass(part) else part.get_params(deep=False), free_settings(part)
    return {name: value for name, value in settings.items() if name not in free}


def stack(parts: Sequence[P], device: torch.device | str = "cpu") -> P:
    """Return one part that stands for all: numbers in which they differ become tensors, a number for each.

    Examples
    --------
    >>> from gbgnn import Samme
    >>> stack([Samme(learning_rate=1.0), Samme(learning_rate=0.5)]).learning_rate.tolist()
    [1.0, 0.5]
    """
    if len(parts) == 1:
        return parts[0]
    result: P = clone(parts[0])
    for name in free_settings(result):
        column = [getattr(part, name) for part in parts]
        if any(value != column[0] for value in column):
            setattr(result, name, torch.tensor(column, dtype=torch.float64, device=device))
    return result


def for_rows(value: float | torch.Tensor, like: torch.Tensor) -> Any:
    """Return a number, or one for each member, in a shape that multiplies tables (members, rows, columns).

    Examples
    --------
    >>> for_rows(torch.tensor([1.0, 2.0]), torch.empty(2, 5, 3)).shape
    torch.Size([2, 1, 1])
    """
    if not isinstance(value, torch.Tensor):
        return value
    return value.to(like.dtype).reshape(*value.shape, *[1] * (like.ndim - value.ndim))


def map_tensors(function: Callable[..., torch.Tensor], value: Any, *others: Any) -> Any:
    """Return a value with a function applied to every tensor in it, and in others of the same form."""
    if isinstance(value, torch.Tensor):
        return function(value, *others)
    if isinstance(value, tuple):
        return tuple(map_tensors(function, *each) for each in zip(value, *others, strict=True))
    is_record = is_dataclass(value) and not isinstance(value, type)
    if not is_record and not isinstance(value, dict):
        return value
    mapped, tables = {}, [vars(each) if is_record else each for each in (value, *others)]
    for name in tables[0]:
        mapped[name] = map_tensors(function, *(table[name] for table in tables))
    return type(value)(**mapped) if is_record else mapped
