"""Matrices as users have them, dense or sparse, checked before anything trusts their indices."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from gbgnn._blocks import is_any, over_blocks, split_blocks, width_of
from gbgnn.errors import GraphError

Features: TypeAlias = "NDArray[np.floating[Any]] | sp.csr_array"


def as_adjacency(adjacency: Any, copy: bool) -> tuple[sp.csr_array, list[str]]:
    given = _as_matrix(adjacency, "adjacency")
    if len(given.shape) != 2 or given.shape[0] != given.shape[1]:
        raise GraphError(f"adjacency must be a square matrix; got shape {given.shape}.")
    if given.shape[0] == 0:
        raise GraphError("adjacency is 0 x 0; a graph needs at least one node.")
    if isinstance(given, np.ndarray):
        given = _parts(sp.csr_array(_converted(given, _float_dtype(given, "adjacency"))), "adjacency")
        copy = False  # nobody else knows these arrays
    matrix, summed, zeros, n_bad = _as_csr(given, "adjacency", copy, drop_zeros=True)
    if n_bad:
        row, column = _first_bad(matrix)
        raise GraphError(
            f"adjacency has {n_bad} NaN or infinite weights (first: edge {row} -> {column}); "
            "every weight must be finite."
        )
    mended = [f"summed {summed} repeated adjacency entries"] if summed else []
    return matrix, mended + ([f"dropped {zeros} explicit zero weights"] if zeros else [])


def as_features(features: Any, n_nodes: int, copy: bool) -> Features:
    given = _as_matrix(features, "features")
    if len(given.shape) != 2:
        raise GraphError(f"features must be a matrix with one row per node; got shape {given.shape}.")
    if given.shape[0] != n_nodes:
        raise GraphError(
            f"features has {given.shape[0]} rows but adjacency is {n_nodes} x {n_nodes}; "
            "both need one row per node."
        )
    if given.shape[1] == 0:
        raise GraphError("features has no columns; give each node at least one feature.")
    X: Any
    if isinstance(given, np.ndarray):
        X = _owned(given, _float_dtype(given, "features"), copy)
        n_bad = _count_bad(X)
    else:
        X, _, _, n_bad = _as_csr(given, "features", copy, drop_zeros=False)
    if n_bad:
        row, column = _first_bad(X)
        raise GraphError(
            f"features has {n_bad} NaN or infinite values (first: node {row}, column {column}); "
            "fill or drop them first."
        )
    return X


def as_node_ids(node_ids: Any, n_nodes: int, copy: bool) -> NDArray[Any]:
    if node_ids is None:
        return np.arange(n_nodes)
    ids = _as_array(node_ids, "node_ids")
    if ids.shape != (n_nodes,):
        raise GraphError(
            f"node_ids has shape {ids.shape} but the graph has {n_nodes} nodes; give one id per node."
        )
    if _is_repeating(ids):
        raise GraphError("node_ids holds repeated ids; each node needs a name of its own.")
    return _owned(ids, ids.dtype, copy)


def _is_repeating(ids: NDArray[Any]) -> bool:
    if ids.dtype.kind in "iu" and not is_any(lambda a, b: ids[a + 1 : b + 1] <= ids[a:b], len(ids) - 1):
        return False  # counted upwards, as most are: no need to sort
    try:
        return len(set(ids.tolist()) if ids.dtype == object else np.unique(ids)) < len(ids)
    except TypeError as error:
        raise GraphError(f"node_ids must be numbers or text: {error}.") from error


class _Parts(NamedTuple):
    """A sparse matrix as given, unchecked: nothing but these functions may look at it."""

    layout: str  # "csr", "csc" or "coo"
    shape: tuple[int, ...]
    data: NDArray[Any]
    indices: NDArray[Any]  # the columns; of CSC, the rows
    pointers: NDArray[Any]  # where each row, of CSC each column, begins; of COO, the rows


def _as_matrix(value: Any, name: str) -> NDArray[Any] | _Parts:
    """Return a matrix of any kind as a dense array or as unchecked parts, sharing memory if possible."""
    if isinstance(value, torch.Tensor):
        return _from_torch(value, name)
    if sp.issparse(value):
        return _parts(value, name)
    array = _as_array(value, name)
    _float_dtype(array, name, f"{type(value).__name__} of ")
    return array


def _as_array(values: Any, name: str) -> NDArray[Any]:
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


def _parts(matrix: Any, name: str) -> _Parts:
    """Return the arrays of a SciPy matrix, without calling any SciPy code that trusts indices."""
    if matrix.ndim != 2:
        empty = np.empty(0, np.float32)
        return _Parts("coo", matrix.shape, empty, empty, empty)  # the shape is refused before the rest
    layout = matrix.format
    if layout == "dia":
        return _from_diagonals(matrix.shape, _as_array(matrix.data, name), matrix.offsets, name)
    try:
        if layout == "lil":
            if [*map(len, matrix.rows)] != [*map(len, matrix.data)]:
                raise ValueError("the lists of columns and of values differ in length")
            matrix = matrix.tocsr()
        elif layout not in ("csr", "csc", "bsr"):
            matrix = matrix.tocoo()  # itself, when it is one
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        raise GraphError(f"{name} is not a sound {layout} matrix: {error}.") from error
    data = _as_array(matrix.data, name)
    if matrix.format == "coo":
        return _Parts("coo", matrix.shape, data, matrix.col, matrix.row)
    if matrix.format == "bsr":
        return _from_blocks("csr", matrix.shape, data, matrix.indices, matrix.indptr, name)
    return _Parts(matrix.format, matrix.shape, data, matrix.indices, matrix.indptr)


def _from_torch(tensor: torch.Tensor, name: str) -> NDArray[Any] | _Parts:
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
        return _from_blocks(layout, shape, data, indices, pointers, name)
    return _Parts(layout, shape, data, indices, pointers)


def _torch_values(tensor: torch.Tensor) -> NDArray[Any]:
    values = tensor.detach().cpu()
    if values.is_quantized:
        values = values.dequantize()
    if values.is_floating_point() and values.dtype not in (torch.float32, torch.float64):
        values = values.float()  # NumPy has no bfloat16
    array: NDArray[Any] = values.resolve_conj().resolve_neg().numpy()
    return array


def _from_blocks(
    layout: str,
    shape: tuple[int, ...],
    data: NDArray[Any],
    indices: NDArray[Any],
    pointers: NDArray[Any],
    name: str,
) -> _Parts:
    """Return the parts of a matrix that is stored in small dense blocks."""
    if data.ndim != 3 or len(shape) != 2 or shape[0] % data.shape[1] or shape[1] % data.shape[2]:
        raise GraphError(f"{name}: blocks of shape {data.shape} do not fill a matrix of shape {shape}.")
    blocks = data if layout == "csr" else data.transpose(0, 2, 1)
    size = shape if layout == "csr" else shape[::-1]
    n_rows, n_columns = size[0] // blocks.shape[1], size[1] // blocks.shape[2]
    indices, pointers = _as_index(indices, f"{name}: indices"), _as_index(pointers, f"{name}: indptr")
    n_given = _check_pointers(pointers, n_rows, indices, data, name)
    indices = indices[:n_given]
    _check_span(indices, n_columns, name, "block")
    floats = _converted(blocks[:n_given], _float_dtype(data, name))
    matrix = sp.bsr_array((floats, indices, pointers), shape=size).tocsr()
    return _Parts(layout, shape, matrix.data, matrix.indices, matrix.indptr)


def _from_diagonals(shape: tuple[int, ...], data: NDArray[Any], offsets: NDArray[Any], name: str) -> _Parts:
    """Return the parts of a matrix that is stored by diagonals, with NumPy: SciPy trusts the sizes."""
    _float_dtype(data, name)
    offsets = _as_index(offsets, f"{name}: offsets")
    if data.ndim != 2 or len(data) != len(offsets):
        raise GraphError(
            f"{name}: values of shape {data.shape} do not fit {len(offsets)} diagonals; give one row each."
        )
    data = data[:, : shape[1]]
    columns = np.broadcast_to(np.arange(data.shape[1]), data.shape)
    rows = columns - offsets[:, None].astype(np.int64)
    is_inside = (rows >= 0) & (rows < shape[0]) & (data != 0)
    index = np.int32 if max(shape) <= np.iinfo(np.int32).max else np.int64
    return _Parts(
        "coo", shape, data[is_inside], columns[is_inside].astype(index), rows[is_inside].astype(index)
    )


def _as_csr(given: _Parts, name: str, copy: bool, *, drop_zeros: bool) -> tuple[sp.csr_array, int, int, int]:
    """Return a canonical matrix; how many entries were summed, dropped as zeros, and are not finite.

    Indices come from outside, and SciPy's compiled loops read and write wherever they point: whatever is
    handed to SciPy below has been checked by then.
    """
    dtype = _float_dtype(given.data, name)
    words = ("indices", "indptr") if given.layout != "coo" else ("columns", "rows")
    arrays = (given.indices, given.pointers)
    indices, pointers = (_as_index(a, f"{name}: {word}") for a, word in zip(arrays, words, strict=True))
    if given.data.ndim != 1:
        raise GraphError(f"{name}: the stored values must be a flat array; got shape {given.data.shape}.")
    n_rows, n_columns = given.shape
    if given.layout == "csr":
        # SciPy keeps views of what it is given, so a part's own flag is what its owner could set.
        indptr = _owned(pointers, pointers.dtype, copy and pointers.flags.writeable)
        n_given = _check_pointers(indptr, n_rows, indices, given.data, name)
        indices = _owned(indices[:n_given], indices.dtype, copy and indices.flags.writeable)
        data = _owned(np.asarray(given.data[:n_given]), dtype, copy and given.data.flags.writeable)
    else:
        # Converted before SciPy sums entries given twice: two int8 of 100 would make -56.
        floats = given.data if given.data.dtype == dtype else _converted(given.data, dtype)
        if given.layout == "csc":
            n_given = _check_pointers(pointers, n_columns, indices, floats, name, "column")
            floats, indices = floats[:n_given], indices[:n_given]
            _check_span(indices, n_rows, name, "row")
            matrix = sp.csc_array((floats, indices, pointers), shape=given.shape).tocsr()
        else:
            n_given = len(floats)
            if not len(pointers) == len(indices) == n_given:
                raise GraphError(
                    f"{name} has {len(pointers)} rows, {len(indices)} columns and {n_given} values; "
                    "each entry needs one of each."
                )
            _check_span(pointers, n_rows, name, "row")
            _check_span(indices, n_columns, name)
            matrix = sp.coo_array((floats, (pointers, indices)), shape=given.shape).tocsr()
        data, indices, indptr = matrix.data, matrix.indices, matrix.indptr
    seen = _scan(data, indices, indptr)
    _check_bounds(seen.lowest, seen.highest, n_columns, name)
    summed, n_bad = n_given - len(data), seen.n_bad
    dropped = 0
    if not seen.is_canonical or (drop_zeros and seen.n_zeros):
        if indices.dtype != indptr.dtype:  # SciPy would mend a converted copy, not these
            indices, indptr = _converted(indices, np.int64), _converted(indptr, np.int64)
        data, indices, indptr = (
            each if each.flags.writeable else _converted(each, each.dtype) for each in (data, indices, indptr)
        )
        matrix = _assembled(data, indices, indptr, given.shape)
        matrix.sum_duplicates()
        summed = n_given - matrix.nnz
        if drop_zeros:
            matrix.eliminate_zeros()
            dropped = n_given - summed - matrix.nnz
        data, indices, indptr = matrix.data, matrix.indices, matrix.indptr
        n_bad = _count_bad(data)
    result = _assembled(data, indices, indptr, given.shape)
    result.has_canonical_format = True  # so that SciPy need not look again
    return result, summed, dropped, n_bad


def _assembled(
    data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any], shape: tuple[int, ...]
) -> sp.csr_array:
    """Return a matrix of these very arrays; SciPy's constructor would look through them and may convert."""
    matrix = sp.csr_array(shape, dtype=data.dtype)
    matrix.data, matrix.indices, matrix.indptr = data, indices, indptr
    return matrix


