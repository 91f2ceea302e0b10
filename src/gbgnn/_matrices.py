"""The matrices and ids of a graph, as its user has them: checked, in canonical form and read-only."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gbgnn._blocks import convert, count_nonfinite, is_any, row_width, split_blocks
from gbgnn._layouts import (
    SparseParts,
    as_array,
    as_index,
    as_matrix,
    check_bounds,
    check_pointers,
    check_span,
    float_dtype,
    scan_entries,
    split_scipy,
)
from gbgnn.errors import GraphError

Features: TypeAlias = "NDArray[np.floating[Any]] | sp.csr_array"


def as_adjacency(adjacency: Any, copy: bool, name: str = "adjacency") -> tuple[sp.csr_array, list[str]]:
    """Return a square matrix in canonical form without zeros, and what was mended, as sentences."""
    given = as_matrix(adjacency, name)
    if len(given.shape) != 2 or given.shape[0] != given.shape[1]:
        raise GraphError(f"{name} must be a square matrix; got shape {given.shape}.")
    if given.shape[0] == 0:
        raise GraphError(f"{name} is 0 x 0; a graph needs at least one node.")
    if isinstance(given, np.ndarray):
        given = split_scipy(sp.csr_array(convert(given, float_dtype(given, name))), name)
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
    given = as_matrix(features, "features")
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
        X = _own(given, float_dtype(given, "features"), copy)
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


def as_node_ids(node_ids: Any, n_nodes: int, copy: bool) -> NDArray[Any]:
    """Return distinct ids of ``n_nodes`` nodes; None is row numbers."""
    if node_ids is None:
        return np.arange(n_nodes)
    ids = as_array(node_ids, "node_ids")
    if ids.shape != (n_nodes,):
        raise GraphError(
            f"node_ids has shape {ids.shape} but the graph has {n_nodes} nodes; give one id per node."
        )
    if _is_repeating(ids):
        raise GraphError("node_ids holds repeated ids; each node needs a name of its own.")
    return _own(ids, ids.dtype, copy)


def _is_repeating(ids: NDArray[Any]) -> bool:
    if ids.dtype.kind in "iu" and not is_any(lambda a, b: ids[a + 1 : b + 1] <= ids[a:b], len(ids) - 1):
        return False  # counted upwards, as most are: no need to sort
    try:
        return len(set(ids.tolist()) if ids.dtype == object else np.unique(ids)) < len(ids)
    except TypeError as error:
        raise GraphError(f"node_ids must be numbers or text: {error}.") from error


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
        indptr = _own(pointers, pointers.dtype, copy and pointers.flags.writeable)
        n_given = check_pointers(indptr, n_rows, indices, given.data, name)
        indices = _own(indices[:n_given], indices.dtype, copy and indices.flags.writeable)
        data = _own(np.asarray(given.data[:n_given]), dtype, copy and given.data.flags.writeable)
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
    summed, n_nonfinite = n_given - len(data), seen.n_nonfinite
    dropped = 0
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
        data, indices, indptr = matrix.data, matrix.indices, matrix.indptr
        n_nonfinite = count_nonfinite(data)
    result = _assemble(data, indices, indptr, given.shape)
    result.has_canonical_format = True  # so that SciPy need not look again
    return result, summed, dropped, n_nonfinite


def _assemble(
    data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any], shape: tuple[int, ...]
) -> sp.csr_array:
    """Return a matrix of these very arrays; SciPy's constructor would look through them and may convert."""
    matrix = sp.csr_array(shape, dtype=data.dtype)
    matrix.data, matrix.indices, matrix.indptr = data, indices, indptr
    return matrix


def _own(array: NDArray[Any], dtype: np.dtype[Any], copy: bool) -> NDArray[Any]:
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


def _first_nonfinite(matrix: Any) -> tuple[int, int]:
    """Return row and column of the first value that is NaN or infinite."""
    values = matrix.data if sp.issparse(matrix) else np.asarray(matrix)
    steps = split_blocks(len(values), row_width(values))
    start, stop = next((a, b) for a, b in steps if not np.isfinite(values[a:b]).all())
    first, *column = np.argwhere(~np.isfinite(values[start:stop]))[0] + [start, 0][: values.ndim]
    if column:
        return int(first), int(column[0])
    return int(np.searchsorted(matrix.indptr, first, side="right")) - 1, int(matrix.indices[first])
