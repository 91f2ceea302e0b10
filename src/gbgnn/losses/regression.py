"""Losses of numbers: squared, absolute, Huber, quantile, Poisson."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from gbgnn._checks import check_number
from gbgnn.errors import GraphError, ParameterError
from gbgnn.losses.base import Loss, Numbers, find_quantiles, usable_scale


@dataclass(kw_only=True, eq=False, repr=False)
class SquaredError(Loss):
    r""":math:`\|s - y\|^2`, the sum over the columns of a row.

    Examples
    --------
    >>> SquaredError().gradient(torch.tensor([[3.0]]), torch.tensor([[1.0]])).tolist()
    [[4.0]]
    """

    takes = "numbers"
    takes_members = True
    smoothness = 2.0

    def values(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the squared error of each row."""
        return (scores - targets.to(scores.dtype)).square().sum(dim=-1)

    def gradient(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return 2 (s - y)."""
        return (scores - targets.to(scores.dtype)).mul_(2.0)

    def curvature(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return 2, whatever the scores."""
        return torch.full_like(scores, 2.0)

    def link(self, scores: torch.Tensor) -> torch.Tensor:
        """Return the scores themselves."""
        return scores


@dataclass(kw_only=True, eq=False, repr=False)
class AbsoluteError(Loss):
    r""":math:`\|s - y\|_1`, whose best constant is the median: outliers weigh no more than others.

    Examples
    --------
    >>> AbsoluteError().gradient(torch.tensor([[3.0], [-9.0]]), torch.tensor([[1.0], [1.0]])).tolist()
    [[1.0], [-1.0]]
    """

    takes = "numbers"
    takes_members = True
    smoothness = None  # it has a corner
    default_metric = "neg_mean_absolute_error"

    def standardise(
        self, y: Numbers, name: str = "y", weights: Numbers | None = None
    ) -> tuple[Numbers, Numbers]:
        """Return the median, and the mean distance from it."""
        return find_quantiles(y, [0.5], weights)[0], _mean_distance(y, weights)

    def values(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the absolute error of each row."""
        return (scores - targets.to(scores.dtype)).abs().sum(dim=-1)

    def gradient(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the sign of s - y, 0 where they are equal."""
        return (scores - targets.to(scores.dtype)).sign()

    def curvature(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return 0, which it is everywhere but in the corner."""
        return torch.zeros_like(scores)

    def link(self, scores: torch.Tensor) -> torch.Tensor:
        """Return the scores themselves."""
        return scores


@dataclass(kw_only=True, eq=False, repr=False)
class Huber(Loss):
    r"""Half the squared error up to an error of ``delta``, beyond it :math:`\delta (|s - y| - \delta / 2)`.

    Errors are counted in robust standard deviations of y: 1.4826 times the median distance from the median.

    Parameters
    ----------
    delta
        From which error on outliers weigh no more, > 0. With 1.35 it is 95 % as efficient as the squared
        error where errors are normal.

    Examples
    --------
    >>> Huber(delta=1.0).gradient(torch.tensor([[3.0], [1.5]]), torch.tensor([[1.0], [1.0]])).tolist()
    [[1.0], [0.5]]
    """

    delta: float = 1.35

    takes = "numbers"
    takes_members = True
    smoothness = 1.0
    default_metric = "neg_mean_absolute_error"

    def check(self) -> None:
        """Raise unless delta is positive."""
        check_number("Huber", "delta", self.delta, 0, open_low=True)

    def standardise(
        self, y: Numbers, name: str = "y", weights: Numbers | None = None
    ) -> tuple[Numbers, Numbers]:
        """Return the median, and a robust standard deviation."""
        (centre,) = find_quantiles(y, [0.5], weights)
        spread = 1.4826 * find_quantiles(np.abs(y - centre), [0.5], weights)[0]
        return centre, np.where(
            spread > 0, spread, _mean_distance(y, weights)
        )  # 0 if most of y is one number

    def values(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the loss of each row, summed over its columns."""
        size = (scores - targets.to(scores.dtype)).abs()
        near = size.clamp_max(self.delta)
        return (near * (size - near / 2)).sum(dim=-1)

    def gradient(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return s - y, cut at delta either way."""
        return (scores - targets.to(scores.dtype)).clamp_(-self.delta, self.delta)

    def curvature(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return 1 up to delta, 0 beyond."""
        return ((scores - targets.to(scores.dtype)).abs() <= self.delta).to(scores.dtype)

    def link(self, scores: torch.Tensor) -> torch.Tensor:
        """Return the scores themselves."""
        return scores


@dataclass(kw_only=True, eq=False, repr=False)
class Quantile(Loss):
    r"""The pinball loss :math:`\max(q (y - s), (1 - q) (s - y))`, least for the quantile of level q.

    Every number of y has a score for each level, side by side.

    Parameters
    ----------
    levels
        The levels q in (0, 1), one or several, ascending.

    Examples
    --------
    >>> loss = Quantile(levels=[0.1, 0.9])
    >>> loss.gradient(torch.zeros(1, 2), torch.ones(1, 2)).tolist()
    [[-0.10000000149011612, -0.8999999761581421]]
    """

    levels: float | Sequence[float] = 0.5

    takes = "numbers"
    takes_members = True
    smoothness = None  # it has a corner
    default_metric = "neg_mean_pinball_loss"

    @property
    def quantile_levels(self) -> tuple[float, ...]:
        """The levels."""
        return tuple(float(level) for level in np.atleast_1d(self.levels))

    def check(self) -> None:
        """Raise unless the levels are in (0, 1) and ascending."""
        try:
            levels = self.quantile_levels
        except (TypeError, ValueError):
            raise ParameterError(f"Quantile.levels must be numbers in (0, 1); got {self.levels!r}.") from None
        for level in levels:
            check_number("Quantile", "levels", level, 0, 1, open_low=True, open_high=True)
        if not levels or any(one >= other for one, other in itertools.pairwise(levels)):
            raise ParameterError(
                f"Quantile.levels must be ascending, at least one and none twice; got {self.levels!r}."
            )

    def standardise(
        self, y: Numbers, name: str = "y", weights: Numbers | None = None
    ) -> tuple[Numbers, Numbers]:
        """Return the quantiles, and the mean distance from the median."""
        centre = find_quantiles(y, self.quantile_levels, weights)
        return centre.T.ravel(), np.repeat(_mean_distance(y, weights), len(self.quantile_levels))

    def values(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the pinball loss of each row, summed over its columns."""
        below, levels = targets.to(scores.dtype) - scores, self._columns(scores)
        return torch.maximum(levels * below, (levels - 1) * below).sum(dim=-1)

    def gradient(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return -q below y, 1 - q above it, 0 where they are equal."""
        above, levels = scores - targets.to(scores.dtype), self._columns(scores)
        return torch.where(above > 0, 1 - levels, torch.where(above < 0, -levels, 0.0))

    def curvature(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return 0, which it is everywhere but in the corner."""
        return torch.zeros_like(scores)

    def link(self, scores: torch.Tensor) -> torch.Tensor:
        """Return the scores themselves."""
        return scores

    def _columns(self, scores: torch.Tensor) -> torch.Tensor:
        """Return the level of every score column: those of one number stand side by side."""
        levels = torch.tensor(self.quantile_levels, dtype=scores.dtype, device=scores.device)
        return levels.repeat(scores.shape[-1] // len(levels))


@dataclass(kw_only=True, eq=False, repr=False)
class Poisson(Loss):
    r"""Half the Poisson deviance :math:`e^s - y s + y \log y - y`, for counts and other numbers from 0 on.

    A score is the logarithm of what is expected, in units of the mean of y. From :math:`e^{60}` means on the
    loss goes on as a line, so that it stays finite in any precision.

    Examples
    --------
    >>> Poisson().gradient(torch.tensor([[0.0]]), torch.tensor([[3.0]])).tolist()
    [[-2.0]]
    """

    takes = "numbers"
    takes_members = True
    smoothness = None  # it grows like an exponential
    default_metric = "neg_mean_poisson_deviance"

    def standardise(
        self, y: Numbers, name: str = "y", weights: Numbers | None = None
    ) -> tuple[Numbers, Numbers]:
        """Return 0 and the mean, which a score of 0 then stands for."""
        if (y < 0).any():
            raise GraphError(f"{name} must not be negative under the Poisson loss; got {y.min():g}.")
        mean = np.average(y, axis=0, weights=weights)
        if not (mean > 0).all():
            raise GraphError(
                f"{name} is zero for every training node; the Poisson loss needs a positive mean."
            )
        return np.zeros_like(mean), mean

    def values(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return half the deviance of each row, summed over its columns."""
        targets, near = targets.to(scores.dtype), scores.clamp_max(_LARGEST)
        # Of y > 0 it is y (e^d - 1 - d), d = s - log y, which is exact where s is near log y.
        ratio = near - targets.clamp_min(torch.finfo(scores.dtype).tiny).log()
        inside = torch.where(targets > 0, targets * (ratio.expm1() - ratio), near.exp())
        return (inside + (near.exp() - targets) * (scores - near)).sum(dim=-1)

    def gradient(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return e^s - y."""
        return scores.clamp_max(_LARGEST).exp() - targets.to(scores.dtype)

    def curvature(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return e^s."""
        return torch.where(scores < _LARGEST, scores.clamp_max(_LARGEST).exp(), 0.0)

    def link(self, scores: torch.Tensor) -> torch.Tensor:
        """Return e^s, neither 0 nor infinite."""
        return scores.clamp(-_LARGEST, _LARGEST).exp()


_LARGEST = 60.0
"""The largest score of which the exponential is taken: single precision ends at 88, and sums need room."""


def _mean_distance(y: Numbers, weights: Numbers | None) -> Numbers:
    (median,) = find_quantiles(y, [0.5], weights)
    return usable_scale(np.average(np.abs(y - median), axis=0, weights=weights), y)
