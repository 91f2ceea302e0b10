"""Learner (a family of b), Head (one fitted b), WeakTask (what b must fit this round)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from sklearn.base import BaseEstimator
from torch import nn

BLOCK_BYTES = 64 * 2**20
"""Heads are applied to all nodes in row blocks of this size, so that activations stay small."""


@dataclass(frozen=True, eq=False)
class WeakTask:
    """What the learner is asked to fit in one round; made by the boosting rule.

    Parameters
    ----------
    rows
        Ids of the labelled nodes, shape (M,).
    targets
        Class indices, shape (M,), for classification; numbers, shape (M, n_outputs), for regression.
    weights
        Importance of each labelled node; they sum to one.
    n_outputs
        Columns the head must return: one logit per class, or one number per score column.
    val_rows, val_targets
        The same of the validation nodes, for learners that stop early.
    """

    rows: torch.Tensor
    targets: torch.Tensor
    weights: torch.Tensor
    n_outputs: int
    val_rows: torch.Tensor | None = None
    val_targets: torch.Tensor | None = None

    @property
    def is_regression(self) -> bool:
        """Whether the targets are numbers rather than classes."""
        return self.targets.is_floating_point()


class Head(nn.Module, ABC):
    """One fitted transformation: rows of a representation in, ``n_outputs`` columns out.

    For a classification task the columns are logits: their softmax is the learner's belief.
    """

    @abstractmethod
    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Return the outputs of the rows ``X``."""

    @abstractmethod
    def state(self) -> dict[str, torch.Tensor]:
        """Return the tensors that define this head, for the model file."""

    @classmethod
    @abstractmethod
    def from_state(cls, state: dict[str, torch.Tensor]) -> Head:
        """Build the head again from :meth:`state`."""

    def report(self) -> dict[str, Any] | None:
        """Return what the learner has to say of its training, JSON-ready, for the history, or None."""
        return None

    @property
    def first_layer(self) -> tuple[str, str] | None:
        """Names of the weight, shape (out, in), and the bias of a linear layer that rows meet first, or None.

        Fine-tuning moves these two as a function of standardised rows.
        """
        return None

    def evaluate(self, X: torch.Tensor) -> torch.Tensor:
        """Return the outputs of all rows, computed block by block without a gradient."""
        rows_per_block = max(1, BLOCK_BYTES // (X.shape[1] * X.element_size()))
        with torch.no_grad():
            return torch.cat([self(block) for block in X.split(rows_per_block)])


@dataclass(frozen=True)
class HeadSpace:
    """All networks that a learner could have trained, whatever the labels; what a bound must cover.

    Parameters
    ----------
    n_layers
        The theory's L: weight matrices, so one more than hidden layers. Between them is an activation that
        changes no faster than its input and is zero at zero.
    max_norm
        The theory's B: the most that the absolute values in a column of a weight matrix sum to.
    bias
        Whether the input has a constant column 1 beside the representation. No other layer has a bias.
    """

    n_layers: int
    max_norm: float
    bias: bool = False


class Learner(BaseEstimator, ABC):
    """How one round's transformation is trained, on the labelled rows only.

    ``check`` is called once before a fit and raises :class:`~gbgnn.errors.ParameterError` on a setting
    out of range. ``fit`` is called once per round, or more often when the boosting rule asks for
    another try with another ``seed``; it gets the representation ``X`` of all nodes and must train on
    ``X[task.rows]`` alone. A learner of one's own is a few lines::

        @dataclass(kw_only=True, eq=False, repr=False)
        class Constant(Learner):
            def check(self):
                pass

            def fit(self, X, task, seed):
                return ConstantHead(task.weights @ task.targets.to(task.weights))
    """

    @abstractmethod
    def check(self) -> None:
        """Raise when a setting is out of range."""

    @abstractmethod
    def fit(self, X: torch.Tensor, task: WeakTask, seed: int) -> Head:
        """Train one head."""

    @property
    def is_differentiable(self) -> bool:
        """Whether its heads have parameters that a gradient can move; fine-tuning needs that."""
        return True

    def hypothesis_space(self) -> HeadSpace | None:
        """Return what ``fit`` chooses from, or None where no norm bounds it."""
        return None
