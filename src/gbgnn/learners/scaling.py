"""Bringing a task to one size, so that steps of one length suit whatever the unit of the features."""

from __future__ import annotations

from collections.abc import Callable

import torch


def norm(values: torch.Tensor) -> float:
    """Return the root of the sum of squares; squares of tiny numbers do not vanish.

    Examples
    --------
    >>> norm(torch.tensor([3e-200, 4e-200], dtype=torch.float64))
    5e-200
    """
    largest = values.abs().max().double()
    return float(largest * (values.double() / largest).norm()) if largest > 0 else 0.0


def largest_eigenvalue(
    product: Callable[[torch.Tensor], torch.Tensor], start: torch.Tensor, n_steps: int
) -> float:
    """Return the largest eigenvalue of a positive semi-definite operator, by power iteration.

    It comes from below, and slowly where the next eigenvalues are near. Gradient descent forgives that: it
    diverges only with steps of more than twice the inverse.

    Parameters
    ----------
    product
        The operator: takes an array like ``start`` and returns one.
    start
        Random numbers, so that no eigenvector is missed.
    n_steps
        How often the operator is applied.

    Examples
    --------
    >>> S = torch.tensor([[2.0, 1.0], [1.0, 2.0]])
    >>> round(largest_eigenvalue(S.matmul, torch.tensor([1.0, 0.0]), n_steps=20), 4)
    3.0
    """
    vector, size = start, start.norm()
    for _ in range(n_steps):
        if not size > 0:  # the operator is zero
            break
        vector = product(vector / size)
        size = vector.norm()
    return float(size)
