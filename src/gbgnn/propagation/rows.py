"""Representation: one row per node, reached by ids or block by block; dense or sparse."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import scipy.sparse as sp
import torch

from gbgnn.propagation.operator import as_tensor, segment_sums
from gbgnn.propagation.propagator import sparse_csr

BLOCK_BYTES = 64 * 2**20  # about how large a block of rows is where the caller does not say
NORMS = {"l1": 1, "l2": 2}  # by which feature rows may be brought to length one
SPARSE_BELOW = 0.125  # up to this share of non-zero entries, sparse features stay sparse


def computed_in(dtype: torch.dtype) -> torch.dtype:
    """Return the precision in which numbers stored in one are computed with: of 16 bits, 32.

    Examples
    --------
    >>> computed_in(torch.bfloat16), computed_in(torch.float64)
    (torch.float32, torch.float64)
    """
    return torch.float32 if dtype.itemsize < 4 else dtype


class Representation(ABC):
    """What a model knows of all nodes, N rows of C numbers on one device; it never changes.

    Several models that are boosted at once may have one in common, or each its own: then what ``rows``
    returns has an axis of members in front.
    """

    is_shared: bool = True  # whether there is one for all members

    def member(self, i: int) -> Representation:
        """Return the representation of one member."""
        return self

    def members(self, positions: Sequence[int]) -> Representation:
        """Return the representation of some members."""
        return self

    @property
    @abstractmethod
    def _numbers(self) -> torch.Tensor:
        """The rows or, of a class that says how many there are, anything of their precision and device."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        n_rows, n_columns = self._numbers.shape[-2:]
        return n_rows, n_columns

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the numbers."""
        return self._numbers.dtype

    @property
    def device(self) -> torch.device:
        """Where the numbers are, and where all that is returned is."""
        return self._numbers.device

    @property
    def nbytes(self) -> int:
        """Bytes that the representation occupies."""
        return self._numbers.nbytes

    @abstractmethod
    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the rows of these nodes, (n, C) and dense; nodes may repeat."""

    @abstractmethod
    def dense(self) -> torch.Tensor:
        """Return all rows as one dense tensor, not to be changed."""

    def blocks(self, n_bytes: int = BLOCK_BYTES, *, sparse: bool = False) -> Iterator[torch.Tensor]:
        """Yield all rows in order, in blocks of about ``n_bytes`` and at least one row, not to be changed.

        They are dense; if ``sparse``, they may be torch's sparse CSR tensors, which torch.mm and torch.addmm
        multiply by a dense matrix.
        """
        yield from self.dense().split(_rows_within(n_bytes, self.shape[1] * self.dtype.itemsize), dim=-2)

    def add_to_(self, result: torch.Tensor, alpha: float = 1.0) -> torch.Tensor:
        """Add ``alpha`` times the rows to a dense (N, C) tensor in place, and return it."""
        return result.add_(self.dense(), alpha=alpha)


@final
@dataclass(frozen=True, eq=False)
class DenseRows(Representation):
    """A dense tensor as a representation."""

    tensor: torch.Tensor

    @property
    def _numbers(self) -> torch.Tensor:
        return self.tensor

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        """Return a copy of the rows of these nodes."""
        return self.tensor[ids]

    def dense(self) -> torch.Tensor:
        """Return the tensor itself."""
        return self.tensor


