"""y as classes, as 0 and 1, or as numbers, an entry or a row per node; or what is wrong with it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import type_of_target

from gbgnn.errors import GraphError


def as_table(y: ArrayLike, name: str) -> NDArray[Any]:
    """Return an array of one or two dimensions without missing entries."""
    try:
        labels = np.asarray(y)
    except ValueError as error:
        raise GraphError(f"{name} is not an array: {error}.") from error
    if labels.ndim not in (1, 2):
        raise GraphError(f"{name} must have one entry or one row per node; got shape {labels.shape}.")
    if labels.dtype.kind == "f":
        missing = np.isnan(labels)
    elif labels.dtype.kind in "OmM":
        missing = np.array([label is None or label != label for label in labels.ravel().tolist()], bool)
    else:
        return labels
    if missing.any():
        positions = np.flatnonzero(missing.reshape(len(labels), -1).any(axis=1))
        raise GraphError(
            f"{name} has {len(positions)} missing labels (first: position {positions[0]}); "
            "train on the labelled nodes only."
        )
    return labels


def as_labels(y: ArrayLike, name: str) -> NDArray[Any]:
    """Return one class per node, shape (n,)."""
    labels = as_table(y, name)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise GraphError(f"{name} must have one class per node, shape (n,); got shape {labels.shape}.")
    if labels.dtype == object:
        labels = np.array(labels.tolist())  # strings in an object array become a string array
    if len(labels) and type_of_target(labels) not in ("binary", "multiclass"):
        raise GraphError(
            f"{name} must be classes; got continuous numbers such as {labels.tolist()[0]!r}. Bin them first."
        )
    return labels


def as_indicators(y: ArrayLike, name: str) -> NDArray[np.float64]:
    """Return a 0/1 matrix, a column per label."""
    table = as_table(y, name)
    if table.ndim != 2 or table.shape[1] == 0:
        raise GraphError(f"{name} must be a 0/1 matrix with a row per node; got shape {table.shape}.")
    if table.dtype.kind not in "biuf" or not np.isin(table, (0, 1)).all():
        raise GraphError(f"{name} must be a matrix of 0 and 1, a column per label; got other entries.")
    return table.astype(np.float64)


def as_numbers(y: ArrayLike, name: str) -> tuple[NDArray[np.float64], bool]:
    """Return finite numbers, shape (n, columns), and whether y was a vector."""
    table = as_table(y, name)
    if table.dtype.kind not in "biuf":
        raise GraphError(f"{name} must be numbers; got dtype {table.dtype}.")
    if not np.isfinite(table).all():
        raise GraphError(f"{name} must be finite numbers; got infinity.")
    is_flat = table.ndim == 1
    numbers = table.astype(np.float64)
    return (numbers[:, None] if is_flat else numbers), is_flat