class _Scan(NamedTuple):
    lowest: int
    highest: int
    n_bad: int
    n_zeros: int
    is_canonical: bool


def _scan(data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any]) -> _Scan:
    """Look once at each entry of a CSR matrix whose row pointers are sound."""

    def look(start: int, stop: int) -> _Scan:
        columns, values = indices[start : stop + 1], data[start:stop]
        falls = columns[1:] <= columns[:-1]
        # Where a row begins, its first column may be smaller than the last of the row before.
        first, last = np.searchsorted(indptr, np.array([start, stop], indptr.dtype), side="right")
        begins = indptr[first:last] - (start + 1)
        falls[begins[: np.searchsorted(begins, len(falls))]] = False
        n_finite = np.count_nonzero(np.isfinite(values))
        return _Scan(
            int(columns.min()),
            int(columns.max()),
            len(values) - int(n_finite),
            int(np.count_nonzero(values == 0)),
            not falls.any(),
        )

    steps = over_blocks(look, len(data)) or [_Scan(0, -1, 0, 0, True)]
    lowest, highest, n_bad, n_zeros, is_canonical = zip(*steps, strict=True)
    return _Scan(min(lowest), max(highest), sum(n_bad), sum(n_zeros), all(is_canonical))


def _as_index(array: Any, what: str) -> NDArray[Any]:
    """Return indices as int32 or int64, themselves when they are that already."""
    indices = np.asarray(array)
    if indices.ndim != 1:
        raise GraphError(f"{what} must be a flat array; got shape {indices.shape}.")
    if indices.dtype.kind not in "iu" and len(indices):
        raise GraphError(f"{what} must be whole numbers; got dtype {indices.dtype}.")
    if indices.dtype in (np.dtype(np.int32), np.dtype(np.int64)):
        return indices
    return _converted(indices, np.int64)


