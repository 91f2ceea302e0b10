"""Arrays of any size: passes over them by blocks, on all cores; checks of indices; and who may write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from gbgnn._threads import LARGE, map_threads
from gbgnn.errors import GraphError

T = TypeVar("T")

# Entries looked at in one step: what a step makes on the way stays in a core's own cache.
_BLOCK = 1 << 18
# Fewer steps than this are done before a second thread has started.
_FEW_BLOCKS = 8


def over_blocks(work: Callable[[int, int], T], n: int, *, width: int = 1) -> list[T]:
    """Return ``work(start, stop)`` for consecutive stretches of ``n`` rows of so many numbers.

    Large work is spread over as many threads as torch may use; NumPy lets them run at the same time.
    """
    steps = split_blocks(n, width)
    return map_threads(lambda step: work(*step), steps, LARGE if len(steps) >= _FEW_BLOCKS else 0)


def split_blocks(n: int, width: int = 1) -> list[tuple[int, int]]:
    """Return where the blocks of ``n`` rows of ``width`` numbers start and stop."""
    size = max(1, _BLOCK // max(width, 1))
    return [(start, min(start + size, n)) for start in range(0, n, size)]


def row_width(array: NDArray[Any]) -> int:
    """Return how many numbers a row of an array holds."""
    return array.size // max(len(array), 1)


def convert(array: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """Return a copy in another dtype, made on all cores."""
    given = np.asarray(array)
    result = np.empty_like(given, dtype=dtype)

    def copy(start: int, stop: int) -> None:
        with np.errstate(over="ignore", invalid="ignore"):  # what becomes infinite is refused later
            np.copyto(result[start:stop], given[start:stop], casting="unsafe")

    over_blocks(copy, len(given), width=row_width(given))
    return result


def count_nonfinite(values: NDArray[Any]) -> int:
    """Return how many values are NaN or infinite, without a temporary of their size."""
    plain = np.asarray(values)

    def count(start: int, stop: int) -> int:
        block = plain[start:stop]
        return int(block.size - np.count_nonzero(np.isfinite(block)))

    return sum(over_blocks(count, len(plain), width=row_width(plain)))


def as_array(values: Any, name: str) -> NDArray[Any]:
    """Return values as an array; a mapped one keeps its type, which tells others that it is on disk."""
    if np.ma.is_masked(values):
        n_masked = int(np.ma.getmaskarray(values).sum())
        raise GraphError(f"{name} has {n_masked} masked values; fill or drop them first.")
    try:
        return values if type(values) is np.memmap else np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:  # rows of unequal length, arrays on a device
        kind = "a list" if name == "node_ids" else "a matrix"
        raise GraphError(f"{name} is not {kind}: {error}.") from error


def float_dtype(array: NDArray[Any], name: str, owner: str = "") -> np.dtype[Any]:
    """Return the dtype, float32 or float64, in which a graph keeps such numbers."""
    kind, size = array.dtype.kind, array.dtype.itemsize
    if kind == "c":
        raise GraphError(
            f"{name} must be real; got complex {'weights' if name == 'adjacency' else 'numbers'}."
        )
    if kind not in "biuf":
        raise GraphError(f"{name} must be numbers; got {owner}dtype {array.dtype}.")
    return np.dtype(np.float64 if kind == "f" and size >= 8 else np.float32)


def as_index(array: Any, what: str) -> NDArray[Any]:
    """Return indices as int32 or int64, themselves when they are that already."""
    indices = np.asarray(array)
    if indices.ndim != 1:
        raise GraphError(f"{what} must be a flat array; got shape {indices.shape}.")
    if indices.dtype.kind not in "iu" and len(indices):
        raise GraphError(f"{what} must be whole numbers; got dtype {indices.dtype}.")
    if indices.dtype in (np.dtype(np.int32), np.dtype(np.int64)):
        return indices
    return convert(indices, np.int64)


def check_pointers(
    indptr: NDArray[Any], n: int, indices: NDArray[Any], data: NDArray[Any], name: str, unit: str = "row"
) -> int:
    """Return how many entries a compressed matrix has, or say what is wrong with its pointers."""
    if len(indices) != len(data):
        raise GraphError(
            f"{name} has {len(indices)} indices but {len(data)} values; each entry needs one of each."
        )
    if len(indptr) != n + 1:
        raise GraphError(
            f"{name}: indptr has {len(indptr)} entries for {n} {unit}s; it needs one more than there are "
            f"{unit}s."
        )
    if indptr[0] != 0:
        raise GraphError(f"{name}: indptr starts at {indptr[0]}; the {unit} pointers must start at 0.")
    falls = indptr[1:] < indptr[:-1]
    if falls.any():
        where = int(np.argmax(falls))
        raise GraphError(
            f"{name}: indptr falls from {indptr[where]} to {indptr[where + 1]} at {unit} {where}; the {unit} "
            "pointers must never fall."
        )
    if indptr[-1] > len(indices):
        raise GraphError(
            f"{name}: indptr ends at {indptr[-1]}, but {len(indices)} entries are stored; the last {unit} "
            "pointer is the number of entries."
        )
    return int(indptr[-1])


def check_span(indices: NDArray[Any], n: int, name: str, unit: str = "column") -> None:
    """Raise unless all indices are from 0 to ``n`` - 1."""
    if len(indices):
        check_bounds(int(indices.min()), int(indices.max()), n, name, unit)


def check_bounds(lowest: int, highest: int, n: int, name: str, unit: str = "column") -> None:
    """Raise unless the lowest and the highest index are from 0 to ``n`` - 1."""
    if lowest >= 0 and highest < n:
        return
    hint = ""
    if highest == n:
        hint = " Ids are counted from 0" + ("; yours look counted from 1: subtract 1." if lowest > 0 else ".")
    raise GraphError(
        f"{name} holds {unit} {lowest if lowest < 0 else highest}, but it has {n} {unit}s "
        f"(0 to {n - 1}).{hint}"
    )


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
        return Scan(int(columns.min()), int(columns.max()), n_nonfinite, n_zeros, not falls.any())

    steps = over_blocks(look, len(data)) or [Scan(0, -1, 0, 0, True)]
    lowest, highest, n_nonfinite, n_zeros, is_canonical = zip(*steps, strict=True)
    return Scan(min(lowest), max(highest), sum(n_nonfinite), sum(n_zeros), all(is_canonical))


def own(array: NDArray[Any], dtype: np.dtype[Any], copy: bool) -> NDArray[Any]:
    """Return the array in a dtype: read-only and shared where that is safe or wished, else a copy."""
    if array.dtype != dtype or (copy and not _is_frozen(array)):
        return convert(array, dtype)
    if array.flags.writeable:
        array = array.view()  # the caller's own array stays writable
        array.flags.writeable = False
    return array


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
