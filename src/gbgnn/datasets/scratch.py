"""Arrays on disk while they grow, and how much memory there is for what is not there yet."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from gbgnn._memory import free_bytes, resident_bytes
from gbgnn.errors import ParameterError

_SHARE = 0.7
"""Of the memory that is free under the limit, what arrays may take; the rest is for what is made on the way."""

_LEAST = 96 << 20
_USUAL = 2 << 30
"""Bytes for arrays: with less room than the least nothing begins, without a limit there is the usual room."""


@dataclass(frozen=True)
class Scratch:
    """A folder for what does not fit into memory, and the bytes that the process may take; None is no limit.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as place:
    ...     with ArrayWriter(Path(place, "x.npy"), np.float32, 2) as writer:
    ...         writer.add(np.ones((3, 2))), writer.add(np.zeros((1, 2)))
    ...     open_array(Path(place, "x.npy")).tolist()
    (None, None)
    [[1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [0.0, 0.0]]
    """

    folder: Path
    memory_limit: int | None = None

    def room(self) -> int:
        """Return how many bytes arrays may take now, or say that the limit leaves none."""
        if self.memory_limit is None:
            free = free_bytes()
            return _USUAL if free is None else min(_USUAL, free // 2)
        if "pyarrow" in sys.modules:  # which keeps what it no longer needs
            sys.modules["pyarrow"].default_memory_pool().release_unused()
        resident = resident_bytes()
        taken = self.memory_limit // 2 if resident is None else resident
        room = int(_SHARE * (self.memory_limit - taken))
        if room < _LEAST:
            raise ParameterError(
                f"memory_limit={self.memory_limit:,} bytes is too little: {taken:,} are taken already. Give "
                f"at least {taken + int(_LEAST / _SHARE):,}."
            )
        return room

    def check(self, what: str, size: int) -> None:
        """Raise where something is as large as all the room there is, whatever a limit's share."""
        if self.memory_limit is not None and size > (room := self.room()):
            raise ParameterError(
                f"memory_limit={self.memory_limit:,} bytes is too little: {what} take {size:,}, but there is "
                f"room for {room:,}. Give at least {self.memory_limit + int((size - room) / _SHARE):,}."
            )

    def path(self, name: str) -> Path:
        """Return the path of a new file."""
        return Path(tempfile.mkdtemp(dir=self.folder), name)


class ArrayWriter:
    """Writes the file of an array a few rows at a time, in the bytes that NumPy would write at once."""

    def __init__(self, path: Path, dtype: Any, *shape: int) -> None:
        self.path, self.dtype, self._shape, self.n_rows = path, np.dtype(dtype), shape, 0
        self._file = path.open("wb")
        self._write_header()

    def add(self, rows: NDArray[Any]) -> None:
        """Write the next rows."""
        np.ascontiguousarray(rows, self.dtype).tofile(self._file)
        self.n_rows += len(rows)

    def close(self) -> None:
        """Note how many rows there are, for which the header has left room."""
        self._file.seek(0)
        self._write_header()
        self._file.close()

    def _write_header(self) -> None:
        described = {
            "descr": np.lib.format.dtype_to_descr(self.dtype),
            "fortran_order": False,
            "shape": (self.n_rows, *self._shape),
        }
        np.lib.format.write_array_header_1_0(self._file, described)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_array(path: Path) -> NDArray[Any]:
    """Map an array of ours."""
    array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    return array.view(np.ndarray)
