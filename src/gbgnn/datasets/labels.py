"""Class labels as they arrive, and which nodes have none."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gbgnn.errors import DataError


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
