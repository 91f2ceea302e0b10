"""Blocks of rows of P: what a worker computes of its own rows, and of those that it borrows for them.

Rows of nodes are NumPy's arrays, which Dask measures and sends without a copy. NumPy knows no bfloat16: of 16
bits an array has the bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray

from gbgnn.propagation import DenseRows, Propagation, Propagator, as_rows
from gbgnn.propagation.columns_on_disk import as_bits
from gbgnn.propagation.operator import Csr, as_tensor


@final
@dataclass(frozen=True, eq=False)
class EdgeRows:
    """Some rows of the adjacency matrix, with the columns of all nodes in ascending order."""

    row_starts: NDArray[np.int64]
    columns: NDArray[Any]
    values: NDArray[Any] | None  # None: every edge weighs one

    @classmethod
    def from_scipy(cls, matrix: Any) -> EdgeRows:
        """Return the rows of a canonical CSR matrix."""
        return cls(
            matrix.indptr.astype(np.int64), matrix.indices, None if (matrix.data == 1).all() else matrix.data
        )

    def as_csr(self, n_columns: int) -> Csr:
        """Return the rows for torch, which shares their memory."""
        values = None if self.values is None else as_tensor(self.values)
        return Csr(as_tensor(self.row_starts), as_tensor(self.columns), values, n_columns)

    def __sizeof__(self) -> int:
        values = 0 if self.values is None else self.values.nbytes
        return int(self.row_starts.nbytes + self.columns.nbytes + values)


@final
@dataclass(frozen=True, eq=False)
class LocalEdges:
    """The same rows with other numbers for the columns: own nodes first, then those of other chunks.

    ``borrowed`` are the rows of other chunks, by the chunk's number, that the own ones are mixed with: ids
    within that chunk, ascending. All others never travel.
    """

    rows: EdgeRows
    borrowed: dict[int, NDArray[np.int64]]

    @classmethod
    def build(cls, rows: EdgeRows, bounds: Sequence[int], chunk: int) -> LocalEdges:
        """Find what a chunk borrows; chunk i has the nodes from ``bounds[i]`` up to the next bound."""
        start, stop = bounds[chunk], bounds[chunk + 1]
        is_own = (rows.columns >= start) & (rows.columns < stop)
        others, places = np.unique(rows.columns[~is_own], return_inverse=True)
        columns = np.empty(len(rows.columns), np.int64)
        columns[is_own] = rows.columns[is_own] - start
        columns[~is_own] = stop - start + places
        cuts = np.searchsorted(others, bounds)
        parts = {i: others[cuts[i] : cuts[i + 1]] - bounds[i] for i in range(len(bounds) - 1)}
        borrowed = {i: ids.astype(np.int64) for i, ids in parts.items() if len(ids)}
        n_seen = stop - start + len(others)
        index = np.int32 if n_seen <= np.iinfo(np.int32).max else np.int64
        return cls(EdgeRows(rows.row_starts, columns.astype(index), rows.values), borrowed)

    @property
    def counts(self) -> dict[int, int]:
        """How many rows of each other chunk are borrowed."""
        return {chunk: len(ids) for chunk, ids in self.borrowed.items()}

    def __sizeof__(self) -> int:
        return self.rows.__sizeof__() + sum(ids.nbytes for ids in self.borrowed.values())


@dataclass(frozen=True, eq=False)
class _SeenEdges(Csr):
    """Own and borrowed nodes as a graph of their own, whose sums are those of the whole graph.

    By them a recipe that looks at degrees makes the same entries of P as it would of the whole.
    """

    totals: torch.Tensor | None = None  # of rows and of columns, (nodes, 2)

    def row_sums(self) -> torch.Tensor:
        assert self.totals is not None
        return self.totals[:, 0].contiguous()

    def column_sums(self) -> torch.Tensor:
        assert self.totals is not None
        return self.totals[:, 1].contiguous()


@final
@dataclass(frozen=True, eq=False)
class Block:
    """Rows of P that a worker multiplies by: of its own nodes, the first ones that ``P`` knows."""

    P: Propagator
    n_own: int

    @classmethod
    def build(
        cls, edges: LocalEdges, recipe: Propagation, dtype: torch.dtype, *totals: NDArray[np.float64]
    ) -> Block:
        """Let a recipe make P of edges; ``totals`` are sums of rows and columns, own first, then borrowed."""
        rows, sums = edges.rows, np.concatenate(totals)
        n_own, n_seen = len(rows.row_starts) - 1, len(sums)
        # Borrowed nodes have no rows here: their own chunk has them.
        starts = np.append(rows.row_starts, np.full(n_seen - n_own, rows.row_starts[-1]))
        A = replace(rows, row_starts=starts).as_csr(n_seen)
        operator = recipe.build(_SeenEdges(**vars(A), totals=as_tensor(sums)))
        return cls(Propagator(replace(operator, edges=A), dtype=dtype), n_own)

    def multiply(self, X: NDArray[Any], *borrowed: NDArray[Any]) -> NDArray[Any]:
        """Return the own rows of P X."""
        seen = torch.cat([as_numbers(part, self.P.dtype) for part in (X, *borrowed)])
        return as_bits(self.P(seen)[: self.n_own].clone())

    def __sizeof__(self) -> int:
        return self.P.nbytes


def as_numbers(array: NDArray[Any], dtype: torch.dtype) -> torch.Tensor:
    """Return the tensor whose memory an array is; nothing may write to it."""
    tensor = as_tensor(array)
    return tensor.view(dtype) if dtype.itemsize == 2 else tensor


def as_chunk(features: Any, dtype: torch.dtype, norm: str | None) -> NDArray[Any]:
    """Return features, dense or sparse, as rows of a precision."""
    return as_bits(as_rows(features, dtype=dtype, norm=norm).dense())


def add_up(
    dtype: torch.dtype,
    weights: Sequence[float],
    injection: float,
    is_sparse: bool,
    first: NDArray[Any] | None,
    *terms: NDArray[Any],
) -> NDArray[Any]:
    """Return the weighted sum of terms, and of a share of the first rows, in the order of one machine.

    There rows that are sparse are scaled before they are added, and dense ones as they are.
    """
    tensors = [as_numbers(term, dtype) for term in terms]
    result = tensors[0] * weights[0]
    for Z, weight in zip(tensors[1:], weights[1:], strict=True):
        result.add_(Z, alpha=weight)
    if first is not None:
        X = as_numbers(first, dtype)
        DenseRows(X * injection if is_sparse else X).add_to_(result, 1.0 if is_sparse else injection)
    return as_bits(result)


def pick(rows: NDArray[Any], ids: NDArray[np.int64]) -> NDArray[Any]:
    """Return some rows of a chunk: what travels."""
    return rows[ids]
