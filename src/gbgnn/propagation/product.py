"""Products with P that a gradient passes through."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch

from gbgnn.propagation.propagator import Propagator


class Mixing:
    """Multiplies by P, and gradients by its transpose, which is built when first asked for.

    Examples
    --------
    >>> P = Propagator(torch.tensor([[0.0, 2.0], [0.0, 0.0]]).numpy())
    >>> X = torch.ones(2, 1, requires_grad=True)
    >>> Mixing(P)(X).sum().backward()
    >>> X.grad.tolist()
    [[0.0], [2.0]]
    """

    def __init__(self, P: Propagator) -> None:
        self.P = P

    @cached_property
    def transposed(self) -> Propagator:
        """What multiplies by the transpose of P."""
        return self.P.transpose()

    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        """Return P @ X."""
        product: torch.Tensor = _Product.apply(X, self)  # type: ignore[no-untyped-call]
        return product


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, X: torch.Tensor, mixing: Mixing) -> torch.Tensor:
        context.mixing = mixing
        return mixing.P(X)

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        return context.mixing.transposed(gradients[0].contiguous()), None
