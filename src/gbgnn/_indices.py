"""Index arrays of sparse matrices, checked before any compiled loop reads and writes where they point."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gbgnn._blocks import convert, is_any, over_blocks
from gbgnn.errors import GraphError


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
    indptr: NDArray[Any],
    n: int,
    indices: NDArray[Any],
    data: NDArray[Any],
    name: str,
    unit: str = "row",
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
    if is_any(lambda a, b: indptr[a + 1 : b + 1] < indptr[a:b], n):
        where = int(np.flatnonzero(indptr[1:] < indptr[:-1])[0])
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

    def span(start: int, stop: int) -> tuple[int, int]:
        return int(indices[start:stop].min()), int(indices[start:stop].max())

    lowest, highest = zip(*over_blocks(span, len(indices)) or [(0, -1)], strict=True)
    check_bounds(min(lowest), max(highest), n, name, unit)


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
        n_finite = np.count_nonzero(np.isfinite(values))
        return Scan(
            int(columns.min()),
            int(columns.max()),
            len(values) - int(n_finite),
            int(np.count_nonzero(values == 0)),
            not falls.any(),
        )

    steps = over_blocks(look, len(data)) or [Scan(0, -1, 0, 0, True)]
    lowest, highest, n_nonfinite, n_zeros, is_canonical = zip(*steps, strict=True)
    return Scan(min(lowest), max(highest), sum(n_nonfinite), sum(n_zeros), all(is_canonical))
