"""What nodes hear along walks of every length: rows of P^k X, X the features less their means."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch

from gbgnn.propagation import Propagator, Representation, powers

_COLUMNS_AT_ONCE = 256

_ENTRY_COST = 8
"""How many numbers are multiplied by others in order while one is fetched along an edge."""


class Heard(NamedTuple):
    """What some nodes hear of the features, by the length of walks.

    ``rows``, shape (lengths, nodes, columns), are of the features less their ``means``, and ``sizes``,
    (lengths, nodes), what comes of a column of ones. ``average`` are the means, less the shift that was asked
    for.
    """

    rows: torch.Tensor
    sizes: torch.Tensor
    means: torch.Tensor
    average: torch.Tensor

    def of(self, i: int) -> Heard:
        """Return what the i-th of the nodes hears."""
        return Heard(self.rows[:, i : i + 1], self.sizes[:, i : i + 1], self.means, self.average)

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
    # Of few nodes it is less to find whom they hear, and to add up the rows of these.
    weights = None
    if len(nodes) * P.n_nodes <= _ENTRY_COST * P.operator.edges.n_entries:
        weights = [Z.t().clone() for Z in walk_back(P, nodes, n_lengths)]
    for first in range(0, X.shape[1], _COLUMNS_AT_ONCE):
        some = slice(first, first + _COLUMNS_AT_ONCE)
        block = dense[:, some].double() - means[some]
        found = (Z[nodes] for Z in powers(P, block, range(n_lengths)))
        for k, own in enumerate(found if weights is None else (each @ block for each in weights)):
            rows[k, :, some] = own
    return Heard(rows, sizes, means, means if shift is None else means - shift.double())


def weigh_senders(P: Propagator, node: int, walks: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return how much of what a node hears comes from each, for several polynomials, (polynomials, N)."""
    total = torch.zeros(len(walks), P.n_nodes, dtype=torch.float64, device=P.device)
    at, n_lengths = torch.tensor([node], device=P.device), max(map(len, walks))
    for k, Z in enumerate(walk_back(in_double(P), at, n_lengths)):
        for own, each in zip(total, walks, strict=True):
            if k < len(each):
                own.add_(Z[:, 0], alpha=float(each[k]))
    return total


def walk_back(P: Propagator, nodes: torch.Tensor, n_lengths: int) -> Iterator[torch.Tensor]:
    """Yield how much of what nodes hear along walks of each length comes from each node, (N, nodes)."""
    start = torch.zeros(P.n_nodes, len(nodes), dtype=P.dtype, device=P.device)
    start[nodes, torch.arange(len(nodes), device=P.device)] = 1.0
    return powers(P.transpose(), start, range(n_lengths))


def in_blocks(nodes: torch.Tensor, n_lengths: int, n_columns: int) -> Iterator[torch.Tensor]:
    """Yield the nodes, as many at a time as what they hear fits into memory."""
    yield from nodes.split(max(1, _BLOCK_BYTES // max(1, 8 * n_lengths * n_columns)))


_BLOCK_BYTES = 2**28
