"""SquaredError: the loss of numbers, and of learners that follow a gradient."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from gbgnn.losses.base import Loss


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
