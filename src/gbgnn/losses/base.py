"""Loss: of the scores on labelled rows, its values, gradient, curvature and link."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

Numbers = NDArray[np.float64]


class Loss(BaseEstimator, ABC):
    """A convex loss of score rows, shape (n, K), beside targets of one of three kinds.

    Everything is computed in the precision of the scores, without asking the device for a number, and without
    a difference of nearly equal numbers: at a score of 40 there still is a gradient. A loss of one's own is a
    few lines::

        @dataclass(kw_only=True, eq=False, repr=False)
        class Focal(Loss):
            takes = "classes"
            smoothness = None  # no bound of the curvature: rounds come without a promise

            def values(self, scores, targets): ...
            def gradient(self, scores, targets): ...
            def curvature(self, scores, targets): ...
            def link(self, scores):
                return scores.softmax(dim=1)
    """

    takes: ClassVar[str]
    """The kind of targets: ``"classes"`` (indices, shape (n,), and a score per class), ``"binary"`` (0 or 1,
    shape (n, K) or, with one score, (n,)) or ``"numbers"`` (shape (n, K))."""

    smoothness: float | None
    """The paper's A: the largest eigenvalue the Hessian of a row can have, or None where there is no bound.
    Certificates and steps are made of it; without it steps are found by a line search."""

    default_metric: ClassVar[str] = "r2"
    """By what predictions of numbers are judged that minimise this loss; a name of a metric."""

    takes_members: ClassVar[bool] = False
    """Whether the methods take scores with an axis of members in front, too; else :meth:`evaluate` puts the
    rows of all members in one table."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Do not take for granted that another formula keeps to the axes that its parent's does."""
        super().__init_subclass__(**options)
        own = set(vars(cls))
        if own & {"values", "gradient", "curvature", "link"} and "takes_members" not in own:
            cls.takes_members = False
        if "gradient" in own and not own & {"encode", "error"}:
            cls.encode, cls.error = Loss.encode, Loss.error  # type: ignore[method-assign]

    @property
    def quantile_levels(self) -> tuple[float, ...]:
        """Levels of quantiles, one score for each beside every number of y; empty where there are none."""
        return ()

    def check(self) -> None:
        """Raise when a setting is out of range."""

    def standardise(
        self, y: Numbers, name: str = "y", weights: Numbers | None = None
    ) -> tuple[Numbers, Numbers]:
        """Return what is subtracted from the columns of y, and what they are divided by, to make targets.

        Scores begin at zero, which must stand for the best constant, by the nodes' ``weights`` where they
        differ; the unit of y must not matter. There is a number for every score. Raises, calling y ``name``,
        where the loss is not for such numbers.
        """
        mean = np.average(y, axis=0, weights=weights)
        squares = y.var(axis=0) if weights is None else np.average((y - mean) ** 2, axis=0, weights=weights)
        return mean, usable_scale(np.sqrt(squares), y)

    @abstractmethod
    def values(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the loss of each row, shape (n,); autograd passes through."""

    @abstractmethod
    def gradient(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return each row's gradient in its scores, shape (n, K)."""

    @abstractmethod
    def curvature(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the diagonal of each row's Hessian, shape (n, K)."""

    @abstractmethod
    def link(self, scores: torch.Tensor) -> torch.Tensor:
        """Return what scores say of the targets: probabilities, or numbers."""

    def encode(self, targets: torch.Tensor, n_outputs: int, dtype: torch.dtype) -> torch.Tensor:
        """Return targets as :meth:`error` wants them; called once before a learner is trained."""
        return targets.to(dtype) if targets.is_floating_point() else targets

    def error(self, outputs: torch.Tensor, encoded: torch.Tensor) -> torch.Tensor:
        """Return each row's gradient for a learner in training, who can do without the last digits."""
        return self.gradient(outputs, encoded)

    def evaluate(self, method: str, scores: torch.Tensor, *targets: torch.Tensor) -> torch.Tensor:
        """Return what a method says of the scores of one model, or of several, shape (members, n, K).

        Targets then are those of every model, or the same for all.
        """
        function: Callable[..., torch.Tensor] = getattr(self, method)
        if scores.ndim == 2 or self.takes_members:
            return function(scores, *targets)
        rows, whole = scores.shape[:-1], scores.shape
        flat = [
            each.expand(whole).flatten(0, -2)
            if each.ndim > 1 and (each.is_floating_point() or self.takes != "classes")
            else each.expand(rows).flatten()
            for each in targets
        ]
        return function(scores.flatten(0, -2), *flat).view(rows if method == "values" else whole)

    def mean(
        self, scores: torch.Tensor, targets: torch.Tensor, weights: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return the average loss in double precision, by ``weights`` (which sum to one) where given."""
        values = self.evaluate("values", scores.double(), targets)
        return values.mean(dim=-1) if weights is None else (values * weights).sum(dim=-1)


def usable_scale(scale: Numbers, y: Numbers) -> Numbers:
    """Return scales of columns, 1 where a column never changes: its deviation may be a rounding error."""
    return np.where((np.ptp(y, axis=0) > 0) & (scale > 0), scale, 1.0)


def find_quantiles(y: Numbers, levels: Sequence[float], weights: Numbers | None = None) -> Numbers:
    """Return quantiles of the columns of y, shape (levels, columns).

    With weights they are the least numbers up to which the nodes have that share of the weight.

    Examples
    --------
    >>> y = np.array([[1.0], [2.0], [9.0]])
    >>> find_quantiles(y, [0.5]).tolist(), find_quantiles(y, [0.5], np.array([0.0, 1.0, 3.0])).tolist()
    ([[2.0]], [[9.0]])
    """
    if weights is None:
        return np.asarray(np.quantile(y, levels, axis=0))
    order = np.argsort(y, axis=0)
    shares = np.cumsum(weights[order], axis=0) / weights.sum()
    # A share that rounding put below its level is reached all the same.
    reached = (shares[None] < np.reshape(levels, (-1, 1, 1)) - 1e-12).sum(axis=1)
    return np.take_along_axis(np.take_along_axis(y, order, axis=0), reached, axis=0)
