"""What is to be predicted: classes or numbers, which of the two and why, and marks for nodes without."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gbgnn._checks import check_choice
from gbgnn.errors import DataError

CLASSIFICATION, REGRESSION = "classification", "regression"
TASKS = (CLASSIFICATION, REGRESSION)
_FEW = 20  # so many different whole numbers are classes, however few the nodes
_N_STRATA = 10


@dataclass(frozen=True, eq=False)
class Target:
    """What is known of every node: ``values``, whether they are classes or numbers, and a sentence why.

    Classes are integers, -1 where there is no label, or text, ``""`` for that; numbers are float64, NaN for
    that.
    """

    values: NDArray[Any]
    task: str
    reason: str


def as_target(
    values: ArrayLike,
    where: str = "y",
    task: str | None = None,
    called: str = "y",
    seen: NDArray[np.bool_] | None = None,
) -> Target:
    """Return the target of a column; where ``task`` does not say it, find out what it is.

    Errors name the column by ``where``, the reason of the task by what it is ``called``.

    Text and truth values are classes. Whole numbers are classes if there are few of them: at most 20, or the
    square root of the number of labelled nodes. Numbers with fractions are a regression target.

    ``seen`` marks the nodes that train or validate where that is known: what is to be predicted is then found
    out from their values alone, so that no test label can change it.

    Examples
    --------
    >>> as_target([0.5, 1.5, float("nan")]).reason
    'y has 2 different numbers, not all whole: regression'
    >>> as_target([0, 1, 1, 0]).task, as_target([0, 1, 1, 0], task="regression").values.tolist()
    ('classification', [0.0, 1.0, 1.0, 0.0])
    """
    if task is not None:
        check_choice(where, "task", task, TASKS)
        chosen = as_numbers(values, where) if task == REGRESSION else as_labels(values, where)
        return Target(chosen, task, f"{called} is a {task} target, as asked for")
    array = _flat(values, where)
    if array.dtype.kind not in "iuf":
        labels = as_labels(array, where)
        n = len(np.unique(labels[is_labelled(labels)]))
        return Target(labels, CLASSIFICATION, f"{called} has {n:,} different labels: classification")
    is_known = np.isfinite(array) & (array != -1)  # the mark of classes; among numbers, one value
    distinct = np.unique(array[is_known if seen is None else is_known & seen])
    n, is_whole = len(distinct), bool((distinct == np.round(distinct)).all())
    told = f"{called} has {n:,} different {'whole numbers' if is_whole else 'numbers, not all whole'}"
    told += "" if seen is None else f"{',' if not is_whole else ''} in training and validation"
    if not is_whole or n > max(_FEW, math.sqrt(is_known.sum())):
        return Target(as_numbers(array, where), REGRESSION, f"{told}: regression")
    return Target(as_labels(array, where), CLASSIFICATION, f"{told}: classification")


def as_typed_target(values: ArrayLike, where: str = "y", task: str | None = None) -> Target:
    """Return the target of an array whose type was chosen in code: integers are classes, however many.

    Examples
    --------
    >>> as_target(np.arange(100)).task, as_typed_target(np.arange(100)).task
    ('regression', 'classification')
    """
    array = np.asarray(values)
    if task is not None or array.dtype.kind not in "iu":
        return as_target(array, where, task)
    labels = as_labels(array, where)
    n = len(np.unique(labels[is_labelled(labels)]))
    return Target(labels, CLASSIFICATION, f"y has {n:,} different integers: classification")


def no_label(y: NDArray[Any]) -> Any:
    """Return the mark of nodes without a label, as such labels have it."""
    return {"U": "", "f": np.nan}.get(y.dtype.kind, -1)


def is_labelled(y: NDArray[Any]) -> NDArray[np.bool_]:
    """Return a mask of the nodes that have a label."""
    return np.asarray(~np.isnan(y) if y.dtype.kind == "f" else y != no_label(y))


def as_numbers(values: ArrayLike, where: str = "y") -> NDArray[np.float64]:
    """Return one number per node, NaN for "no label"; infinite ones and text are an error."""
    array = _flat(values, where)
    if array.dtype.kind not in "iufb":
        raise DataError(
            f"{where} holds text ({str(array[0])!r}, ...), and a regression target is a number per node."
        )
    numbers = array.astype(np.float64)
    infinite = np.flatnonzero(np.isinf(numbers))
    if len(infinite):
        raise DataError(
            f"{where} holds {numbers[infinite[0]]} at node {infinite[0]}; numbers must be finite."
        )
    return numbers


def as_labels(values: ArrayLike, where: str = "y") -> NDArray[Any]:
    """Return one label per node as a flat integer array, -1 for "no label", or text, ``""`` for that.

    Whole-numbered floats become integers, NaN among them -1; None among strings becomes ``""``.
    """
    array = _flat(values, where)
    if array.dtype.kind == "f":
        whole = np.where(np.isnan(array), -1, array)
        bad = np.flatnonzero(~np.isfinite(whole) | (whole != np.round(whole)))
        if len(bad):
            raise DataError(
                f"{where} holds {array[bad[0]]} at node {bad[0]}; classes must be whole numbers or strings; "
                'numbers are predicted by task="regression" (--task regression).'
            )
        array = whole.astype(np.int64)
    if array.dtype.kind == "U":
        return array
    if array.dtype.kind not in "iub":
        raise DataError(
            f"{where} must hold integers or strings, one class per node; got dtype {array.dtype}."
        )
    array = array.astype(np.int64)
    if np.array_equal(np.unique(array), [-1, 1]):
        raise DataError(
            f"{where} holds only -1 and 1, and -1 means 'no label' here; "
            "name the classes 0 and 1, or use strings."
        )
    return array


def as_strata(y: ArrayLike) -> NDArray[Any]:
    """Return the labels by which a split is stratified: classes, or tenths of numbers by their size.

    Examples
    --------
    >>> as_strata([0.3, float("nan"), 0.1]).tolist()
    [0, -1, 0]
    """
    array = _flat(y, "y")
    target = as_target(array, task=None if array.dtype.kind == "f" else CLASSIFICATION)
    if target.task == CLASSIFICATION:
        return target.values
    strata = np.full(len(target.values), -1)
    known = np.flatnonzero(is_labelled(target.values))
    ranks = np.empty(len(known), np.int64)
    ranks[np.argsort(target.values[known], kind="stable")] = np.arange(len(known))
    n_strata = min(_N_STRATA, max(1, len(known) // _N_STRATA))
    strata[known] = ranks * n_strata // max(1, len(known))
    return strata


def _flat(values: ArrayLike, where: str) -> NDArray[Any]:
    """Return a value per node, objects as numbers or text."""
    array = np.asarray(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise DataError(f"{where} must hold one label per node, shape (n,); got shape {array.shape}.")
    if array.dtype.kind == "O":
        is_text = all(value is None or isinstance(value, str) for value in array)
        try:  # None becomes NaN among numbers
            return np.array([label or "" for label in array], str) if is_text else array.astype(float)
        except (TypeError, ValueError):
            kinds = sorted({type(value).__name__ for value in array if value is not None})
            raise DataError(f"{where} mixes labels of types {', '.join(kinds)}; use one kind.") from None
    return array
