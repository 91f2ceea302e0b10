"""RowProduct: rows that do not change, sparse or dense, times weights that do, piece by piece."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import torch

from gbgnn._threads import map_threads, one_thread
from gbgnn.propagation import Representation, SparseRows
from gbgnn.propagation.operator import Csr
from gbgnn.propagation.propagator import sparse_csr

_ENTRIES = 2**18
"""About so many entries, of dense rows sixteen times as many, are multiplied by a thread at a time."""

Piece = tuple[slice, torch.Tensor]
"""Some rows of the result, and the rows that they are products of."""


class RowProduct:
    """Multiplies dense matrices by rows, and gradients by their transpose, built when asked for.

    Sparse rows stay sparse. Pieces are the same for any number of threads, and so are results.

    Examples
    --------
    >>> from gbgnn.propagation import DenseRows
    >>> times = RowProduct(DenseRows(torch.tensor([[1.0, 2.0]])))
    >>> weight = torch.ones(2, 1, requires_grad=True)
    >>> times(weight).sum().backward()
    >>> weight.grad.tolist(), times.transposed(torch.tensor([[3.0]])).tolist()
    ([[1.0], [2.0]], [[3.0], [6.0]])
    """

    def __init__(self, rows: Representation) -> None:
        self.rows = rows

    def __call__(self, weight: torch.Tensor) -> torch.Tensor:
        """Return the rows times a matrix (columns, units); a gradient passes to it."""
        product: torch.Tensor = _Product.apply(weight, self)  # type: ignore[no-untyped-call]
        return product

    def transposed(self, matrix: torch.Tensor) -> torch.Tensor:
        """Return the transpose of the rows times a matrix (rows, units)."""
        return _multiply(self._columns, self.rows.shape[1], matrix)

    @cached_property
    def _pieces(self) -> list[Piece]:
        if isinstance(self.rows, SparseRows):
            own = self.rows
            return list(_cut_sparse(own.row_starts, own.columns, own.values, own.n_columns))
        return list(_cut_dense(self.rows.dense()))

    @cached_property
    def _columns(self) -> list[Piece]:
        if isinstance(self.rows, SparseRows):
            own = self.rows
            turned = Csr(own.row_starts, own.columns, own.values, own.n_columns).transpose()
            assert turned.values is not None
            return list(_cut_sparse(turned.row_starts, turned.columns, turned.values, turned.n_columns))
        return list(_cut_dense(self.rows.dense().mT))


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, weight: torch.Tensor, product: RowProduct) -> torch.Tensor:
        context.product = product
        return _multiply(product._pieces, product.rows.shape[0], weight.detach())

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        return context.product.transposed(gradients[0].contiguous()), None


def _cut_sparse(
    row_starts: torch.Tensor, columns: torch.Tensor, values: torch.Tensor, n_columns: int
) -> Iterator[Piece]:
    """Yield matrices of some rows each, with about as many entries; a long row is not cut."""
    n_rows, n_entries = len(row_starts) - 1, len(columns)
    ends = _ENTRIES * torch.arange(1, n_entries // _ENTRIES + 1, device=row_starts.device)
    cuts = torch.searchsorted(row_starts, ends).clamp_(max=n_rows).unique().tolist()
    for first, end in _pairs(cuts, n_rows):
        starts = row_starts[first : end + 1]
        entries = slice(int(starts[0]), int(starts[-1]))
        shape = (end - first, n_columns)
        yield slice(first, end), sparse_csr(starts - starts[0], columns[entries], values[entries], shape)


def _cut_dense(rows: torch.Tensor) -> Iterator[Piece]:
    step = max(1, 16 * _ENTRIES // max(1, rows.shape[1]))
    for first, end in _pairs(list(range(step, len(rows), step)), len(rows)):
        yield slice(first, end), rows[first:end]


def _pairs(cuts: Sequence[int], n: int) -> list[tuple[int, int]]:
    inner = [cut for cut in cuts if 0 < cut < n]
    return list(zip([0, *inner], [*inner, n], strict=True))


def _multiply(pieces: Sequence[Piece], n_rows: int, matrix: torch.Tensor) -> torch.Tensor:
    """Return all rows times a matrix, of which several threads write some each."""
    if len(pieces) == 1:
        return torch.mm(pieces[0][1], matrix)
    result = matrix.new_empty(n_rows, matrix.shape[1])

    def write(piece: Piece) -> None:
        rows, own = piece
        torch.mm(own, matrix, out=result[rows])

    # Of each piece there is more than enough to do for a thread.
    work = len(pieces) * _ENTRIES * matrix.shape[1] if matrix.device.type == "cpu" else 0.0
    with one_thread():
        map_threads(write, pieces, work)
    return result
