"""Regression: every node has a number, or several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from gbgnn.errors import GraphError, ParameterError
from gbgnn.labels import as_numbers
from gbgnn.losses import Loss, SquaredError
from gbgnn.tasks.base import Link, Task


@dataclass(kw_only=True, eq=False, repr=False)
class Regression(Task):
    """Every node has a number, or several; targets are the numbers in units that suit the loss.

    Scores then start at the best constant, the mean or the median for example, and settings mean the same
    whatever the unit of y.

    Parameters
    ----------
    loss
        What is minimised, a :class:`~gbgnn.losses.Loss` of numbers; None is the squared error, and leaves the
        boosting rule another one.
    centre, scale
        What is subtracted from every column, and what it is divided by; None asks the loss: for the squared
        error they are the mean and the standard deviation of y.
    is_flat
        Whether predictions are a vector rather than a matrix; None is as y was.
    levels
        Of the quantiles that are fitted, those of the loss; None without.

    Examples
    --------
    >>> task = Regression().fit([10.0, 30.0])
    >>> task.encode([30.0, 40.0]).tolist(), task.decode(np.array([[0.5]])).tolist()
    ([[1.0], [2.0]], [25.0])
    """

    loss: Loss | None = None
    centre: NDArray[np.float64] | None = None
    scale: NDArray[np.float64] | None = None
    is_flat: bool | None = None
    levels: NDArray[np.float64] | None = None

    kind_of_y = "numeric y"

    @property
    def default_metric(self) -> str:  # type: ignore[override]
        """What suits the loss: R2 for the squared error."""
        return self.default_loss.default_metric

    def fit(self, y: ArrayLike, name: str = "y", weights: NDArray[np.float64] | None = None) -> Self:
        """Return the task with the centre and the scale of y."""
        numbers, is_flat = as_numbers(y, name)
        if not len(numbers):
            raise GraphError("nodes is empty; training needs labelled nodes.")
        self.check_loss(self.default_loss, "numbers")
        self.default_loss.check()
        differ = weights if weights is not None and np.ptp(weights) > 0 else None
        centre, scale = self.default_loss.standardise(numbers, name, differ)
        levels = self.default_loss.quantile_levels
        return type(self)(
            loss=self.loss,
            centre=np.full(len(centre), centre if self.centre is None else self.centre, float),
            scale=np.full(len(scale), scale if self.scale is None else self.scale, float),
            is_flat=is_flat if self.is_flat is None else self.is_flat and numbers.shape[1] == 1,
            levels=np.array(levels) if levels else None,
        )

    def encode(self, y: ArrayLike, name: str = "y") -> NDArray[np.float64]:
        """Return y, standardised; for several quantiles each number as often as there are levels."""
        numbers, _ = as_numbers(y, name)
        centre, scale = self._known()
        n_numbers = len(centre) // self._n_levels
        if numbers.shape[1] != n_numbers:
            raise GraphError(
                f"{name} has {numbers.shape[1]} columns, but the training nodes have {n_numbers}."
            )
        return np.asarray((np.repeat(numbers, self._n_levels, axis=1) - centre) / scale)

    def decode(self, targets: NDArray[Any]) -> NDArray[np.float64]:
        """Return numbers in the unit of y; of several quantiles that nearest to the median."""
        middle = 0 if self.levels is None else int(np.abs(self.levels - 0.5).argmin())
        numbers = self._numbers(targets)[..., middle]
        return numbers[:, 0] if self.is_flat else numbers

    def decode_quantiles(self, targets: NDArray[Any], levels: ArrayLike) -> NDArray[np.float64]:
        """Return quantiles in the unit of y, shape (n, levels), or (n, columns of y, levels)."""
        if self.levels is None:
            return super().decode_quantiles(targets, levels)
        wanted = np.atleast_1d(np.asarray(levels, np.float64))
        is_near = np.isclose(wanted[:, None], self.levels, rtol=0, atol=1e-9)
        if not is_near.any(axis=1).all():
            strange = wanted[~is_near.any(axis=1)][0]
            fitted = ", ".join(f"{level:g}" for level in self.levels)
            raise ParameterError(
                f"the quantile of level {strange:g} was not fitted (fitted: {fitted}); fit with "
                f'loss="quantile" and quantile=[..., {strange:g}, ...].'
            )
        numbers = self._numbers(targets)[..., is_near.argmax(axis=1)]
        return numbers[:, 0] if self.is_flat else numbers

    @property
    def n_columns(self) -> int:
        """How many numbers a node has, times the number of quantiles of each."""
        return len(self._known()[0])

    def n_outputs(self, loss: Loss) -> int:
        """Return a score per number, and per level; raise where y was made ready for another loss."""
        n_outputs = super().n_outputs(loss)
        is_other = self.loss is not None and repr(self.loss) != repr(loss)
        if is_other or len(loss.quantile_levels) not in (0, self._n_levels):
            raise ParameterError(
                f"y was made ready for {self.default_loss!r}, but {loss!r} is to be minimised; write "
                "GBGNNRegressor(loss=...) or Regression(loss=...)."
            )
        return n_outputs

    def decide(self, scores: torch.Tensor, link: Link) -> torch.Tensor:
        """Return what the loss's link makes of the scores."""
        return link(scores)

    def codes(self, targets: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Return how far targets are from what a score of zero stands for."""
        start = torch.zeros(self.n_columns, dtype=targets.dtype, device=targets.device)
        return (targets - self.default_loss.link(start)).to(dtype)

    @property
    def default_loss(self) -> Loss:
        """The loss that was given, or the squared error."""
        return SquaredError() if self.loss is None else self.loss

    def record(self) -> dict[str, Any]:
        """Return what was learned of y; the loss stands by itself in the model file."""
        return {name: value for name, value in super().record().items() if name != "loss"}

    def _numbers(self, targets: NDArray[Any]) -> NDArray[np.float64]:
        """Return numbers in the unit of y, shape (n, columns of y, levels), quantiles in their order."""
        centre, scale = self._known()
        numbers = np.asarray(targets, np.float64) * scale + centre
        return np.sort(numbers.reshape(len(numbers), -1, self._n_levels), axis=-1)

    @property
    def _n_levels(self) -> int:
        return 1 if self.levels is None else len(self.levels)

    def _known(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        assert self.centre is not None, "fit first"
        assert self.scale is not None, "fit first"
        return self.centre, self.scale
