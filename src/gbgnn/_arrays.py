"""Arrays of any size: passes over them by blocks, on all cores; and who may write."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from gbgnn._threads import LARGE, map_threads

T = TypeVar("T")

# Entries looked at in one step: what a step makes on the way stays in a core's own cache.
_BLOCK = 1 << 18
# Fewer steps than this are done before a second thread has started.
_FEW_BLOCKS = 8


def over_blocks(work: Callable[[int, int], T], array: NDArray[Any]) -> list[T]:
    """Return ``work(start, stop)`` for blocks of an array's rows, if many on as many threads as torch's."""
    steps = split_blocks(array)
    return map_threads(lambda step: work(*step), steps, LARGE if len(steps) >= _FEW_BLOCKS else 0)


def split_blocks(array: NDArray[Any]) -> list[tuple[int, int]]:
    """Return the rows at which the blocks of an array start and stop."""
    n = len(array)
    size = max(1, _BLOCK // max(array.size // max(n, 1), 1))
    return [(start, min(start + size, n)) for start in range(0, n, size)]


def convert(array: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """Return a copy in another dtype, made on all cores."""
    given = np.asarray(array)
    result = np.empty_like(given, dtype=dtype)

    def copy(start: int, stop: int) -> None:
        with np.errstate(over="ignore", invalid="ignore"):  # what becomes infinite is refused later
            np.copyto(result[start:stop], given[start:stop], casting="unsafe")

    over_blocks(copy, given)
    return result


def count_nonfinite(values: NDArray[Any]) -> int:
    """Return how many values are NaN or infinite, without a temporary of their size."""
    plain = np.asarray(values)

    def count(start: int, stop: int) -> int:
        block = plain[start:stop]
        n_nonfinite = int(block.size - np.count_nonzero(np.isfinite(block)))
        release(block)
        return n_nonfinite

    return sum(over_blocks(count, plain))


def constant(value: float, size: int, dtype: Any) -> NDArray[Any]:
    """Return a read-only array that holds one value everywhere and takes no memory for it."""
    return np.broadcast_to(np.asarray(value, dtype), (size,))


def are_all(values: NDArray[Any], value: float) -> bool:
    """Whether a flat array holds nothing but a value; one of :func:`constant` is not gone through."""
    if values.strides == (0,):
        values = values[:1]
    for start, stop in split_blocks(values):
        block = values[start:stop]
        is_other = bool((block != value).any())
        release(block)
        if is_other:
            return False
    return True


def is_rising(values: NDArray[Any]) -> bool:
    """Whether every value of a flat array is larger than the one before it."""
    return all(not (block[1:] <= block[:-1]).any() for _, block in _overlapping(values))


def find_fall(values: NDArray[Any]) -> int | None:
    """Return the place of the first value of a flat array that is larger than the next; None without any."""
    for start, block in _overlapping(values):
        falls = block[1:] < block[:-1]
        if falls.any():
            return start + int(np.argmax(falls))
    return None


def _overlapping(values: NDArray[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield where blocks begin, and the blocks, each with the first value of the next."""
    for start, stop in split_blocks(values):
        yield start, values[start : stop + 1]
        release(values)


class Scan(NamedTuple):
    """What one pass over the entries of a CSR matrix finds."""

    lowest: int
    highest: int
    n_nonfinite: int
    n_zeros: int
    is_canonical: bool


def scan_entries(data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any]) -> Scan:
    """Look once at each entry of a CSR matrix whose row pointers are sound."""

    def look(start: int, stop: int) -> Scan:
        columns, values = indices[start : stop + 1], data[start:stop]
        falls = columns[1:] <= columns[:-1]
        # Where a row begins, its first column may be smaller than the last of the row before.
        first, last = np.searchsorted(indptr, np.array([start, stop], indptr.dtype), side="right")
        begins = indptr[first:last] - (start + 1)
        falls[begins[: np.searchsorted(begins, len(falls))]] = False
        n_nonfinite = len(values) - int(np.count_nonzero(np.isfinite(values)))
        n_zeros = int(np.count_nonzero(values == 0))
        found = Scan(int(columns.min()), int(columns.max()), n_nonfinite, n_zeros, not falls.any())
        release(columns, values)
        return found

    steps = over_blocks(look, data) or [Scan(0, -1, 0, 0, True)]
    lowest, highest, n_nonfinite, n_zeros, is_canonical = zip(*steps, strict=True)
    return Scan(min(lowest), max(highest), sum(n_nonfinite), sum(n_zeros), all(is_canonical))


class Ends(NamedTuple):
    """What one pass over the entries of a square CSR matrix finds: self loops, and who has neighbours."""

    n_loops: int
    has_neighbour: NDArray[np.bool_]


def scan_ends(indices: NDArray[Any], indptr: NDArray[Any]) -> Ends:
    """Return how many entries are on the diagonal, and which rows or columns have others."""
    n_loops, touched = 0, np.zeros(len(indptr) - 1, bool)
    for start, stop in split_blocks(indices[: int(indptr[-1])]):
        first = int(np.searchsorted(indptr, start, side="right")) - 1
        last = int(np.searchsorted(indptr, stop, side="left"))
        counts = np.diff(np.clip(indptr[first : last + 1], start, stop))
        rows, columns = np.repeat(np.arange(first, last), counts), indices[start:stop]
        is_proper = rows != columns
        n_loops += int(len(rows) - np.count_nonzero(is_proper))
        touched[rows[is_proper]] = True
        touched[columns[is_proper]] = True
        release(columns)
    release(indptr)
    return Ends(n_loops, touched)


def own(array: NDArray[Any], dtype: np.dtype[Any], copy: bool) -> NDArray[Any]:
    """Return the array in a dtype: read-only and shared where that is safe or wished, else a copy."""
    if array.dtype != dtype or (copy and not _is_frozen(array)):
        return convert(array, dtype)
    if array.flags.writeable:
        array = array.view()  # the caller's own array stays writable
        array.flags.writeable = False
    return array


def release(*arrays: Any) -> None:
    """Let go of the pages in memory of arrays that are mapped from files: they are read again when needed.

    Others stay as they are. Pages of a mapped file count as memory of the process for as long as nobody else
    wants the room, which no limit may wait for.
    """
    for array in arrays:
        base = array
        while isinstance(base, np.ndarray):
            base = base.base
        if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):  # not on Windows
            base.madvise(mmap.MADV_DONTNEED)


def freeze(array: Any) -> None:
    """Make an array of ours read-only, with those that it is a view of; one that is shared is so already."""
    while isinstance(array, np.ndarray) and array.flags.writeable:
        array.flags.writeable = False
        array = array.base


def _is_frozen(array: Any) -> bool:
    """Whether nobody can write to an array, not through the arrays that it is a view of either."""
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return False
        array = array.base
    try:
        return array is None or memoryview(array).readonly
    except TypeError:  # an owner that shows no buffer: the array's own flag is all there is
        return True
