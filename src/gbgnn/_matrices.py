"""The matrices and ids of a graph, in whatever form its user has them: checked, canonical and read-only."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from gbgnn._arrays import convert, count_nonfinite, find_fall, own, scan_entries, split_blocks
from gbgnn._ids import are_distinct
from gbgnn.errors import GraphError

Features: TypeAlias = "NDArray[np.floating[Any]] | sp.csr_array"


def as_adjacency(adjacency: Any, copy: bool, name: str = "adjacency") -> tuple[sp.csr_array, list[str]]:
    """Return a square matrix in canonical form without zeros, and what was mended, as sentences."""
    given = _as_matrix(adjacency, name)
    if len(given.shape) != 2 or given.shape[0] != given.shape[1]:
        raise GraphError(f"{name} must be a square matrix; got shape {given.shape}.")
    if given.shape[0] == 0:
        raise GraphError(f"{name} is 0 x 0; a graph needs at least one node.")
    if isinstance(given, np.ndarray):
        given = _split_scipy(sp.csr_array(convert(given, float_dtype(given, name))), name)
        copy = False  # nobody else knows these arrays
    matrix, summed, zeros, n_nonfinite = _as_csr(given, name, copy, drop_zeros=True)
    if n_nonfinite:
        row, column = _first_nonfinite(matrix)
        raise GraphError(
            f"{name} has {n_nonfinite} NaN or infinite weights (first: edge {row} -> {column}); "
            "every weight must be finite."
        )
    mended = [f"summed {summed} repeated {name} entries"] if summed else []
    return matrix, mended + ([f"dropped {zeros} explicit zero weights"] if zeros else [])


def as_features(features: Any, n_nodes: int, copy: bool) -> Features:
    """Return finite features of ``n_nodes`` nodes, dense or in canonical form."""
    given = _as_matrix(features, "features")
    if len(given.shape) != 2:
        raise GraphError(f"features must be a matrix with one row per node; got shape {given.shape}.")
    check_rows(given.shape[0], n_nodes)
    if given.shape[1] == 0:
        raise GraphError("features has no columns; give each node at least one feature.")
    X: Any
    if isinstance(given, np.ndarray):
        X = own(given, float_dtype(given, "features"), copy)
        n_nonfinite = count_nonfinite(X)
    else:
        X, _, _, n_nonfinite = _as_csr(given, "features", copy, drop_zeros=False)
    if n_nonfinite:
        row, column = _first_nonfinite(X)
        raise GraphError(
            f"features has {n_nonfinite} NaN or infinite values (first: node {row}, column {column}); "
            "fill or drop them first."
        )
    return X


def as_csr(matrix: Any, name: str) -> sp.csr_array:
    """Return anything that SciPy can read as a CSR array, its values as they are.

    Indices are looked at before any compiled code follows them.
    """
    if not sp.issparse(matrix):
        return sp.csr_array(matrix)
    parts = _split_scipy(matrix, name)
    if matrix.format != "csr" or len(parts.shape) != 2:
        return _as_csr(parts, name, copy=False, drop_zeros=False)[0]
    indices, indptr = as_index(parts.indices, f"{name}: indices"), as_index(parts.pointers, f"{name}: indptr")
    n_given = check_pointers(indptr, parts.shape[0], indices, parts.data, name)
    check_span(indices[:n_given], parts.shape[1], name)
    return sp.csr_array(matrix)


def csr_of_parts(
    parts: tuple[Any, Any, Any], shape: Any, name: str, *, look_at_indices: bool = True
) -> sp.csr_array:
    """Return the matrix of data, indices and row pointers of whatever types, checked before SciPy sees them.

    SciPy's own check takes differences of pointers in their type, in which they may overflow.
    """
    data, *places = map(np.asarray, parts)
    indices, indptr = (
        as_index(p, f"{name}: {word}") for p, word in zip(places, ("indices", "indptr"), strict=True)
    )
    float_dtype(data, name)
    n_rows, n_columns = map(int, shape)
    if data.ndim != 1 or min(n_rows, n_columns) < 0:
        raise GraphError(
            f"{name} has values of shape {data.shape} for a matrix of shape {(n_rows, n_columns)}."
        )
    n_given = check_pointers(indptr, n_rows, indices, data, name)
    if look_at_indices:
        check_span(indices[:n_given], n_columns, name)
    indices = indices[:n_given]
    if indices.dtype != indptr.dtype and n_given <= np.iinfo(indices.dtype).max:
        # SciPy expects one type of both, and pointers are fewer. Of more entries than pointers in the type of
        # indices could count, these would take twice the memory: they stay as they are.
        indptr = convert(indptr, indices.dtype)
    return _assemble(data[:n_given], indices, indptr, (n_rows, n_columns))


def check_rows(n_rows: int, n_nodes: int) -> None:
    """Raise unless features have as many rows as there are nodes."""
    if n_rows != n_nodes:
        raise GraphError(
            f"features has {n_rows} rows but adjacency is {n_nodes} x {n_nodes}; both need one row per node."
        )


def normalize_rows(X: Features) -> Any:
    """Return features with every row scaled to an absolute sum of one; zero rows stay zero."""
    totals: NDArray[Any] = np.asarray(abs(X).sum(axis=1)).ravel()
    scale = np.divide(1, totals, out=np.zeros_like(totals), where=totals > 0)
    return sp.diags_array(scale) @ X if sp.issparse(X) else X * scale[:, None]


def as_feature_names(names: Any, n_features: int) -> tuple[str, ...]:
    """Return distinct names of feature columns."""
    given = [names] if isinstance(names, str) else list(names)
    if len(given) != n_features:
        raise GraphError(f"feature_names has {len(given)} names for {n_features} feature columns.")
    odd = next((name for name in given if not isinstance(name, str) or not name), None)
    if odd is not None:
        raise GraphError(f"feature_names holds {odd!r}; a name is text.")
    if len(set(given)) < n_features:
        repeated = next(name for i, name in enumerate(given) if name in given[:i])
        raise GraphError(f"feature_names holds {repeated!r} twice; each column needs a name of its own.")
    return tuple(map(str, given))


def as_node_ids(node_ids: Any, n_nodes: int, copy: bool) -> NDArray[Any]:
    """Return distinct ids of ``n_nodes`` nodes; None is row numbers."""
    if node_ids is None:
        return np.arange(n_nodes)
    ids = as_array(node_ids, "node_ids")
    if ids.shape != (n_nodes,):
        raise GraphError(
            f"node_ids has shape {ids.shape} but the graph has {n_nodes} nodes; give one id per node."
        )
    if not are_distinct(ids):
        raise GraphError("node_ids holds repeated ids; each node needs a name of its own.")
    return own(ids, ids.dtype, copy)


def _as_csr(
    given: SparseParts, name: str, copy: bool, *, drop_zeros: bool
) -> tuple[sp.csr_array, int, int, int]:
    """Return a canonical matrix; how many entries were summed, dropped as zeros, and are not finite.

    Indices come from outside, and SciPy's compiled loops read and write wherever they point: whatever is
    handed to SciPy below has been checked by then.
    """
    dtype = float_dtype(given.data, name)
    words = ("indices", "indptr") if given.layout != "coo" else ("columns", "rows")
    arrays = (given.indices, given.pointers)
    indices, pointers = (as_index(a, f"{name}: {word}") for a, word in zip(arrays, words, strict=True))
    if given.data.ndim != 1:
        raise GraphError(f"{name}: the stored values must be a flat array; got shape {given.data.shape}.")
    n_rows, n_columns = given.shape
    if given.layout == "csr":
        # SciPy keeps views of what it is given, so a part's own flag is what its owner could set.
        indptr = own(pointers, pointers.dtype, copy and pointers.flags.writeable)
        n_given = check_pointers(indptr, n_rows, indices, given.data, name)
        indices = own(indices[:n_given], indices.dtype, copy and indices.flags.writeable)
        data = own(np.asarray(given.data[:n_given]), dtype, copy and given.data.flags.writeable)
    else:
        # Converted before SciPy sums entries given twice: two int8 of 100 would make -56.
        floats = given.data if given.data.dtype == dtype else convert(given.data, dtype)
        if given.layout == "csc":
            n_given = check_pointers(pointers, n_columns, indices, floats, name, "column")
            floats, indices = floats[:n_given], indices[:n_given]
            check_span(indices, n_rows, name, "row")
            matrix = sp.csc_array((floats, indices, pointers), shape=given.shape).tocsr()
        else:
            n_given = len(floats)
            if not len(pointers) == len(indices) == n_given:
                raise GraphError(
                    f"{name} has {len(pointers)} rows, {len(indices)} columns and {n_given} values; "
                    "each entry needs one of each."
                )
            check_span(pointers, n_rows, name, "row")
            check_span(indices, n_columns, name)
            matrix = sp.coo_array((floats, (pointers, indices)), shape=given.shape).tocsr()
        data, indices, indptr = matrix.data, matrix.indices, matrix.indptr
    seen = scan_entries(data, indices, indptr)
    check_bounds(seen.lowest, seen.highest, n_columns, name)
    matrix = _assemble(data, indices, indptr, given.shape)
    summed, dropped, n_nonfinite = n_given - len(data), 0, seen.n_nonfinite
    if not seen.is_canonical or (drop_zeros and seen.n_zeros):
        if indices.dtype != indptr.dtype:  # SciPy would mend a converted copy, not these
            indices, indptr = convert(indices, np.int64), convert(indptr, np.int64)
        data, indices, indptr = (
            each if each.flags.writeable else convert(each, each.dtype) for each in (data, indices, indptr)
        )
        matrix = _assemble(data, indices, indptr, given.shape)
        matrix.sum_duplicates()
        summed = n_given - matrix.nnz
        if drop_zeros:
            matrix.eliminate_zeros()
            dropped = n_given - summed - matrix.nnz
        n_nonfinite = count_nonfinite(matrix.data)
    matrix.has_canonical_format = True  # so that SciPy need not look again
    return matrix, summed, dropped, n_nonfinite


def _assemble(
    data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any], shape: tuple[int, ...]
) -> sp.csr_array:
    """Return a matrix of these very arrays; SciPy's constructor would look through them and may convert."""
    matrix = sp.csr_array(shape, dtype=data.dtype)
    matrix.data, matrix.indices, matrix.indptr = data, indices, indptr
    return matrix


