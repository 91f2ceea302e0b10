"""Projection of columns on the L1 ball: the hard norm constraint of the bounds."""

from __future__ import annotations

import torch


def project_columns(W: torch.Tensor, radius: float) -> None:
    r"""Move every column, in place, to the nearest one whose absolute values sum to ``radius`` at most.

    The nearest point of a column v outside the ball has entries :math:`\mathrm{sign}(v_i) \max(|v_i| -
    \theta, 0)` for the one threshold at which they sum to the radius. Columns inside keep every bit. The sum
    is at most ``radius`` in floating point too, in whatever order it is added up in double precision.

    There must be a row, and ``radius`` must not be among the very smallest numbers of the type.
    """
    # A few columns at a time, so that the passes over them stay in the cache.
    for block in W.split(128, dim=1):
        outside = block.abs().sum(dim=0, dtype=torch.float64) > radius
        if bool(outside.any()):
            block[:, outside] = _nearest_on_sphere(block[:, outside], radius)


def _nearest_on_sphere(V: torch.Tensor, radius: float) -> torch.Tensor:
    """Return the projections of columns that are outside the ball."""
    sizes = V.abs().double()
    # Stop short of the sphere by what rounding to the type, and adding up in any order, can put on top.
    radius = radius * (1 - torch.finfo(V.dtype).eps - 4 * len(V) * torch.finfo(torch.float64).eps)
    # Everything is measured down from the column's largest entry, level = max - threshold: the
    # differences that remain are exact where it matters, also for entries of 1e30 and a radius of 1. An
    # entry as far down as the radius cannot survive, whatever the distance.
    gaps = (sizes.amax(dim=0) - sizes).clamp_max_(radius)
    # Entries that do not survive at the level of all those left only raise it: drop them until none is
    # left to drop (Michelot, 1986), which is Newton's method for the level. Half a dozen passes over one
    # buffer do, several times faster than sorting 1433 rows.
    kept, level = sizes, (radius + gaps.sum(dim=0)) / len(gaps)
    n_alive = torch.full_like(level, len(gaps) + 1)
    while True:
        torch.sub(level, gaps, out=kept).clamp_min_(0)
        excess = kept.sum(dim=0) - radius
        counts = kept.sign_().sum(dim=0)
        level = level - excess / counts
        if not bool((counts < n_alive).any()):
            break
        n_alive = counts
    torch.sub(level, gaps, out=kept).clamp_min_(0)
    kept *= (radius / kept.sum(dim=0)).clamp_max_(1)
    return kept.mul_(V.sign()).to(V.dtype)
