"""Regression: one or several numbers per node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from gbgnn.errors import GraphError
from gbgnn.losses import Loss, SquaredError
from gbgnn.tasks.base import Link, Task, as_table, check_kind


@dataclass(kw_only=True, eq=False, repr=False)
class Regression(Task):
    """Every node has a number, or several; targets are the numbers, standardised by the training nodes.

    Scores then start at the mean, and settings mean the same whatever the unit of y.

    Parameters
    ----------
    centre, scale
        What is subtracted from every column, and what it is divided by; None takes the mean and the standard
        deviation of y.
    is_flat
        Whether predictions are a vector rather than a matrix; None is as y was.

    Examples
    --------
    >>> task = Regression().fit([10.0, 30.0])
    >>> task.encode([30.0, 40.0]).tolist(), task.decode(np.array([[0.5]])).tolist()
    ([[1.0], [2.0]], [25.0])
    """

    centre: NDArray[np.float64] | None = None
    scale: NDArray[np.float64] | None = None
    is_flat: bool | None = None

    def fit(self, y: ArrayLike, name: str = "y") -> Self:
        """Return the task with the mean and the standard deviation of y."""
        numbers, is_flat = _as_numbers(y, name)
        if not len(numbers):
            raise GraphError("nodes is empty; training needs labelled nodes.")
        deviation = numbers.std(axis=0)
        # A column that never changes is learned by its mean alone; its deviation may be a rounding error.
        deviation = np.where((np.ptp(numbers, axis=0) > 0) & (deviation > 0), deviation, 1.0)
        n_columns = numbers.shape[1]
        return type(self)(
            centre=np.full(n_columns, numbers.mean(axis=0) if self.centre is None else self.centre, float),
            scale=np.full(n_columns, deviation if self.scale is None else self.scale, float),
            is_flat=is_flat if self.is_flat is None else self.is_flat and n_columns == 1,
        )

    def encode(self, y: ArrayLike, name: str = "y") -> NDArray[np.float64]:
        """Return y, standardised."""
        numbers, _ = _as_numbers(y, name)
        if numbers.shape[1] != self.n_columns:
            raise GraphError(
                f"{name} has {numbers.shape[1]} columns, but the training nodes have {self.n_columns}."
            )
        centre, scale = self._known()
        standardized: NDArray[np.float64] = (numbers - centre) / scale
        return standardized

    def decode(self, targets: NDArray[Any]) -> NDArray[np.float64]:
        """Return numbers in the unit of y."""
        centre, scale = self._known()
        numbers: NDArray[np.float64] = np.asarray(targets, np.float64) * scale + centre
        return numbers[:, 0] if self.is_flat else numbers

    @property
    def n_columns(self) -> int:
        """How many numbers a node has."""
        return len(self._known()[0])

    def n_outputs(self, loss: Loss) -> int:
        """Return one score per number."""
        check_kind("numeric y", loss, "numbers", "squared")
        return self.n_columns

    def decide(self, scores: torch.Tensor, link: Link) -> torch.Tensor:
        """Return what the loss's link makes of the scores."""
        return link(scores)

    def codes(self, targets: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Return the standardised numbers."""
        return targets.to(dtype)

    @property
    def default_loss(self) -> Loss:
        """Squared error."""
        return SquaredError()

    @property
    def default_metric(self) -> str:
        """The coefficient of determination."""
        return "r2"

    def record(self) -> dict[str, Any]:
        """Return centre, scale and shape."""
        centre, scale = self._known()
        return {"centre": centre.tolist(), "scale": scale.tolist(), "is_flat": self.is_flat}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Self:
        """Build the task again."""
        centre, scale = (np.array(record[name], np.float64) for name in ("centre", "scale"))
        return cls(centre=centre, scale=scale, is_flat=bool(record["is_flat"]))

    def _known(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        assert self.centre is not None, "fit first"
        assert self.scale is not None, "fit first"
        return self.centre, self.scale


def _as_numbers(y: ArrayLike, name: str) -> tuple[NDArray[np.float64], bool]:
    table = as_table(y, name)
    if table.dtype.kind not in "biuf":
        raise GraphError(f"{name} must be numbers; got dtype {table.dtype}.")
    if not np.isfinite(table).all():
        raise GraphError(f"{name} must be finite numbers; got infinity.")
    is_flat = table.ndim == 1
    numbers = table.astype(np.float64)
    return (numbers[:, None] if is_flat else numbers), is_flat
