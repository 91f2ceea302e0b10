"""Operator: the description of P that a recipe returns and a Propagator multiplies by."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from gbgnn._arrays import are_all
from gbgnn._matrices import as_csr
from gbgnn._threads import map_threads
from gbgnn.errors import GraphError

# Sums over more entries than this are shared out among threads. The pieces do not depend on the number of
# threads, so neither do the results.
_PIECE = 1 << 24
_FORMED = 1 << 20  # values that are formed at once: what is made on the way stays in a cache
_FLOATS = {np.dtype(np.float32), np.dtype(np.float64)}


@dataclass(frozen=True, eq=False)
class Csr:
    """A sparse matrix by rows, on one device."""

    row_starts: torch.Tensor  # where each row starts among the entries, int64, one more than there are rows
    # The column of each entry; int32 where the number of columns fits, else int64. They need not be sorted.
    columns: torch.Tensor
    values: torch.Tensor | None  # the value of each entry, float32 or float64. None: every entry is one
    n_columns: int  # number of columns

    @classmethod
    def from_scipy(cls, matrix: Any, device: torch.device | str = "cpu") -> Csr:
        """Return a SciPy matrix on ``device``; on the CPU the memory is shared where the types allow it."""
        # Of a CSR array the very same: SciPy would make indices and pointers of one type.
        A = matrix if isinstance(matrix, sp.csr_array) else sp.csr_array(matrix)
        values = None if are_all(A.data, 1) else A.data
        if values is not None and values.dtype not in _FLOATS:
            values = values.astype(np.float64)
        columns = as_tensor(A.indices).to(_column_type(A.shape[1]))  # narrowed first: half as much to copy
        return cls(
            as_tensor(A.indptr).to(device, torch.int64),
            columns.to(device),
            None if values is None else as_tensor(values).to(device),
            int(A.shape[1]),
        )

    @classmethod
    def from_matrix(cls, matrix: Any) -> Csr:
        """Return a Csr as it is, and anything that SciPy can read on the CPU, its indices checked."""
        return matrix if isinstance(matrix, cls) else cls.from_scipy(as_csr(matrix, "the matrix"))

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return len(self.row_starts) - 1, self.n_columns

    @property
    def n_entries(self) -> int:
        """Number of stored entries."""
        return len(self.columns)

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self.columns.device

    def to(self, device: torch.device | str) -> Csr:
        """Return the matrix on ``device``; itself if it is there."""
        values = None if self.values is None else self.values.to(device)
        return Csr(self.row_starts.to(device), self.columns.to(device), values, self.n_columns)

    def to_scipy(self) -> sp.csr_array:
        """Return a copy for SciPy, its values in double precision."""
        values = torch.ones(self.n_entries) if self.values is None else self.values
        parts = (values.double(), self.columns, self.row_starts)
        return sp.csr_array(tuple(part.cpu().numpy() for part in parts), shape=self.shape, copy=True)

    def row_sums(self) -> torch.Tensor:
        """Return the sum of each row, in double precision."""
        if self.values is None:
            return self.row_starts.diff().double()
        if self.device.type != "cpu":
            return segment_sums(self.values, self.row_starts)
        values = self.values

        def sum_rows(span: tuple[slice, slice]) -> torch.Tensor:
            rows, entries = span
            starts = self.row_starts[rows.start : rows.stop + 1]
            return segment_sums(values[entries], starts - starts[0])

        return torch.cat(map_threads(sum_rows, self.spans(_PIECE), self.n_entries))

    def column_sums(self) -> torch.Tensor:
        """Return the sum of each column, in double precision."""
        columns, values, n_columns = self.columns, self.values, self.n_columns
        if self.device.type != "cpu":
            if values is None:
                return torch.bincount(columns, minlength=n_columns).double()
            # Not by bincount: on a GPU it would add the weights up in another order each time.
            return self.transpose().row_sums()

        def sum_entries(entries: slice) -> torch.Tensor:
            weights = None if values is None else values[entries].double()
            return torch.bincount(columns[entries], weights, minlength=n_columns)

        # A piece has sums of its own for all columns: few pieces where there are few entries per column.
        piece = max(_PIECE, 4 * n_columns)
        pieces = [slice(first, first + piece) for first in range(0, max(self.n_entries, 1), piece)]
        total, *others = map_threads(sum_entries, pieces, self.n_entries)
        for more in others:
            total += more
        return total.double()

    def transpose(self) -> Csr:
        """Return the transpose, its columns sorted."""
        n_rows = self.shape[0]
        if self.device.type == "cpu":
            data = np.ones(self.n_entries, np.int8) if self.values is None else self.values.numpy()
            parts = (data, self.columns.numpy(), self.row_starts.numpy())
            turned = sp.csr_array(parts, shape=self.shape).T.tocsr()
            row_starts, columns = as_tensor(turned.indptr).long(), as_tensor(turned.indices)
            values = None if self.values is None else as_tensor(turned.data)
        else:
            order = torch.sort(self.columns, stable=True).indices
            columns = self.rows_of_entries()[order]
            counts = torch.bincount(self.columns, minlength=self.n_columns)
            row_starts = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
            values = None if self.values is None else self.values[order]
        return Csr(row_starts, columns.to(_column_type(n_rows)), values, n_rows)

    def spans(self, size: int) -> list[tuple[slice, slice]]:
        """Return rows of about so many entries each, and which entries are theirs."""
        wanted = torch.arange(1, max(1, self.n_entries // size), device=self.device) * size
        rows = [0, *torch.searchsorted(self.row_starts, wanted).tolist(), self.shape[0]]
        entries = self.row_starts[rows].tolist()
        return [
            (slice(*of_rows), slice(*of_entries))
            for of_rows, of_entries in zip(pairwise(rows), pairwise(entries), strict=True)
        ]

    def without_loops(self) -> Csr:
        """Return the matrix without its diagonal; itself if that is empty."""
        kept = self.rows_of_entries() != self.columns
        if bool(kept.all()):
            return self
        before = torch.cat([kept.new_zeros(1, dtype=torch.int64), kept.cumsum(0)])
        values = None if self.values is None else self.values[kept]
        return Csr(before[self.row_starts], self.columns[kept], values, self.n_columns)

    def rows_of_entries(self) -> torch.Tensor:
        """Return the row of each entry."""
        n_rows = self.shape[0]
        rows = torch.arange(n_rows, dtype=_column_type(n_rows), device=self.device)
        return rows.repeat_interleave(self.row_starts.diff(), output_size=self.n_entries)


def as_tensor(array: NDArray[Any]) -> torch.Tensor:
    """Return a tensor that shares the memory of ``array``, without torch's warning if that is read only.

    Nothing may write to it then.
    """
    return torch.from_numpy(array if array.flags.writeable else np.asarray(_Writeable(array)))


class _Writeable:
    """The memory of an array, as NumPy's array interface hands it on, said to be writeable."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array  # keeps the memory
        address, _ = array.__array_interface__["data"]
        self.__array_interface__ = array.__array_interface__ | {"data": (address, False)}


