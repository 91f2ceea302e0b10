r"""Integrated gradients: what each column of a row adds to an output, on the straight way from another row.

With f the outputs, r the row and b the row where the way begins, column c adds

.. math:: (r_c - b_c) \int_0^1 \partial_c f(b + \alpha (r - b)) \, d\alpha,

and all columns together :math:`f(r) - f(b)`. What is computed here are the integrals, which multiply any part
of r - b: parts that sum to it, such as what hops of several lengths brought, have values that sum as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import Any

import numpy as np
import torch

Layer = tuple[torch.Tensor, torch.Tensor]

_POINTS = 8
"""Of Gauss and Legendre's rule, on each part of the way."""

_MOST_PARTS = 64
_TOLERANCE = 1e-5
"""Of what changes on the way: where columns together miss no more, the way is not cut into more parts."""


def integrate_layers(layers: Sequence[Layer], start: torch.Tensor, end: torch.Tensor) -> torch.Tensor:
    r"""Return the integrals of a linear map, or of two with a ReLU between, shape (rows, columns, outputs).

    On a straight way the input of a ReLU goes straight too, so that the share of the way on which a unit is
    on is :math:`(\mathrm{relu}(z_1) - \mathrm{relu}(z_0)) / (z_1 - z_0)`.

    Examples
    --------
    >>> one, zero = torch.eye(1), torch.zeros(1)
    >>> float(integrate_layers([(one, zero), (one, zero)], torch.tensor([[-1.0]]), torch.tensor([[3.0]])))
    0.75
    """
    (weight, bias), *rest = layers
    if not rest:
        return weight.t().expand(len(end), -1, -1)
    ((last, _),) = rest
    before, after = start @ weight.t() + bias, end @ weight.t() + bias
    moved = after - before
    share = torch.where(moved == 0, (before > 0).to(moved), (after.relu() - before.relu()) / moved)
    return torch.einsum("ou,nu,uc->nco", last, share, weight)


def integrate(
    function: Callable[[torch.Tensor], torch.Tensor], start: torch.Tensor, end: torch.Tensor
) -> torch.Tensor:
    """Return the integrals of any differentiable function of rows, shape (rows, columns, outputs).

    The way is cut into twice as many parts until the columns of a row together say what the function does, or
    the cuts are many.
    """
    with torch.no_grad():
        change = function(end) - function(start)
    moved, n_parts = end - start, 1
    found = start.new_zeros(*start.shape, change.shape[1])
    left = torch.arange(len(start), device=start.device)
    while len(left) and n_parts <= _MOST_PARTS:
        found[left] = _sum_gradients(function, start[left], moved[left], n_parts, change.shape[1])
        missed = torch.einsum("nc,nco->no", moved[left], found[left]) - change[left]
        is_far = missed.abs().amax(dim=1) > _TOLERANCE * change[left].abs().amax(dim=1).clamp_min(1e-12)
        left, n_parts = left[is_far], 2 * n_parts
    return found


def _sum_gradients(
    function: Callable[[torch.Tensor], torch.Tensor],
    start: torch.Tensor,
    moved: torch.Tensor,
    n_parts: int,
    n_outputs: int,
) -> torch.Tensor:
    total = start.new_zeros(*start.shape, n_outputs)
    for place, share in cut_way(n_parts):
        row = (start + place * moved).requires_grad_()
        outputs = function(row)
        for i in range(n_outputs):  # rows do not hear of each other, so that one gradient is that of all
            keep = i < n_outputs - 1
            total[..., i] += share * torch.autograd.grad(outputs[:, i].sum(), row, retain_graph=keep)[0]
    return total


def cut_way(n_parts: int) -> list[tuple[float, float]]:
    """Return places on the way from 0 to 1, and how much each counts.

    Examples
    --------
    >>> places = cut_way(2)
    >>> round(sum(share * place**7 for place, share in places), 12)
    0.125
    """
    at, weights = np.polynomial.legendre.leggauss(_POINTS)
    return [
        ((part + (each + 1) / 2) / n_parts, weight / 2 / n_parts)
        for part in range(n_parts)
        for each, weight in zip(at.tolist(), weights.tolist(), strict=True)
    ]


def cut_where_it_bends(outputs: Callable[[float], torch.Tensor], n_parts: int) -> list[tuple[float, float]]:
    """Return the middles of parts of the way, and their lengths; parts are short where outputs bend.

    Again and again the part is halved in whose middle the outputs are farthest from the mean of its ends. It
    takes two values of the outputs for a part, and no gradient.

    Examples
    --------
    >>> parts = cut_where_it_bends(lambda place: torch.tensor([max(0.0, place - 0.7)]), 6)
    >>> sorted(round(length, 4) for _, length in parts)
    [0.0312, 0.0312, 0.0625, 0.125, 0.25, 0.5]
    """
    first, last = outputs(0.0), outputs(1.0)
    least = _LEAST_BEND * float((last - first).abs().max())
    numbers = count()
    parts: list[tuple[Any, ...]] = []

    def add(low: float, high: float, before: torch.Tensor, after: torch.Tensor) -> None:
        middle = outputs((low + high) / 2)
        bend = float((middle - (before + after) / 2).abs().max()) + least * (high - low)
        heappush(parts, (-bend, next(numbers), low, high, before, middle, after))

    add(0.0, 1.0, first, last)
    while len(parts) < n_parts:
        _, _, low, high, before, middle, after = heappop(parts)
        add(low, (low + high) / 2, before, middle)
        add((low + high) / 2, high, middle, after)
    return [((low + high) / 2, high - low) for _, _, low, high, *_ in parts]


_LEAST_BEND = 0.02
"""Of the change on the way; a part that seems straight may be bent between the places that were looked at."""


def spread_remainder(parts: torch.Tensor, total: torch.Tensor) -> tuple[torch.Tensor, float]:
    """Return parts, (rows, parts, outputs), that sum to a total, and the most that they missed.

    What rounding, or an integral, leaves over is shared out by size.

    Examples
    --------
    >>> parts, remainder = spread_remainder(torch.tensor([[[1.0], [-3.0]]]), torch.tensor([[-1.0]]))
    >>> parts.ravel().tolist(), remainder
    ([1.25, -2.25], 1.0)
    """
    left = total - parts.sum(dim=1)
    sizes = parts.abs()
    sums = sizes.sum(dim=1, keepdim=True)
    shares = torch.where(sums > 0, sizes / torch.where(sums > 0, sums, 1.0), 1 / max(1, parts.shape[1]))
    return parts + shares * left[:, None], float(left.abs().max()) if left.numel() else 0.0
