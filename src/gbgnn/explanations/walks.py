"""What nodes hear along walks of every length: rows of P^k X, X the features less their means."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch

from gbgnn.propagation import Propagator, Representation, powers

_COLUMNS_AT_ONCE = 256


class Heard(NamedTuple):
    """What some nodes hear of the features, by the length of walks.

    ``rows``, shape (lengths, nodes, columns), are of the features less their means, and ``sizes``, (lengths,
    nodes), what comes of a column of ones. ``average`` are the means, less the shift that was asked for.
    """

    rows: torch.Tensor
    sizes: torch.Tensor
    average: torch.Tensor

    def mixed(self, walks: torch.Tensor) -> torch.Tensor:
        """Return how the nodes' rows differ from those in a graph of average nodes, (nodes, columns)."""
        return torch.einsum("k,knc->nc", walks, self.rows[: len(walks)])

    def start(self, walks: torch.Tensor) -> torch.Tensor:
        """Return the nodes' rows in a graph of average nodes."""
        return (walks @ self.sizes[: len(walks)])[:, None] * self.average


def in_double(P: Propagator) -> Propagator:
    """Return what multiplies by P in double precision."""
    return P if P.dtype == torch.float64 else Propagator(P.operator, P.device, torch.float64)


def find_means(X: Representation) -> torch.Tensor:
    """Return the mean of every column, in double precision."""
    total = torch.stack([block.double().sum(dim=0) for block in X.blocks()]).sum(dim=0)
    return total / max(1, X.shape[0])


def listen(
    P: Propagator, X: Representation, nodes: torch.Tensor, n_lengths: int, shift: torch.Tensor | None = None
) -> Heard:
    """Return what nodes hear along walks of 0 to ``n_lengths - 1`` steps, a few columns at a time.

    Examples
    --------
    >>> from gbgnn.propagation import DenseRows
    >>> P = Propagator([[0.0, 1.0], [1.0, 0.0]])
    >>> heard = listen(P, DenseRows(torch.tensor([[1.0], [4.0]])), torch.tensor([0]), 2)
    >>> heard.rows.ravel().tolist(), heard.average.tolist()
    ([-1.5, 1.5], [2.5])
    """
    P, dense, means = in_double(P), X.dense(), find_means(X)
    ones = torch.ones(P.n_nodes, 1, dtype=torch.float64, device=P.device)
    sizes = torch.stack([Z[nodes, 0] for Z in powers(P, ones, range(n_lengths))])
    rows = torch.empty(n_lengths, len(nodes), X.shape[1], dtype=torch.float64, device=P.device)
    for first in range(0, X.shape[1], _COLUMNS_AT_ONCE):
        some = slice(first, first + _COLUMNS_AT_ONCE)
        block = dense[:, some].double() - means[some]
        for k, Z in enumerate(powers(P, block, range(n_lengths))):
            rows[k, :, some] = Z[nodes]
    return Heard(rows, sizes, means if shift is None else means - shift.double())


def weigh_senders(P: Propagator, node: int, walks: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return how much of what a node hears comes from each, for several polynomials, (polynomials, N)."""
    n_lengths = max(map(len, walks))
    start = torch.zeros(P.n_nodes, 1, dtype=torch.float64, device=P.device)
    start[node] = 1.0
    total = torch.zeros(len(walks), P.n_nodes, dtype=torch.float64, device=P.device)
    for k, Z in enumerate(powers(in_double(P).transpose(), start, range(n_lengths))):
        for own, each in zip(total, walks, strict=True):
            if k < len(each):
                own.add_(Z[:, 0], alpha=float(each[k]))
    return total


def in_blocks(nodes: torch.Tensor, n_lengths: int, n_columns: int) -> Iterator[torch.Tensor]:
    """Yield the nodes, as many at a time as what they hear fits into memory."""
    yield from nodes.split(max(1, _BLOCK_BYTES // max(1, 8 * n_lengths * n_columns)))


_BLOCK_BYTES = 2**28
