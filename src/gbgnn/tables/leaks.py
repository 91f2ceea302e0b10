"""A warning where one column nearly gives the target: it may be the target under another name."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata
from sklearn.tree import DecisionTreeClassifier

from gbgnn.errors import GBGNNWarning
from gbgnn.tables.frames import list_names
from gbgnn.tables.table import NodeTable

MAX_ROWS, MAX_COLUMNS = 2000, 500
"""How much is looked at, so that looking is cheap."""

MIN_ROWS = 30
"""With fewer labelled nodes, a column may fit by chance."""

NEARLY = 0.999
_MAX_CLASSES = 20
_ROWS_PER_CATEGORY = 5


def warn_of_leak(features: Any, nodes: ArrayLike, y: ArrayLike, names: Any = None) -> list[str]:
    """Warn when a single column nearly gives the target of the training nodes; return such columns' names.

    Classes are to be told by as many intervals of the column, or by its categories; numbers, by their order.

    Parameters
    ----------
    features
        A :class:`NodeTable` or a dense matrix; ``names`` are those of the matrix's columns.
    nodes, y
        The training nodes, and their targets: one per node, or a column per output.

    Examples
    --------
    >>> table = NodeTable({"age": np.arange(40.0) % 7, "debt": 100 - np.arange(40.0)})
    >>> with warnings.catch_warnings(action="ignore"):
    ...     names = warn_of_leak(table, np.arange(40), np.arange(40.0))
    >>> names
    ['debt']
    """
    rows = np.asarray(nodes)
    targets = np.asarray(y).reshape(len(rows), -1)
    if len(rows) < MIN_ROWS:
        return []
    if len(rows) > MAX_ROWS:
        chosen = np.sort(np.random.default_rng(0).choice(len(rows), MAX_ROWS, replace=False))
        rows, targets = rows[chosen], targets[chosen]
    outputs = [_as_output(column) for column in targets.T[:_MAX_CLASSES]]
    found = [
        name
        for name, values, is_category in _columns(features, rows, names)
        if any(_gives(values, is_category, output) for output in outputs)
    ]
    if found:
        these = (
            f"columns {list_names(map(repr, found))} each give"
            if len(found) > 1
            else f"column {found[0]!r} gives"
        )
        warnings.warn(
            f"{these} nearly all of the target alone: the target under another name, or known only after it? "
            "Then leave it out.",
            GBGNNWarning,
            stacklevel=2,
        )
    return found


def _columns(features: Any, rows: NDArray[Any], names: Any) -> Iterator[tuple[str, NDArray[Any], bool]]:
    """Yield name, values (NaN where missing) and whether they are categories."""
    if isinstance(features, NodeTable):
        for column in features.columns[:MAX_COLUMNS]:
            part = column.rows(rows)
            values = np.where(part.is_missing, np.nan, part.values)
            yield column.name, values, column.kind in ("category", "text")
        return
    matrix = np.asarray(features[rows][:, :MAX_COLUMNS], np.float64)
    for i, values in enumerate(matrix.T):
        yield (f"x{i}" if names is None else str(names[i])), values, False


def _as_output(target: NDArray[Any]) -> NDArray[Any]:
    """Return classes as integers where there are few distinct values, else numbers."""
    distinct, codes = np.unique(target, return_inverse=True)
    return codes if len(distinct) <= _MAX_CLASSES else target.astype(np.float64)


def _gives(values: NDArray[Any], is_category: bool, output: NDArray[Any]) -> bool:
    """Say whether a column tells the output, its gaps left out."""
    present = ~np.isnan(values)
    if np.count_nonzero(present) < max(MIN_ROWS, len(values) // 2):
        return False
    values, output = values[present], output[present]
    if len(np.unique(output)) < 2 or len(np.unique(values)) < 2:
        return False
    if output.dtype.kind == "f":
        return not is_category and _rank_correlation(values, output) > NEARLY
    if is_category:
        return _tells_by_category(values, output)
    return _tells_by_interval(values, output)


def _rank_correlation(values: NDArray[Any], output: NDArray[Any]) -> float:
    return abs(float(np.corrcoef(rankdata(values), rankdata(output))[0, 1]))


def _tells_by_category(values: NDArray[Any], classes: NDArray[Any]) -> bool:
    _, codes = np.unique(values, return_inverse=True)
    counts = np.zeros((codes.max() + 1, classes.max() + 1))
    np.add.at(counts, (codes, classes), 1)
    totals = counts.sum(axis=0)
    is_small = len(counts) * _ROWS_PER_CATEGORY > len(values)
    told = np.where(counts == counts.max(axis=1, keepdims=True), counts, 0).sum(axis=0)
    return not is_small and float((told[totals > 0] / totals[totals > 0]).mean()) > NEARLY


def _tells_by_interval(values: NDArray[Any], classes: NDArray[Any]) -> bool:
    order = np.lexsort((classes, values))
    n_classes = len(np.unique(classes))
    n_changes = int(np.count_nonzero(np.diff(classes[order])))
    # A tree takes a millisecond, and most columns change class too often along their values for it to be due.
    if n_changes > n_classes - 1 + 2 * n_classes * np.ceil((1 - NEARLY) * len(values)):
        return False
    tree = DecisionTreeClassifier(max_leaf_nodes=n_classes, class_weight="balanced", random_state=0)
    told = tree.fit(values[:, None], classes).predict(values[:, None]) == classes
    return float(np.mean([told[classes == each].mean() for each in np.unique(classes)])) > NEARLY