def _column_type(n_columns: int) -> torch.dtype:
    return torch.int32 if n_columns <= torch.iinfo(torch.int32).max else torch.int64


def segment_sums(values: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
    """Return the sums of entries from one start to the next, in double precision."""
    return torch.segment_reduce(values.double(), "sum", offsets=starts, axis=0, unsafe=True, initial=0)


@dataclass(frozen=True, eq=False)
class Operator:
    r"""P as its parts, :math:`P = \iota I + L (A + \sigma I) R` with diagonal L and R.

    Nothing of the size of the edges is formed beside A itself, which has no values where every edge weighs
    one.
    """

    edges: Csr  # A, square
    # left, right: the diagonals of L and R, one float64 number per node, on the device of A; None stands for
    # ones.
    left: torch.Tensor | None = None
    right: torch.Tensor | None = None
    self_loop: float = 0.0  # sigma, the weight of the self loop that each node is given
    identity: float = 0.0  # iota, the share of the identity

    def __post_init__(self) -> None:
        """Raise unless A is square."""
        n_rows, n_columns = self.edges.shape
        if n_rows != n_columns:
            raise GraphError(f"P must be a square matrix; got {n_rows} x {n_columns}.")

    @classmethod
    def from_matrix(cls, matrix: Any) -> Operator:
        """Return an Operator as it is, and a SciPy matrix or a Csr as one."""
        return matrix if isinstance(matrix, cls) else cls(Csr.from_matrix(matrix))

    @property
    def n_nodes(self) -> int:
        """Number of rows and columns of P."""
        return self.edges.n_columns

    @property
    def device(self) -> torch.device:
        """Where the parts are."""
        return self.edges.device

    def tensors(self) -> list[torch.Tensor]:
        """Return what is held."""
        parts = (self.edges.row_starts, self.edges.columns, self.edges.values, self.left, self.right)
        return [part for part in parts if part is not None]

    def to(self, device: torch.device | str) -> Operator:
        """Return the description on ``device``; parts that are there are shared."""
        left, right = (None if each is None else each.to(device) for each in (self.left, self.right))
        return replace(self, edges=self.edges.to(device), left=left, right=right)

    def transpose(self) -> Operator:
        """Return the description of the transpose of P."""
        return replace(self, edges=self.edges.transpose(), left=self.right, right=self.left)

    def values(self, dtype: torch.dtype) -> torch.Tensor | None:
        """Return the entries of L A R, in the order of those of A; None where all are one."""
        A = self.edges
        if A.values is None and self.left is None and self.right is None:
            return None
        result = torch.empty(A.n_entries, dtype=dtype, device=A.device)

        def fill(span: tuple[slice, slice]) -> None:
            rows, entries = span
            # In double precision, as rounding early could cost a digit.
            if A.values is None:
                values = torch.ones(entries.stop - entries.start, dtype=torch.float64, device=A.device)
            else:
                values = A.values[entries].double()
            if self.left is not None:
                counts = A.row_starts[rows.start : rows.stop + 1].diff()
                values = values * self.left[rows].repeat_interleave(counts, output_size=len(values))
            if self.right is not None:
                values = values * self.right[A.columns[entries]]
            result[entries] = values

        map_threads(fill, A.spans(_FORMED), A.n_entries if A.device.type == "cpu" else 0)
        return result

    def diagonal_terms(self) -> torch.Tensor | None:
        r"""Return what P has on its diagonal beside L A R, :math:`\iota + \sigma L R`; None if nothing."""
        if not self.self_loop and not self.identity:
            return None
        loops = torch.full((self.n_nodes,), self.self_loop, dtype=torch.float64, device=self.device)
        for scaling in (self.left, self.right):
            if scaling is not None:
                loops *= scaling
        return loops.add_(self.identity)

    def to_scipy(self) -> sp.csr_array:
        """Return P entry by entry in double precision, sorted; what spectra and bounds are computed from."""
        P = self.edges.to_scipy()
        P.sum_duplicates()
        if self.self_loop:
            P = sp.csr_array(P + self.self_loop * sp.eye_array(self.n_nodes))
        if self.left is not None:
            P.data *= np.repeat(self.left.cpu().numpy(), np.diff(P.indptr))
        if self.right is not None:
            P.data *= self.right.cpu().numpy()[P.indices]
        if self.identity:
            P = sp.csr_array(P + self.identity * sp.eye_array(self.n_nodes))
        P.sort_indices()
        return P

    def toarray(self) -> NDArray[np.float64]:
        """Return P as an N x N array, for graphs of a few nodes."""
        return np.asarray(self.to_scipy().toarray())
