"""Forest: extremely randomised trees, each grown to the end by itself, beside boosted ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from typing import Any, Self

import numpy as np

from gbgnn.learners.tree_arrays import LEAF, TreeArrays
from gbgnn.learners.tree_libraries.base import Array, Growth, TreeData, TreeModel

SCALES = (2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0)
"""What the share of a class may be multiplied with to be a logit; validation rows choose."""

USUAL_SCALE = 6.0
"""Where there are no validation rows."""

_HEADER = 3  # of numbers: features, columns, trees; how many nodes each tree has comes after them


@dataclass(frozen=True, eq=False)
class Forest(TreeModel):
    """Trees of scikit-learn's ExtraTreesRegressor, as arrays: the nodes of all, one tree after another.

    They are grown on numbers, or on who is of which class. Outputs are the mean number; the share of each
    class times a scale, of two classes the difference of the shares. That is no logit, but it is a sum over
    trees, as those of boosted trees are, and probabilities by it are as good as by logarithms of shares. A
    missing value is less than all others.
    """

    library = "forest"
    extra = "trees"

    nodes: Array
    sizes: Array
    n_features: int

    @classmethod
    def load_library(cls) -> Any:
        """Return the module, which is always there."""
        return import_module("sklearn.ensemble")

    @property
    def n_columns(self) -> int:  # type: ignore[override]
        """One for numbers and for two classes, else one per class."""
        return int(self.nodes["value"].shape[1])

    @classmethod
    def fit(cls, data: TreeData, growth: Growth) -> Self:
        """Grow the trees; rows are not drawn, and no tree stops early."""
        rows, lowest = data.rows.astype(np.float32), _below(data.rows)
        forest = cls.load_library().ExtraTreesRegressor(
            n_estimators=growth.n_trees,
            min_samples_leaf=growth.min_leaf,
            max_features=growth.column_share,
            random_state=growth.seed % 2**32,
            n_jobs=growth.n_threads,
        )
        forest.fit(np.where(np.isnan(rows), lowest, rows), _as_numbers(data), sample_weight=data.weights)
        trees = [_read_nodes(each.tree_, growth.n_trees) for each in forest.estimators_]
        grown = cls(np.concatenate(trees), np.array([len(tree) for tree in trees]), rows.shape[1])
        return grown if data.n_classes is None else grown._times(grown._choose_scale(data))

    def _times(self, scale: float) -> Self:
        """Return the forest with all outputs times a number."""
        nodes = self.nodes.copy()
        nodes["value"] *= scale
        return replace(self, nodes=nodes)

    def _choose_scale(self, data: TreeData) -> float:
        """Return by how much shares are multiplied where the loss of the validation rows is smallest."""
        if data.validation is None:
            return USUAL_SCALE
        rows, targets = data.validation
        shares = self.predict(rows, 1)
        if shares.shape[1] == 1:  # of two classes, of which the logit of the first is zero
            shares = np.hstack([np.zeros_like(shares), shares])
        found = [_log_loss(scale * shares, targets) for scale in SCALES]
        return SCALES[int(np.argmin(found))]

    def predict(self, rows: Array, n_threads: int) -> Array:
        """Return the sums over all trees."""
        rows, output = rows.astype(np.float32), np.zeros((len(rows), self.n_columns))
        for tree, value in zip(self._structures, self._values, strict=True):
            output += value[tree.find_leaves(rows)]
        return output

    def to_bytes(self) -> bytes:
        """Return a few whole numbers, then the nodes."""
        header = np.array([self.n_features, self.n_columns, len(self.sizes), *self.sizes], dtype="<i8")
        return header.tobytes() + self.nodes.tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read the nodes; whatever leads out of them is a ValueError."""
        n_features, n_columns, n_trees = np.frombuffer(data, dtype="<i8", count=_HEADER).tolist()
        if not (n_features > 0 and n_columns > 0 and 0 < n_trees < len(data)):
            raise ValueError(f"a forest has no {n_features} features, {n_columns} columns, {n_trees} trees")
        sizes = np.frombuffer(data, dtype="<i8", count=n_trees, offset=8 * _HEADER)
        if n_columns >= len(data) or sizes.min() <= 0 or sizes.max() >= len(data):
            raise ValueError("the trees of a forest have more nodes than are there")
        nodes = np.frombuffer(data, dtype=_node_type(n_columns), offset=8 * (_HEADER + n_trees))
        is_known = np.isfinite(nodes["value"]).all() and np.isfinite(nodes["cover"]).all()
        if len(nodes) != sizes.sum() or not is_known or nodes["cover"].min() < 0:
            raise ValueError("the nodes of a forest are others than it says")
        loaded = cls(nodes, sizes, n_features)
        for tree in loaded._structures:
            tree.check(n_features)
        return loaded

    def trees(self) -> tuple[Sequence[TreeArrays], Array]:
        """Return every tree once for each column, and zeros: nothing is added to their sum."""
        trees = [
            replace(tree, value=value[:, column], column=column)
            for tree, value in zip(self._structures, self._values, strict=True)
            for column in range(self.n_columns)
        ]
        return trees, np.zeros(self.n_columns)

    def importances(self) -> Array:
        """Return the gains of all splits of each column, by how much impurity they took away."""
        total = np.zeros(self.n_features)
        for tree in self._structures:
            total += tree.gain_by_feature(self.n_features)
        return total

    @cached_property
    def _structures(self) -> list[TreeArrays]:
        """The trees, once each."""
        return [_as_arrays(nodes) for nodes in self._split()]

    @cached_property
    def _values(self) -> list[Array]:
        """What the nodes of each tree add to all columns."""
        return [nodes["value"].astype(np.float64) for nodes in self._split()]

    def _split(self) -> list[Array]:
        return np.split(self.nodes, np.cumsum(self.sizes)[:-1])


