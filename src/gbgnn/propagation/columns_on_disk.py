"""Columns on disk: N x C matrices of which a few columns, or a few rows, are in memory at a time."""

from __future__ import annotations

import json
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, final

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from gbgnn._arrays import release
from gbgnn.errors import DataError
from gbgnn.propagation.rows import as_rows

BLOCK_BYTES = 8 * 2**20  # read at once: several times as much is held meanwhile
_INFO = "columns.json"
# NumPy knows no bfloat16: of 16 bits, the bits are what is read and written.
_ON_DISK: dict[int, np.dtype[Any]] = {2: np.dtype(np.int16), 4: np.dtype(np.float32), 8: np.dtype(np.float64)}


_DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (torch.bfloat16, torch.float16, torch.float32, torch.float64)
}


class ColumnStore(ABC):
    """A matrix that is too large to be held: its columns, or its rows, are read some at a time."""

    shape: tuple[int, int]
    dtype: torch.dtype

    @abstractmethod
    def fill(self, result: torch.Tensor, rows: slice, columns: slice) -> None:
        """Read a part of the matrix into a tensor of its shape."""

    def columns(self, start: int, stop: int) -> torch.Tensor:
        """Return some columns of all rows."""
        n_rows, n_columns = self.shape
        result = torch.empty((n_rows, stop - start), dtype=self.dtype)
        step = max(1, BLOCK_BYTES // (n_columns * self.dtype.itemsize))  # whole rows may be read
        for first in range(0, n_rows, step):
            rows = slice(first, min(first + step, n_rows))
            self.fill(result[rows], rows, slice(start, stop))
        return result

    def blocks(self, n_bytes: int = BLOCK_BYTES) -> Iterator[torch.Tensor]:
        """Yield all rows in order, about ``n_bytes`` of them at a time."""
        n_rows, n_columns = self.shape
        step = max(1, n_bytes // (n_columns * self.dtype.itemsize))
        for first in range(0, n_rows, step):
            rows = slice(first, min(first + step, n_rows))
            block = torch.empty((rows.stop - first, n_columns), dtype=self.dtype)
            self.fill(block, rows, slice(0, n_columns))
            yield block

    def pick(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the rows of some nodes, in their order, by one pass over all."""
        result = torch.empty((len(ids), self.shape[1]), dtype=self.dtype)
        wanted, places = ids.sort()
        first = 0
        for block in self.blocks():
            ends = torch.tensor([first, first + len(block)])
            start, stop = torch.searchsorted(wanted, ends).tolist()
            result[places[start:stop]] = block[wanted[start:stop] - first]
            first += len(block)
        return result


@final
@dataclass(frozen=True, eq=False)
class GivenColumns(ColumnStore):
    """The features of a graph, in memory or mapped from a file, as they are or with rows of length one."""

    features: Any  # (N, C), of NumPy or SciPy
    dtype: torch.dtype
    norm: str | None = None

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        """Number of rows and of columns."""
        n_rows, n_columns = self.features.shape
        return n_rows, n_columns

    def fill(self, result: torch.Tensor, rows: slice, columns: slice) -> None:
        """Convert a part of the features; pages of a file that was mapped are let go."""
        block: Any = self.features[rows]
        if self.norm is None and not sp.issparse(block):
            block, columns = block[:, columns], slice(None)
        result.copy_(as_rows(block, dtype=self.dtype, norm=self.norm).dense()[:, columns])
        release(block)


@final
@dataclass(frozen=True, eq=False)
class StoredColumns(ColumnStore):
    """A matrix in a folder, with a file for every few columns, row by row. Files are read, not mapped.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     writer = ColumnWriter(Path(place, "X"), (3, 2), torch.float32)
    ...     writer.add(torch.tensor([[1.0], [2.0], [3.0]]))
    ...     writer.add(torch.tensor([[4.0], [5.0], [6.0]]))
    ...     X = writer.finish()
    ...     X.pick(torch.tensor([2, 0])).tolist(), X.columns(1, 2).flatten().tolist()
    ([[3.0, 6.0], [1.0, 4.0]], [4.0, 5.0, 6.0])
    """

    folder: Path
    shape: tuple[int, int]
    dtype: torch.dtype
    bounds: tuple[int, ...]  # the first column of every file, and the number of all

    @classmethod
    def open(cls, folder: Path) -> StoredColumns:
        """Return what a :class:`ColumnWriter` has finished."""
        try:
            info = json.loads((folder / _INFO).read_text(encoding="utf-8"))
            (n_rows, n_columns), bounds = map(int, info["shape"]), tuple(map(int, info["bounds"]))
            dtype = _DTYPES[info["dtype"]]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise _no_record(folder) from error
        is_sound = n_rows >= 0 and bounds[:1] == (0,) and bounds[-1] == n_columns
        if not is_sound or any(end <= first for first, end in pairwise(bounds)):
            raise _no_record(folder)
        return cls(folder, (n_rows, n_columns), dtype, bounds)

    def fill(self, result: torch.Tensor, rows: slice, columns: slice) -> None:
        """Read a part of the matrix, file by file."""
        bits = as_bits(result)
        for i, (first, end) in enumerate(pairwise(self.bounds)):
            start, stop = max(first, columns.start), min(end, columns.stop)
            if start < stop:
                own = self._read(i, rows, end - first)[:, start - first : stop - first]
                bits[:, start - columns.start : stop - columns.start] = own

    def _read(self, i: int, rows: slice, width: int) -> NDArray[Any]:
        n_numbers, kind = (rows.stop - rows.start) * width, _ON_DISK[self.dtype.itemsize]
        path = self.folder / str(i)
        found: NDArray[Any] = np.fromfile(path, kind, n_numbers, offset=rows.start * width * kind.itemsize)
        if len(found) != n_numbers:
            raise DataError(f"{path} is shorter than it was written; fit again.")
        return found.reshape(-1, width)


class ColumnWriter:
    """Writes a matrix some columns at a time; the folder appears when all are there."""

    def __init__(self, folder: Path, shape: tuple[int, int], dtype: torch.dtype) -> None:
        self._folder, self._part = folder, folder.with_name(f"{folder.name}.part")
        self._shape, self._dtype, self._bounds = shape, dtype, [0]
        shutil.rmtree(self._part, ignore_errors=True)
        self._part.mkdir(parents=True)

    def add(self, columns: torch.Tensor) -> None:
        """Write the next columns, of all rows."""
        as_bits(columns.contiguous()).tofile(self._part / str(len(self._bounds) - 1))
        self._bounds.append(self._bounds[-1] + columns.shape[1])

    def finish(self) -> StoredColumns:
        """Give the folder its name, and return what is in it."""
        dtype = str(self._dtype).removeprefix("torch.")
        info = {"shape": self._shape, "dtype": dtype, "bounds": self._bounds}
        (self._part / _INFO).write_text(json.dumps(info), encoding="utf-8")
        os.rename(self._part, self._folder)
        return StoredColumns.open(self._folder)


def _no_record(folder: Path) -> DataError:
    return DataError(f"{folder / _INFO} is no record of columns; remove the folder and fit again.")


def as_bits(tensor: torch.Tensor) -> NDArray[Any]:
    """Return a tensor's memory as an array of NumPy, of which 16 bits are integers."""
    return (tensor.view(torch.int16) if tensor.dtype.itemsize == 2 else tensor).numpy()
