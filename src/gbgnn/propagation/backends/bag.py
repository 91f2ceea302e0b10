"""Products on the CPU over the bare pattern, by torch's sum over bags of rows."""

from __future__ import annotations

from typing import final

import torch
from torch.nn.functional import embedding_bag

from gbgnn._threads import map_threads, one_thread
from gbgnn.propagation.backends.base import Backend, cast
from gbgnn.propagation.csr import Csr
from gbgnn.propagation.operator import Operator

# Sums of so many rows by so many columns are computed at a time: they are scaled while still in the cache,
# and what is gathered from is small, too. Of 64 to 512 columns the best or close to it on the shapes of Cora,
# CiteSeer and PubMed on two idle cores; on 170,000 nodes blocks of rows save a quarter.
_COLUMNS, _ROWS = 128, 16_384
_INT32 = torch.iinfo(torch.int32).max

Piece = tuple[slice, torch.Tensor, torch.Tensor, torch.Tensor | None]
"""Rows, and their starts, columns and weights."""


@final
class Bag(Backend):
    """Sums the rows of R X over the neighbours of a node, and scales them by L; weights where there are some.

    In half precision sums are kept in float32, but what is scaled is rounded before and after.
    """

    name = "bag"

    @staticmethod
    def takes(device: torch.device, dtype: torch.dtype) -> bool:
        """Return whether torch has a fast kernel: on the CPU, and not in double precision."""
        return device.type == "cpu" and dtype in (torch.float32, torch.bfloat16, torch.float16)

    def __init__(self, operator: Operator, dtype: torch.dtype) -> None:
        self._left, self._right = cast(operator.left, dtype), cast(operator.right, dtype)
        self._self_loop, self._identity = operator.self_loop, operator.identity
        self._pieces, self._n_entries = _pieces(operator.edges, dtype), operator.edges.n_entries

    def multiply(self, X: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
        """Return P @ X, block by block; blocks of columns or, of many rows, of rows go to several threads."""
        n_nodes, n_columns = X.shape
        result = torch.empty((n_nodes, n_columns), dtype=X.dtype) if out is None else out
        if result.shape != X.shape:
            result.resize_(X.shape)
        width = max(1, -(-n_columns // max(1, -(-n_columns // _COLUMNS))))
        spans = [slice(first, first + width) for first in range(0, n_columns, width)]
        n_read = (self._n_entries + 2 * n_nodes) * n_columns
        by_rows = len(self._pieces) > len(spans)  # then one scaled block of columns is held at a time

        def multiply_span(span: slice) -> None:
            block = X[:, span]
            scaled = self._scaled(block)
            work = n_read / len(spans) if by_rows else 0
            map_threads(lambda piece: self._sum(piece, block, scaled, result[:, span]), self._pieces, work)

        with one_thread():
            map_threads(multiply_span, spans, 0 if by_rows else n_read)
        return result

    def _scaled(self, block: torch.Tensor) -> torch.Tensor:
        """Return R X of a block of columns."""
        if self._right is None:
            return block.contiguous()
        return torch.mul(block, self._right, out=torch.empty(block.shape, dtype=block.dtype))

    def _sum(self, piece: Piece, block: torch.Tensor, scaled: torch.Tensor, result: torch.Tensor) -> None:
        """Write the product of a block of rows of P with a block of columns of X."""
        rows, row_starts, columns, weights = piece
        sums = embedding_bag(
            columns,
            scaled,
            row_starts,
            mode="sum",
            include_last_offset=True,
            per_sample_weights=weights,
        )
        if self._self_loop:
            sums.add_(scaled[rows], alpha=self._self_loop)
        target = result[rows]
        if self._left is None:
            target.copy_(sums)
        else:
            torch.mul(sums, self._left[rows], out=target)
        if self._identity:
            target.add_(block[rows], alpha=self._identity)

    def tensors(self) -> list[torch.Tensor]:
        """Return the scalings, the starts of the rows counted per block, and weights that had to be cast."""
        scalings = [part for part in (self._left, self._right) if part is not None]
        parts = [(row_starts, weights) for _, row_starts, _, weights in self._pieces]
        return scalings + [part for pair in parts for part in pair if part is not None]


def _pieces(edges: Csr, dtype: torch.dtype) -> list[Piece]:
    """Return blocks of rows, each with its starts, columns and weights.

    Starts count from the first of the block, so that they have the columns' type, which the kernel demands,
    in a matrix of any number of entries.
    """
    values = None if edges.values is None else edges.values.to(dtype)
    pieces = []
    for first in range(0, edges.shape[0], _ROWS):
        starts = edges.row_starts[first : first + _ROWS + 1]
        entries = slice(int(starts[0]), int(starts[-1]))
        index = edges.columns.dtype if entries.stop - entries.start <= _INT32 else torch.int64
        pieces.append(
            (
                slice(first, first + len(starts) - 1),
                (starts - starts[0]).to(index),
                edges.columns[entries].to(index),
                None if values is None else values[entries],
            )
        )
    return pieces
