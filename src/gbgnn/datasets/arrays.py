"""Ids, edges and labels as they arrive, checked and made into arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from gbgnn.errors import DataError


class NodeIndex:
    """Looks up rows by the user's ids: integers or strings, no gaps, no repeats.

    ``where`` is the file or object they came from, for messages.
    """

    def __init__(self, ids: NDArray[Any], where: str) -> None:
        self.ids = _whole(ids, where)
        self.where = where
        self._order = np.argsort(self.ids, kind="stable")
        ranked = self.ids[self._order]
        repeats = np.flatnonzero(ranked[1:] == ranked[:-1])
        if len(repeats):
            first, second = self._order[repeats[0]], self._order[repeats[0] + 1]
            raise DataError(
                f"{where}: id {ranked[repeats[0]].item()!r} stands in data rows {first + 1} and "
                f"{second + 1}; each node needs a row of its own ({len(repeats)} repeated ids)."
            )

    def rows(self, values: NDArray[Any], where: str) -> NDArray[np.int64]:
        """Return the row of each id, or say which id is unknown."""
        ids, wanted = self.ids, _whole(values, where) if len(values) else values.astype(self.ids.dtype)
        order = self._order
        if (ids.dtype.kind == "U") != (wanted.dtype.kind == "U"):
            # One file may hold only number-like ids, the other also words.
            ids, wanted = ids.astype(np.str_), wanted.astype(np.str_)
            order = np.argsort(ids, kind="stable")
        place = np.searchsorted(ids, wanted, sorter=order)
        rows = order[np.minimum(place, len(ids) - 1)]
        unknown = np.flatnonzero(ids[rows] != wanted)
        if len(unknown):
            raise DataError(
                f"{where}: data row {unknown[0] + 1} names node {wanted[unknown[0]].item()!r}, which is "
                f"not an id in {self.where} ({len(unknown)} such rows)."
            )
        return rows


def _whole(ids: NDArray[Any], where: str) -> NDArray[Any]:
    """Return ids as integers or text; a gap or a fraction is an error."""
    gaps = np.flatnonzero(ids == "" if ids.dtype.kind == "U" else np.isnan(ids))
    if len(gaps):
        raise DataError(f"{where}: data row {gaps[0] + 1} has no id ({len(gaps)} such rows).")
    if ids.dtype.kind != "f":
        return ids
    if not np.array_equal(ids, np.round(ids)):
        bad = np.flatnonzero(ids != np.round(ids))[0]
        raise DataError(f"{where}: data row {bad + 1} has id {ids[bad]}; ids are whole numbers or text.")
    return ids.astype(np.int64)


def build_adjacency(
    sources: NDArray[Any],
    targets: NDArray[Any],
    n_nodes: int,
    *,
    weights: NDArray[Any] | None = None,
    directed: bool = False,
) -> tuple[sp.csr_array, list[str]]:
    """Return the adjacency matrix of an edge list, and what was mended on the way.

    An edge lets its target aggregate from its source: ``adjacency[target, source]``. Self loops are dropped.
    Edges given more than once become one edge, their weights summed. Undirected lists may name an edge
    in either direction or both; a list that holds *every* edge both ways with equal weights means each
    pair as one edge.
    """
    proper = sources != targets
    n_given = int(np.count_nonzero(proper))
    values = np.ones(n_given, np.float32) if weights is None else _as_floats(weights[proper])
    pairs = (targets[proper], sources[proper])
    matrix = sp.coo_array((values, pairs), shape=(n_nodes, n_nodes)).tocsr()
    matrix.sum_duplicates()
    if weights is None:
        matrix.data[:] = 1
    n_kept = matrix.nnz
    if not directed and (matrix != matrix.T.tocsr()).nnz:
        mirrored = matrix.T.tocsr()
        # For weights, a line and its reverse are two contributions to one edge.
        matrix = matrix.maximum(mirrored) if weights is None else (matrix + mirrored).tocsr()
        n_kept = matrix.nnz // 2
    mended = []
    if n_given < len(sources):
        mended.append(f"dropped {len(sources) - n_given} self loops")
    if n_kept < n_given:
        summed = "" if weights is None else ", weights summed"
        mended.append(f"merged {n_given - n_kept} repeated edges{summed}")
    return matrix, mended


def _as_floats(weights: NDArray[Any]) -> NDArray[Any]:
    return weights if weights.dtype.kind == "f" else weights.astype(np.float32)


def as_labels(values: ArrayLike, where: str = "y") -> NDArray[Any]:
    """Return one label per node as a flat integer or text array.

    Integers keep -1 for "no label". Whole-numbered floats become integers and NaN among them becomes
    -1. None among strings becomes ``""``, the text for "no label".
    """
    array = np.asarray(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise DataError(f"{where} must hold one label per node, shape (n,); got shape {array.shape}.")
    if array.dtype.kind == "O":
        array = _from_objects(array, where)
    if array.dtype.kind == "f":
        array = _from_floats(array, where)
    if array.dtype.kind not in "iubU":
        raise DataError(
            f"{where} must hold integers or strings, one class per node; got dtype {array.dtype}."
        )
    if array.dtype.kind == "U":
        return array
    array = array.astype(np.int64)
    if np.array_equal(np.unique(array), [-1, 1]):
        raise DataError(
            f"{where} holds only -1 and 1, and -1 means 'no label' here; "
            "name the classes 0 and 1, or use strings."
        )
    return array


def is_labelled(y: NDArray[Any]) -> NDArray[np.bool_]:
    """Return a mask of the nodes that have a label."""
    mask: NDArray[np.bool_] = y != ("" if y.dtype.kind == "U" else -1)
    return mask


def _from_objects(array: NDArray[Any], where: str) -> NDArray[Any]:
    missing = np.array([value is None for value in array], dtype=bool)
    present = array[~missing]
    if all(isinstance(value, str) for value in present):
        return np.array(["" if value is None else value for value in array], dtype=np.str_)
    try:
        return np.array([np.nan if value is None else value for value in array], dtype=np.float64)
    except (TypeError, ValueError):
        kinds = sorted({type(value).__name__ for value in present})
        raise DataError(f"{where} mixes labels of types {', '.join(kinds)}; use one kind.") from None


def _from_floats(array: NDArray[Any], where: str) -> NDArray[Any]:
    missing = np.isnan(array)
    whole = np.where(missing, -1, array)
    bad = np.flatnonzero(~np.isfinite(whole) | (whole != np.round(whole)))
    if len(bad):
        raise DataError(
            f"{where} holds {array[bad[0]]} at node {bad[0]}; classes must be whole numbers or strings."
        )
    return whole.astype(np.int64)