def _first_nonfinite(matrix: Any) -> tuple[int, int]:
    """Return row and column of the first value that is NaN or infinite."""
    values = matrix.data if sp.issparse(matrix) else np.asarray(matrix)
    start, stop = next((a, b) for a, b in split_blocks(values) if not np.isfinite(values[a:b]).all())
    first, *column = np.argwhere(~np.isfinite(values[start:stop]))[0] + [start, 0][: values.ndim]
    if column:
        return int(first), int(column[0])
    return int(np.searchsorted(matrix.indptr, first, side="right")) - 1, int(matrix.indices[first])


class SparseParts(NamedTuple):
    """A sparse matrix as given, unchecked: nothing but these functions may look at it."""

    layout: str  # "csr", "csc" or "coo"
    shape: tuple[int, ...]
    data: NDArray[Any]
    indices: NDArray[Any]  # the columns; of CSC, the rows
    pointers: NDArray[Any]  # where each row, of CSC each column, begins; of COO, the rows


def _as_matrix(value: Any, name: str) -> NDArray[Any] | SparseParts:
    """Return a matrix of any kind as a dense array or as unchecked parts, sharing memory if possible."""
    if isinstance(value, torch.Tensor):
        return _split_torch(value, name)
    if sp.issparse(value):
        return _split_scipy(value, name)
    array = as_array(value, name)
    float_dtype(array, name, f"{type(value).__name__} of ")
    return array


