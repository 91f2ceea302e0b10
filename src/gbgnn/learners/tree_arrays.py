"""Decision trees as arrays: what all libraries' trees are, to check files and to write other formats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

LEAF = -1
"""The children of a leaf."""


class CategorySet(NamedTuple):
    """Categories that go one way at a split, the ``known`` others the other way; None where all are known."""

    members: NDArray[Any]
    known: NDArray[Any] | None = None
    leads_left: bool = True


@dataclass(frozen=True, eq=False)
class TreeArrays:
    """One binary tree, an entry per node, the root first; children come after their parents.

    A row goes left where its column ``feature`` is at most ``threshold``, or below it in a tree that
    ``is_strict``, and where a missing value is to go left. A leaf adds ``value`` to the output ``column``.
    ``gain`` is by how much a split made the training loss smaller, in its library's unit; None where a
    library does not tell. ``cover`` is how much of the training came by a node, as its library counts.

    ``categories`` has the sets of the nodes that ask for categories; one that is not known is taken for
    missing.

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
    gain: NDArray[Any] | None = None
    cover: NDArray[Any] | None = None
    categories: Mapping[int, CategorySet] = field(default_factory=dict)

    @property
    def has_categories(self) -> bool:
        """Whether a split asks for categories."""
        return bool(self.categories)

    def check(self, n_features: int) -> TreeArrays:
        """Return the tree, or raise ValueError where following it would leave the arrays, or never end."""
        check_children(self.left, self.right, self.feature, self.left == LEAF, n_features)
        told = [each for each in (self.gain, self.cover) if each is not None]
        sizes = {len(each) for each in (self.threshold, self.missing_left, self.value, *told)}
        if sizes != {len(self.left)}:
            raise ValueError("arrays of a tree have different lengths")
        return self

    def predict(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """Return the value of the leaf of every row."""
        return np.asarray(self.value[self.find_leaves(rows)], dtype=np.float64)

    def find_leaves(self, rows: NDArray[Any]) -> NDArray[np.int64]:
        """Return the number of the leaf of every row."""
        node = np.zeros(len(rows), dtype=np.int64)
        while (inner := self.left[node] != LEAF).any():
            at = node[inner]
            goes_left = self._decide(rows[inner, self.feature[at]], at)
            node[inner] = np.where(goes_left, self.left[at], self.right[at])
        return node

    def goes_left(self, rows: NDArray[Any]) -> NDArray[np.bool_]:
        """Return where rows go from every node, shape (rows, nodes); of leaves it means nothing."""
        seen = rows[:, self.feature]
        return self._decide(seen, np.broadcast_to(np.arange(len(self.left)), seen.shape))

    def _decide(self, seen: NDArray[Any], node: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether values go left, each at a node."""
        threshold = self.threshold[node]
        result = seen < threshold if self.is_strict else seen <= threshold
        is_missing = np.isnan(seen)
        for i, asked in self.categories.items():
            here = node == i
            result[here] = np.isin(seen[here], asked.members) == asked.leads_left
            if asked.known is not None:
                is_missing[here] |= ~np.isin(seen[here], asked.known)
        return np.where(is_missing, self.missing_left[node], result)

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
