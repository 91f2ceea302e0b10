"""MultiLabel: any number of labels per node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from gbgnn.errors import GraphError
from gbgnn.losses import Loss, SigmoidCrossEntropy
from gbgnn.tasks.base import Link, Task, as_table, check_kind


@dataclass(kw_only=True, eq=False, repr=False)
class MultiLabel(Task):
    """Every node has any of several labels; y and targets are 0/1 matrices, a column per label.

    Parameters
    ----------
    n_labels
        Number of columns; None takes that of y.

    Examples
    --------
    >>> task = MultiLabel().fit([[1, 0, 1], [0, 0, 0]])
    >>> task.n_columns, task.encode([[1, 1, 0]])
    (3, array([[1., 1., 0.]]))
    """

    n_labels: int | None = None

    has_proba = True

    def fit(self, y: ArrayLike, name: str = "y") -> Self:
        """Return the task with the number of labels of y."""
        matrix = _as_indicators(y, name)
        if not len(matrix):
            raise GraphError("nodes is empty; training needs labelled nodes.")
        fitted = type(self)(n_labels=matrix.shape[1] if self.n_labels is None else self.n_labels)
        fitted.encode(matrix, name)
        return fitted

    def encode(self, y: ArrayLike, name: str = "y") -> NDArray[np.float64]:
        """Return y as numbers."""
        matrix = _as_indicators(y, name)
        if matrix.shape[1] != self.n_columns:
            raise GraphError(
                f"{name} has {matrix.shape[1]} columns, but the training nodes have {self.n_columns} labels."
            )
        return matrix

    def decode(self, targets: NDArray[Any]) -> NDArray[np.int64]:
        """Return a matrix of 0 and 1."""
        return np.asarray(targets).astype(np.int64)

    @property
    def n_columns(self) -> int:
        """Number of labels."""
        assert self.n_labels is not None, "fit first"
        return self.n_labels

    def n_outputs(self, loss: Loss) -> int:
        """Return one score per label."""
        check_kind("multi-label y", loss, "binary", "sigmoid")
        return self.n_columns

    def decide(self, scores: torch.Tensor, link: Link) -> torch.Tensor:
        """Return 1 where the score is positive."""
        return (scores > 0).double()

    def codes(self, targets: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Return the labels themselves: nodes are alike that share many."""
        return targets.to(dtype)

    @property
    def default_loss(self) -> Loss:
        """Sigmoid cross entropy, column by column."""
        return SigmoidCrossEntropy()

    @property
    def default_metric(self) -> str:
        """F1 over all entries of the matrix."""
        return "f1_micro"

    def misses(self, decided: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return which rows have a wrong entry."""
        return (decided != targets).any(dim=-1)

    def proba(self, scores: torch.Tensor, link: Link) -> torch.Tensor:
        """Return the probability of every label, shape (n, n_labels)."""
        return link(scores)

    def record(self) -> dict[str, Any]:
        """Return the number of labels."""
        return {"n_labels": self.n_columns}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Self:
        """Build the task again."""
        return cls(n_labels=int(record["n_labels"]))


def _as_indicators(y: ArrayLike, name: str) -> NDArray[np.float64]:
    table = as_table(y, name)
    if table.ndim != 2 or table.shape[1] == 0:
        raise GraphError(f"{name} must be a 0/1 matrix with a row per node; got shape {table.shape}.")
    if table.dtype.kind not in "biuf" or not np.isin(table, (0, 1)).all():
        raise GraphError(f"{name} must be a matrix of 0 and 1, a column per label; got other entries.")
    return table.astype(np.float64)