def _split_scipy(matrix: Any, name: str) -> SparseParts:
    """Return the arrays of a SciPy matrix, without calling any SciPy code that trusts indices."""
    if matrix.ndim != 2:
        empty = np.empty(0, np.float32)
        return SparseParts("coo", matrix.shape, empty, empty, empty)  # the shape is refused before the rest
    layout = matrix.format
    if layout == "dia":
        return _split_diagonals(matrix, name)
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
        return _split_blocks(SparseParts("csr", matrix.shape, data, matrix.indices, matrix.indptr), name)
    return SparseParts(matrix.format, matrix.shape, data, matrix.indices, matrix.indptr)


def _split_torch(tensor: torch.Tensor, name: str) -> NDArray[Any] | SparseParts:
    if tensor.is_meta:
        raise GraphError(f"{name} is a meta tensor, which has a shape but no values; give a real one.")
    try:
        with torch.no_grad():
            if tensor.layout == torch.sparse_coo:
                layout, where, values = "coo", tuple(tensor._indices()), tensor._values()
            elif tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
                layout, where, values = "csr", (tensor.crow_indices(), tensor.col_indices()), tensor.values()
            elif tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
                layout, where, values = "csc", (tensor.ccol_indices(), tensor.row_indices()), tensor.values()
            else:
                return _torch_values(tensor.to_dense())
            data = _torch_values(values)
            pointers, indices = (each.detach().cpu().numpy() for each in where)
    except (ValueError, TypeError, RuntimeError) as error:
        raise GraphError(f"{name} is a torch tensor that NumPy cannot read: {error}.") from error
    parts = SparseParts(layout, tuple(tensor.shape), data, indices, pointers)
    return _split_blocks(parts, name) if tensor.layout in (torch.sparse_bsr, torch.sparse_bsc) else parts


def _torch_values(tensor: torch.Tensor) -> NDArray[Any]:
    values = tensor.detach().cpu()
    if values.is_quantized:
        values = values.dequantize()
    if values.is_floating_point() and values.dtype not in (torch.float32, torch.float64):
        values = values.float()  # NumPy has no bfloat16
    array: NDArray[Any] = values.resolve_conj().resolve_neg().numpy()
    return array


def _split_blocks(given: SparseParts, name: str) -> SparseParts:
    """Return the entries of a matrix whose values are small dense blocks."""
    layout, shape, data, indices, pointers = given
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


def _split_diagonals(matrix: Any, name: str) -> SparseParts:
    """Return the entries of a matrix that is stored by diagonals, with NumPy: SciPy trusts the sizes."""
    shape, data = matrix.shape, as_array(matrix.data, name)
    float_dtype(data, name)
    offsets = as_index(matrix.offsets, f"{name}: offsets")
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
    where = find_fall(indptr)
    if where is not None:
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
