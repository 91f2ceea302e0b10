"""The step along a direction that a convex loss falls to, where no bound of its curvature tells one."""

from __future__ import annotations

from collections.abc import Callable

import torch

DOUBLINGS, HALVINGS = 60, 40
FLAT = 1e-3


def find_step(slope: Callable[[torch.Tensor], torch.Tensor], guess: torch.Tensor) -> torch.Tensor:
    """Return the step after which a convex function has all but stopped to fall, a number for each member.

    That is where its slope is a thousandth of what it was at the start: in the minimum up to a little, and
    not at infinity where the function falls for ever. Steps are 0 where it does not fall at all.

    Parameters
    ----------
    slope
        Returns the slope after a step of each member; it does not fall with the step.
    guess
        Steps to begin with, > 0.

    Examples
    --------
    >>> find_step(lambda eta: 2 * (eta - 3), torch.tensor([0.1], dtype=torch.float64)).round(decimals=2)
    tensor([3.], dtype=torch.float64)
    """
    first = slope(torch.zeros_like(guess))
    goal = FLAT * first
    high = guess
    for _ in range(DOUBLINGS):
        is_short = slope(high) < goal
        if not bool(is_short.any()):
            break
        high = torch.where(is_short, 2 * high, high)
    low = torch.zeros_like(high)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        is_short = slope(middle) < goal
        low, high = torch.where(is_short, middle, low), torch.where(is_short, high, middle)
    return torch.where(first < 0, low, 0.0)