_FIELDS = {"left": "<i4", "right": "<i4", "feature": "<i4", "threshold": "<f4", "gain": "<f4", "cover": "<f4"}


def _node_type(n_columns: int) -> np.dtype[Any]:
    return np.dtype([*_FIELDS.items(), ("value", "<f4", (n_columns,))])


def _as_arrays(nodes: Array) -> TreeArrays:
    """Return a tree with what its nodes add to the first column."""
    return TreeArrays(
        feature=nodes["feature"],
        threshold=nodes["threshold"],
        left=nodes["left"],
        right=nodes["right"],
        missing_left=np.ones(len(nodes), dtype=bool),
        value=nodes["value"][:, 0].astype(np.float64),
        gain=nodes["gain"],
        cover=nodes["cover"].astype(np.float64),
    )


def _read_nodes(tree: Any, n_trees: int) -> Array:
    """Return the nodes of a tree of scikit-learn, whose values are its part of the mean of so many."""
    values = tree.value[:, :, 0]
    nodes = np.zeros(tree.node_count, dtype=_node_type(values.shape[1]))
    nodes["left"], nodes["right"] = tree.children_left, tree.children_right
    inner = nodes["left"] != LEAF
    nodes["feature"][inner] = tree.feature[inner]
    nodes["threshold"][inner] = _round_down(tree.threshold[inner])  # rows have no numbers in between
    impurity = tree.impurity * tree.weighted_n_node_samples
    gone = impurity[inner] - impurity[nodes["left"][inner]] - impurity[nodes["right"][inner]]
    nodes["gain"][inner] = gone / n_trees
    nodes["cover"] = tree.weighted_n_node_samples
    nodes["value"] = np.where(inner[:, None], 0.0, values / n_trees)
    return nodes


def _round_down(numbers: Array) -> Array:
    """Return the largest single-precision number that is no more than each."""
    rounded = numbers.astype(np.float32)
    return np.where(rounded > numbers, np.nextafter(rounded, np.float32(-np.inf)), rounded)


def _below(rows: Array) -> Array:
    """Return for every column a number below all that it holds."""
    lowest: Array = np.nan_to_num(rows, nan=0.0).min(axis=0)
    return (lowest - np.abs(lowest) - 1.0).astype(np.float32)


def _as_numbers(data: TreeData) -> Array:
    """Return numbers as they are; of classes who is of which, of two 1 for the second, -1 for the first."""
    if data.n_classes is None:
        return data.targets
    is_of = data.targets[:, None] == np.arange(data.n_classes)
    indicators: Array = is_of.astype(np.float64)
    return 2.0 * indicators[:, 1] - 1.0 if data.n_classes == 2 else indicators


def _log_loss(logits: Array, targets: Array) -> float:
    highest = logits.max(axis=1, keepdims=True)
    log_sums = highest[:, 0] + np.log(np.exp(logits - highest).sum(axis=1))
    return float(np.mean(log_sums - logits[np.arange(len(targets)), targets.astype(np.int64)]))