def _check_pointers(
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


def _check_span(indices: NDArray[Any], n: int, name: str, unit: str = "column") -> None:
    def span(start: int, stop: int) -> tuple[int, int]:
        return int(indices[start:stop].min()), int(indices[start:stop].max())

    lowest, highest = zip(*over_blocks(span, len(indices)) or [(0, -1)], strict=True)
    _check_bounds(min(lowest), max(highest), n, name, unit)


def _check_bounds(lowest: int, highest: int, n: int, name: str, unit: str = "column") -> None:
    if lowest >= 0 and highest < n:
        return
    hint = ""
    if highest == n:
        hint = " Ids are counted from 0" + ("; yours look counted from 1: subtract 1." if lowest > 0 else ".")
    raise GraphError(
        f"{name} holds {unit} {lowest if lowest < 0 else highest}, but it has {n} {unit}s "
        f"(0 to {n - 1}).{hint}"
    )


def _float_dtype(array: NDArray[Any], name: str, owner: str = "") -> np.dtype[Any]:
    """Return the dtype, float32 or float64, in which a graph keeps such numbers."""
    kind, size = array.dtype.kind, array.dtype.itemsize
    if kind == "c":
        raise GraphError(
            f"{name} must be real; got complex {'weights' if name == 'adjacency' else 'numbers'}."
        )
    if kind not in "biuf":
        raise GraphError(f"{name} must be numbers; got {owner}dtype {array.dtype}.")
    return np.dtype(np.float64 if kind == "f" and size >= 8 else np.float32)


def _owned(array: NDArray[Any], dtype: np.dtype[Any], copy: bool) -> NDArray[Any]:
    """Return the array in a dtype: read-only and shared where that is safe or wished, else a copy."""
    if array.dtype != dtype or (copy and not _is_frozen(array)):
        return _converted(array, dtype)
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


def _converted(array: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """Return a copy in another dtype, made on all cores."""
    given = np.asarray(array)
    result = np.empty_like(given, dtype=dtype)

    def convert(start: int, stop: int) -> None:
        with np.errstate(over="ignore", invalid="ignore"):  # what becomes infinite is refused later
            np.copyto(result[start:stop], given[start:stop], casting="unsafe")

    over_blocks(convert, len(given), width=width_of(given))
    return result


def _count_bad(values: NDArray[Any]) -> int:
    """Return how many values are NaN or infinite, without a temporary of their size."""
    plain = np.asarray(values)

    def count(start: int, stop: int) -> int:
        block = plain[start:stop]
        return int(block.size - np.count_nonzero(np.isfinite(block)))

    return sum(over_blocks(count, len(plain), width=width_of(plain)))


def _first_bad(matrix: Any) -> tuple[int, int]:
    """Return row and column of the first value that is NaN or infinite."""
    values = matrix.data if sp.issparse(matrix) else np.asarray(matrix)
    steps = split_blocks(len(values), width_of(values))
    start, stop = next((a, b) for a, b in steps if not np.isfinite(values[a:b]).all())
    first, *column = np.argwhere(~np.isfinite(values[start:stop]))[0] + [start, 0][: values.ndim]
    if column:
        return int(first), int(column[0])
    return int(np.searchsorted(matrix.indptr, first, side="right")) - 1, int(matrix.indices[first])
