"""GraphRows: the rows of all nodes in memory, with the P that mixes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import final

import torch

from gbgnn.propagation.mixable import Mixable
from gbgnn.propagation.polynomial import powers
from gbgnn.propagation.propagator import Propagator
from gbgnn.propagation.rows import BLOCK_BYTES, DenseRows, Representation, computed_in


def mix(
    P: Propagator,
    X: Representation,
    exponents: Sequence[int],
    weights: Sequence[float],
    terms: Iterable[torch.Tensor] | None = None,
) -> torch.Tensor:
    r"""Return :math:`\sum_j w_j P^{p_j} X` for increasing exponents; ``terms`` are the P^p X, where known.

    The last of them, if it is a fresh product, is scaled in place and not copied.

    Examples
    --------
    >>> mix(Propagator([[2.0]]), DenseRows(torch.ones(1, 1)), (0, 3), (1.0, 0.5)).tolist()
    [[5.0]]
    """
    terms = powers(P, X.dense(), exponents) if terms is None else terms
    result: torch.Tensor | None = None
    for exponent, weight, Z in zip(exponents, weights, terms, strict=True):
        if result is not None:
            result.add_(Z, alpha=weight)
        elif exponent == exponents[-1] > 0:  # nobody needs it after this
            result = Z if weight == 1 else Z.mul_(weight)
        else:
            result = Z * weight
    assert result is not None
    return result


@final
@dataclass(frozen=True, eq=False)
class GraphRows(Mixable):
    """The rows of all nodes, in memory, with the P that mixes them and the rows that they began as.

    They may be stored in 16 bits: what is asked for has 32, and so have the sums of products.
    """

    X: Representation
    first: Representation
    P: Propagator

    @classmethod
    def of(cls, features: Representation, P: Propagator) -> GraphRows:
        """Return features as rows that know P."""
        return cls(features, features, P)

    @property
    def _numbers(self) -> torch.Tensor:
        return self.X._numbers

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return self.X.shape

    @property
    def dtype(self) -> torch.dtype:
        """The precision of rows that are asked for; they may be stored in half of it."""
        return computed_in(self.X.dtype)

    @property
    def nbytes(self) -> int:
        """Bytes of the rows as they are now."""
        return self.X.nbytes

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the rows of these nodes."""
        return self.X.rows(ids).to(self.dtype)

    def dense(self) -> torch.Tensor:
        """Return all rows."""
        return self.X.dense().to(self.dtype)

    def blocks(self, n_bytes: int = BLOCK_BYTES, *, sparse: bool = False) -> Iterator[torch.Tensor]:
        """Yield all rows in order, block by block."""
        for block in self.X.blocks(n_bytes, sparse=sparse):
            yield block.to(self.dtype)

    def mixed(
        self, exponents: Sequence[int], weights: torch.Tensor, injection: torch.Tensor | float = 0.0
    ) -> GraphRows:
        """Return the sum of products with P, and of a share of the first rows."""
        result, share = mix(self.P, self.X, exponents, weights.tolist()), float(injection)
        return replace(self, X=DenseRows(self.first.add_to_(result, share) if share else result))

    def power_rows(self, exponents: Sequence[int], ids: torch.Tensor) -> torch.Tensor:
        """Return the rows of the products, each taken before the next is computed."""
        terms = powers(self.P, self.X.dense(), exponents)
        return torch.stack([Z[ids].to(self.dtype) for Z in terms])