@final
@dataclass(frozen=True, eq=False)
class SparseRows(Representation):
    """Rows of which only the entries other than zero are stored; no row has a column twice.

    Examples
    --------
    >>> X = SparseRows.from_scipy(sp.csr_array([[0.0, 3.0], [4.0, 0.0]]))
    >>> X.rows(torch.tensor([1, 0]))
    tensor([[4., 0.],
            [0., 3.]])
    >>> [torch.mm(block, torch.eye(2)).tolist() for block in X.blocks(sparse=True)]
    [[[0.0, 3.0], [4.0, 0.0]]]
    """

    row_starts: torch.Tensor  # where each row starts among the entries, int64, one more than there are rows
    columns: torch.Tensor  # the column of each entry
    values: torch.Tensor
    n_columns: int

    @classmethod
    def from_scipy(
        cls, matrix: Any, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
    ) -> SparseRows:
        """Return a copy of a SciPy matrix as rows of ``dtype`` on ``device``."""
        X = sp.csr_array(matrix, copy=True)
        X.sum_duplicates()
        row_starts, columns = as_tensor(X.indptr).long().to(device), as_tensor(X.indices).to(device)
        return cls(row_starts, columns, as_tensor(X.data).to(device, dtype), int(X.shape[1]))

    @property
    def _numbers(self) -> torch.Tensor:
        return self.values

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return len(self.row_starts) - 1, self.n_columns

    @property
    def nbytes(self) -> int:
        """Bytes of the entries and the starts of rows."""
        return self.row_starts.nbytes + self.columns.nbytes + self.values.nbytes

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the rows of these nodes, made dense."""
        starts = self.row_starts[ids]
        counts = self.row_starts[ids + 1] - starts
        ends = counts.cumsum(0)
        row = torch.arange(len(ids), device=self.device).repeat_interleave(counts)
        # The j-th entry taken is the (j - entries of the rows before)-th of its own row.
        entry = torch.arange(len(row), device=self.device) + (starts - ends + counts)[row]
        result = torch.zeros((len(ids), self.n_columns), dtype=self.dtype, device=self.device)
        result[row, self.columns[entry].long()] = self.values[entry]
        return result

    def dense(self) -> torch.Tensor:
        """Return all rows, made dense anew each time."""
        return self.add_to_(torch.zeros(self.shape, dtype=self.dtype, device=self.device))

    def blocks(self, n_bytes: int = BLOCK_BYTES, *, sparse: bool = False) -> Iterator[torch.Tensor]:
        """Yield consecutive rows, dense or as sparse CSR tensors; each kind is measured by its own bytes."""
        n_rows, n_columns = self.shape
        row_bytes = self.nbytes // max(1, n_rows) if sparse else n_columns * self.dtype.itemsize
        for _, part in self._split(n_bytes, row_bytes):
            if sparse:
                yield sparse_csr(part.row_starts, part.columns, part.values, part.shape)
            else:
                # Not part.dense(), which adds to what is there and holds more meanwhile.
                block = torch.zeros(part.shape, dtype=self.dtype, device=self.device)
                block[part._places()] = part.values
                yield block

    def add_to_(self, result: torch.Tensor, alpha: float = 1.0) -> torch.Tensor:
        """Add ``alpha`` times the entries to ``result`` in place, a block of rows at a time."""
        # Two int64 places and two values per entry are held meanwhile.
        for rows, part in self._split(BLOCK_BYTES, 32 * len(self.values) // max(1, len(result))):
            # No place comes twice, so this is the same every time, which atomic sums on a GPU are not.
            result[rows][part._places()] += alpha * part.values
        return result

    def _places(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the row and the column of each entry."""
        rows = torch.arange(self.shape[0], device=self.device)
        return rows.repeat_interleave(self.row_starts.diff()), self.columns.long()

    def _split(self, n_bytes: int, row_bytes: int) -> Iterator[tuple[slice, SparseRows]]:
        """Yield which rows, as many at a time as ``n_bytes`` hold, and these as a matrix of their own."""
        step = _rows_within(n_bytes, row_bytes)
        for first in range(0, self.shape[0], step):
            starts = self.row_starts[first : first + step + 1]
            entries = slice(int(starts[0]), int(starts[-1]))
            part = SparseRows(starts - starts[0], self.columns[entries], self.values[entries], self.n_columns)
            yield slice(first, first + step), part


@final
@dataclass(frozen=True, eq=False)
class MemberRows(Representation):
    """A representation for each of several members."""

    parts: Sequence[Representation]
    is_shared = False

    def member(self, i: int) -> Representation:
        """Return the representation of one member."""
        return self.parts[i]

    def members(self, positions: Sequence[int]) -> Representation:
        """Return the representations of some members."""
        return MemberRows([self.parts[i] for i in positions])

    @property
    def _numbers(self) -> torch.Tensor:
        return self.parts[0]._numbers

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns of each."""
        return self.parts[0].shape

    @property
    def nbytes(self) -> int:
        """Bytes of all of them."""
        return sum(part.nbytes for part in self.parts)

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the rows of these nodes, shape (members, n, C)."""
        return torch.stack([part.rows(ids) for part in self.parts])

    def dense(self) -> torch.Tensor:
        """Return all rows, shape (members, N, C)."""
        return torch.stack([part.dense() for part in self.parts])

    def blocks(self, n_bytes: int = BLOCK_BYTES, *, sparse: bool = False) -> Iterator[torch.Tensor]:
        """Yield consecutive rows, shape (members, n, C)."""
        n_rows, n_columns = self.shape
        step = _rows_within(n_bytes, n_columns * self.dtype.itemsize * len(self.parts))
        for ids in torch.arange(n_rows, device=self.device).split(step):
            yield self.rows(ids)


