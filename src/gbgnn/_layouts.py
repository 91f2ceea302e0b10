"""Matrices of NumPy, SciPy and torch in any layout: as a dense array, or as the parts of a sparse matrix."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from gbgnn._blocks import convert, is_any, over_blocks
from gbgnn.errors import GraphError


class SparseParts(NamedTuple):
    """A sparse matrix as given, unchecked: nothing but these functions may look at it."""

    layout: str  # "csr", "csc" or "coo"
    shape: tuple[int, ...]
    data: NDArray[Any]
    indices: NDArray[Any]  # the columns; of CSC, the rows
    pointers: NDArray[Any]  # where each row, of CSC each column, begins; of COO, the rows


def as_matrix(value: Any, name: str) -> NDArray[Any] | SparseParts:
    """Return a matrix of any kind as a dense array or as unchecked parts, sharing memory if possible."""
    if isinstance(value, torch.Tensor):
        return _split_torch(value, name)
    if sp.issparse(value):
        return split_scipy(value, name)
    array = as_array(value, name)
    float_dtype(array, name, f"{type(value).__name__} of ")
    return array


def as_array(values: Any, name: str) -> NDArray[Any]:
    if np.ma.is_masked(values):
        n_masked = int(np.ma.getmaskarray(values).sum())
        raise GraphError(f"{name} has {n_masked} masked values; fill or drop them first.")
    try:
        # A mapped array keeps its type, which tells others that it is on disk.
        return values if type(values) is np.memmap else np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:  # rows of unequal length, arrays on a device
        raise GraphError(
            f"{name} is not {'a list' if name == 'node_ids' else 'a matrix'}: {error}."
        ) from error


def split_scipy(matrix: Any, name: str) -> SparseParts:
    """Return the arrays of a SciPy matrix, without calling any SciPy code that trusts indices."""
    if matrix.ndim != 2:
        empty = np.empty(0, np.float32)
        return SparseParts("coo", matrix.shape, empty, empty, empty)  # the shape is refused before the rest
    layout = matrix.format
    if layout == "dia":
        return _split_diagonals(matrix.shape, as_array(matrix.data, name), matrix.offsets, name)
    try:
        if layout == "lil":
            if [*map(len, matrix.rows)] != [*map(len, matrix.data)]:
                raise ValueError("the lists of columns and of values differ in length")
            matrix = matrix.tocsr()
        elif layout not in ("csr", "csc", "bsr"):
            matrix = matrix.tocoo()  # itself, when it is one
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        raise GraphError(f"{name} is not a sound {layout} matrix: {error}.") from error
    data = as_array(matrix.data, name)
    if matrix.format == "coo":
        return SparseParts("coo", matrix.shape, data, matrix.col, matrix.row)
    if matrix.format == "bsr":
        return _split_blocks("csr", matrix.shape, data, matrix.indices, matrix.indptr, name)
    return SparseParts(matrix.format, matrix.shape, data, matrix.indices, matrix.indptr)


def _split_torch(tensor: torch.Tensor, name: str) -> NDArray[Any] | SparseParts:
    if tensor.is_meta:
        raise GraphError(f"{name} is a meta tensor, which has a shape but no values; give a real one.")
    try:
        shape = tuple(tensor.shape)
        with torch.no_grad():
            if tensor.layout == torch.strided:
                return _torch_values(tensor)
            if tensor.layout == torch.sparse_coo:
                where, values = tuple(tensor._indices()), tensor._values()
            elif tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
                where, values = (tensor.crow_indices(), tensor.col_indices()), tensor.values()
            elif tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
                where, values = (tensor.ccol_indices(), tensor.row_indices()), tensor.values()
            else:
                return _torch_values(tensor.to_dense())
            data = _torch_values(values)
            pointers, indices = (each.detach().cpu().numpy() for each in where)
    except (ValueError, TypeError, RuntimeError) as error:
        raise GraphError(f"{name} is a torch tensor that NumPy cannot read: {error}.") from error
    by_rows = {torch.sparse_coo: "coo", torch.sparse_csr: "csr", torch.sparse_bsr: "csr"}
    layout = by_rows.get(tensor.layout, "csc")
    if tensor.layout in (torch.sparse_bsr, torch.sparse_bsc):
        return _split_blocks(layout, shape, data, indices, pointers, name)
    return SparseParts(layout, shape, data, indices, pointers)


def _torch_values(tensor: torch.Tensor) -> NDArray[Any]:
    values = tensor.detach().cpu()
    if values.is_quantized:
        values = values.dequantize()
    if values.is_floating_point() and values.dtype not in (torch.float32, torch.float64):
        values = values.float()  # NumPy has no bfloat16
    array: NDArray[Any] = values.resolve_conj().resolve_neg().numpy()
    return array


def _split_blocks(
    layout: str,
    shape: tuple[int, ...],
    data: NDArray[Any],
    indices: NDArray[Any],
    pointers: NDArray[Any],
    name: str,
) -> SparseParts:
    """Return the parts of a matrix that is stored in small dense blocks."""
    if data.ndim != 3 or len(shape) != 2 or shape[0] % data.shape[1] or shape[1] % data.shape[2]:
        raise GraphError(f"{name}: blocks of shape {data.shape} do not fill a matrix of shape {shape}.")
    blocks = data if layout == "csr" else data.transpose(0, 2, 1)
    size = shape if layout == "csr" else shape[::-1]
    n_rows, n_columns = size[0] // blocks.shape[1], size[1] // blocks.shape[2]
    indices, pointers = as_index(indices, f"{name}: indices"), as_index(pointers, f"{name}: indptr")
    n_given = check_pointers(pointers, n_rows, indices, data, name)
    indices = indices[:n_given]
    check_span(indices, n_columns, name, "block")
    floats = convert(blocks[:n_given], float_dtype(data, name))
    matrix = sp.bsr_array((floats, indices, pointers), shape=size).tocsr()
    return SparseParts(layout, shape, matrix.data, matrix.indices, matrix.indptr)


def _split_diagonals(
    shape: tuple[int, ...], data: NDArray[Any], offsets: NDArray[Any], name: str
) -> SparseParts:
    """Return the parts of a matrix that is stored by diagonals, with NumPy: SciPy trusts the sizes."""
    float_dtype(data, name)
    offsets = as_index(offsets, f"{name}: offsets")
    if data.ndim != 2 or len(data) != len(offsets):
        raise GraphError(
            f"{name}: values of shape {data.shape} do not fit {len(offsets)} diagonals; give one row each."
        )
    data = data[:, : shape[1]]
    columns = np.broadcast_to(np.arange(data.shape[1]), data.shape)
    rows = columns - offsets[:, None].astype(np.int64)
    is_inside = (rows >= 0) & (rows < shape[0]) & (data != 0)
    index = np.int32 if max(shape) <= np.iinfo(np.int32).max else np.int64
    return SparseParts(
        "coo", shape, data[is_inside], columns[is_inside].astype(index), rows[is_inside].astype(index)
    )


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
