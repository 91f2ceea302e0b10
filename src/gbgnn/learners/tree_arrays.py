"""Decision trees as arrays: what all libraries' trees are, to check files and to write other formats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

LEAF = -1
"""The children of a leaf."""


@dataclass(frozen=True, eq=False)
class TreeArrays:
    """One binary tree, an entry per node, the root first; children come after their parents.

    A row goes left where its column ``feature`` is at most ``threshold``, or below it in a tree that
    ``is_strict``, and where a missing value is to go left. A leaf adds ``value`` to the output ``column``.
    ``gain`` is by how much a split made the training loss smaller, in its library's unit; None where a
    library does not tell.

    Examples
    --------
    >>> stump = TreeArrays(
    ...     feature=np.array([0, 0, 0]),
    ...     threshold=np.array([0.5, 0, 0]),
    ...     left=np.array([1, LEAF, LEAF]),
    ...     right=np.array([2, LEAF, LEAF]),
    ...     missing_left=np.array([True, False, False]),
    ...     value=np.array([0.0, -1.0, 1.0]),
    ... )
    >>> stump.check(n_features=1).predict(np.array([[0.0], [2.0], [np.nan]]))
    array([-1.,  1., -1.])
    """

    feature: NDArray[Any]
    threshold: NDArray[Any]
    left: NDArray[Any]
    right: NDArray[Any]
    missing_left: NDArray[Any]
    value: NDArray[Any]
    column: int = 0
    is_strict: bool = False
    has_categories: bool = False
    gain: NDArray[Any] | None = None

    def check(self, n_features: int) -> TreeArrays:
        """Return the tree, or raise ValueError where following it would leave the arrays, or never end."""
        check_children(self.left, self.right, self.feature, self.left == LEAF, n_features)
        gains = () if self.gain is None else (self.gain,)
        sizes = {len(each) for each in (self.threshold, self.missing_left, self.value, *gains)}
        if sizes != {len(self.left)}:
            raise ValueError("arrays of a tree have different lengths")
        return self

    def predict(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """Return the value of the leaf of every row; for trees without categories."""
        node = np.zeros(len(rows), dtype=np.int64)
        while (inner := self.left[node] != LEAF).any():
            at = node[inner]
            seen, threshold = rows[inner, self.feature[at]], self.threshold[at]
            goes_left = seen < threshold if self.is_strict else seen <= threshold
            goes_left = np.where(np.isnan(seen), self.missing_left[at], goes_left)
            node[inner] = np.where(goes_left, self.left[at], self.right[at])
        return np.asarray(self.value[node], dtype=np.float64)

    def gain_by_feature(self, n_features: int) -> NDArray[np.float64]:
        """Return the sum of the gains of the splits of each column; what is no number counts as nothing.

        Examples
        --------
        >>> leaf = {"threshold": np.zeros(1), "missing_left": np.zeros(1), "value": np.ones(1)}
        >>> nothing = np.array([LEAF])
        >>> lone = TreeArrays(feature=np.zeros(1, int), left=nothing, right=nothing, gain=np.ones(1), **leaf)
        >>> lone.gain_by_feature(2)
        array([0., 0.])
        """
        inner = self.left != LEAF
        gains = np.zeros(len(inner)) if self.gain is None else self.gain.astype(np.float64)
        known = np.where(np.isfinite(gains) & (gains > 0), gains, 0.0)[inner]
        sums = np.bincount(self.feature[inner].astype(np.int64), weights=known, minlength=n_features)
        return sums.astype(np.float64)


def check_children(
    left: NDArray[Any], right: NDArray[Any], feature: NDArray[Any], is_leaf: NDArray[Any], n_features: int
) -> None:
    """Raise ValueError unless nodes lead to later nodes, and look at columns that are there."""
    n_nodes = len(left)
    if n_nodes == 0 or {len(right), len(feature), len(is_leaf)} != {n_nodes}:
        raise ValueError("arrays of a tree are empty, or have different lengths")
    inner = np.flatnonzero(~is_leaf)
    for children in (left[inner].astype(np.int64), right[inner].astype(np.int64)):
        if (children <= inner).any() or (children >= n_nodes).any():
            raise ValueError("a node of a tree leads to no node after it")
    looked_at = feature[inner].astype(np.int64)
    if (looked_at < 0).any() or (looked_at >= n_features).any():
        raise ValueError(f"a tree looks at a column that is not among its {n_features}")