@final
@dataclass(frozen=True, eq=False)
class JoinedRows(Representation):
    """Columns of several representations side by side, each as it is: what is sparse stays so.

    Examples
    --------
    >>> beside = JoinedRows((DenseRows(torch.ones(2, 1)), SparseRows.from_scipy(sp.eye_array(2))))
    >>> beside.dense().tolist(), beside.shape
    ([[1.0, 1.0, 0.0], [1.0, 0.0, 1.0]], (2, 3))
    """

    parts: tuple[Representation, ...]

    @property
    def _numbers(self) -> torch.Tensor:
        return self.parts[0]._numbers

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows, and of the columns of all parts."""
        return self.parts[0].shape[0], sum(part.shape[1] for part in self.parts)

    @property
    def nbytes(self) -> int:
        """Bytes of all parts."""
        return sum(part.nbytes for part in self.parts)

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the rows of these nodes, dense."""
        return torch.cat([part.rows(ids) for part in self.parts], dim=1)

    def dense(self) -> torch.Tensor:
        """Return all rows, put together anew each time."""
        return torch.cat([part.dense() for part in self.parts], dim=1)

    def blocks(self, n_bytes: int = BLOCK_BYTES, *, sparse: bool = False) -> Iterator[torch.Tensor]:
        """Yield consecutive rows, dense, put together a block at a time."""
        n_rows, n_columns = self.shape
        step = _rows_within(n_bytes, n_columns * self.dtype.itemsize)
        for ids in torch.arange(n_rows, device=self.device).split(step):
            yield self.rows(ids)


def join_members(parts: Sequence[Representation]) -> Representation:
    """Return the representations of several members as one."""
    first = parts[0]
    return first if all(part is first for part in parts) else MemberRows(parts)


def as_rows(
    features: Any,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    norm: str | None = None,
) -> Representation:
    """Return N x C numbers of NumPy or SciPy as a representation; a copy, which later changes do not reach.

    One of :data:`NORMS` brings every row to length one; a row of zeros stays as it is.

    Sparse features stay sparse while that is cheaper. On one core a sparse block times a (C, 64) matrix takes
    0.04 of the time of the dense product at 1 % non-zero entries, 0.2 to 0.4 at 5 %, 0.3 to 0.8 at 10 % and
    0.6 to 0.9 at 20 %, on the shapes of Cora, CiteSeer, PubMed and 18,333 x 6,805. But rows by their ids take
    longer than from a dense tensor, so :data:`SPARSE_BELOW` leaves a margin.

    Examples
    --------
    >>> as_rows(np.array([[3.0, 4.0], [0.0, 0.0]]), norm="l2").dense()
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    >>> type(as_rows(sp.csr_array((4, 9)))).__name__
    'SparseRows'
    """
    if sp.issparse(features) and features.nnz <= SPARSE_BELOW * features.shape[0] * features.shape[1]:
        X = SparseRows.from_scipy(features, device, dtype)
        if norm is not None:
            X.values.div_(_lengths(X, norm))
        return X
    array = features.toarray() if sp.issparse(features) else np.asarray(features)
    tensor = as_tensor(np.ascontiguousarray(array)).to(device, dtype, copy=True)
    if norm is not None:
        tensor.div_(_lengths(DenseRows(tensor), norm))
    return DenseRows(tensor)


def normalised(X: Representation, norm: str) -> Representation:
    """Return a copy with every row of length one, by one of :data:`NORMS`; a row of zeros stays.

    Examples
    --------
    >>> normalised(DenseRows(torch.tensor([[3.0, 1.0]])), "l1").dense()
    tensor([[0.7500, 0.2500]])
    """
    if isinstance(X, SparseRows):
        return replace(X, values=X.values / _lengths(X, norm))
    dense = DenseRows(X.dense())
    return DenseRows(dense.tensor / _lengths(dense, norm))


def _lengths(X: SparseRows | DenseRows, norm: str) -> torch.Tensor:
    """Return the length of each row, dense, or that of the row of each entry, sparse; of zeros it is one."""
    if isinstance(X, DenseRows):
        lengths = torch.linalg.vector_norm(X.tensor, NORMS[norm], dim=1, keepdim=True)
        return torch.where(lengths > 0, lengths, 1.0)
    sums = segment_sums(X.values.double().abs() ** NORMS[norm], X.row_starts)
    lengths = torch.where(sums > 0, sums ** (1 / NORMS[norm]), 1.0).to(X.dtype)
    return lengths.repeat_interleave(X.row_starts.diff())


def _rows_within(n_bytes: int, row_bytes: int) -> int:
    return max(1, n_bytes // max(1, row_bytes))
