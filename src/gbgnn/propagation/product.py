"""Products with P that a gradient passes through."""

from __future__ import annotations

from collections.abc import Sequence
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

    def polynomial(self, coefficients: Sequence[float], X: torch.Tensor) -> torch.Tensor:
        """Return the sum of c_k P^k X; nothing is kept for the gradient, which is a sum of that kind.

        Examples
        --------
        >>> P = Propagator(torch.tensor([[0.0, 2.0], [0.0, 0.0]]).numpy())
        >>> Mixing(P).polynomial([1.0, 10.0], torch.tensor([[1.0], [3.0]])).tolist()
        [[61.0], [3.0]]
        """
        total: torch.Tensor = _Polynomial.apply(X, self, tuple(coefficients))  # type: ignore[no-untyped-call]
        return total


class _Polynomial(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any, X: torch.Tensor, mixing: Mixing, coefficients: tuple[float, ...]
    ) -> torch.Tensor:
        context.mixing, context.coefficients = mixing, coefficients
        return _horner(mixing.P, coefficients, X.detach())

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        P, gradient = context.mixing.transposed, gradients[0].contiguous()
        return _horner(P, context.coefficients, gradient), None, None


def _horner(P: Propagator, coefficients: tuple[float, ...], X: torch.Tensor) -> torch.Tensor:
    *lower, highest = coefficients
    total, spare = highest * X, torch.empty_like(X) if lower else X
    for share in reversed(lower):
        total, spare = P(total, out=spare).add_(X, alpha=share), total
    return total


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, X: torch.Tensor, mixing: Mixing) -> torch.Tensor:
        context.mixing = mixing
        return mixing.P(X.detach())  # other threads would follow its gradient

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        return context.mixing.transposed(gradients[0].contiguous()), None
