"""LightGBMTrees: LightGBM's boosted trees, stored as its text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from gbgnn.errors import import_needed
from gbgnn.learners.tree_arrays import LEAF, CategorySet, TreeArrays
from gbgnn.learners.tree_libraries.base import Array, Growth, TreeData, TreeModel

_END = "end of trees"
_HEADER = {
    *("version", "num_class", "num_tree_per_iteration", "label_index", "max_feature_idx", "objective"),
    *("feature_names", "feature_infos"),
}
_BY_SPLIT = {
    *("split_feature", "split_gain", "threshold", "decision_type", "left_child", "right_child"),
    *("internal_value", "internal_weight", "internal_count"),
}
_BY_LEAF = {"leaf_value", "leaf_weight", "leaf_count"}
_OF_CATEGORIES = {"cat_boundaries", "cat_threshold"}
_ALONE = {"num_leaves", "num_cat", "is_linear", "shrinkage"}
_OBJECTIVES = re.compile(r"regression|binary sigmoid:1|multiclass num_class:\d+")

# Bits of a decision_type; above them is what counts as missing.
_CATEGORICAL, _DEFAULT_LEFT, _NAN_IS_MISSING = 1, 2, 2


@dataclass(frozen=True, eq=False)
class LightGBMTrees(TreeModel):
    """Trees of LightGBM; ``text`` is all of them."""

    library = "lightgbm"
    extra = "trees"
    takes_offsets = True

    text: str
    booster: Any
    parsed: Sequence[TreeArrays]
    n_columns: int
    n_features: int

    @classmethod
    def load_library(cls) -> Any:
        """Return the module."""
        return import_needed("lightgbm", 'BoostedTrees(library="lightgbm")', cls.extra)

    @classmethod
    def fit(cls, data: TreeData, growth: Growth) -> Self:
        """Train the trees, the same for any number of threads."""
        lightgbm = cls.load_library()
        params = _objective(data.n_classes) | {
            "learning_rate": growth.learning_rate,
            "num_leaves": growth.max_leaves,
            "min_data_in_leaf": growth.min_leaf,
            "lambda_l2": growth.l2,
            "bagging_fraction": growth.subsample,
            "bagging_freq": int(growth.subsample < 1),
            "feature_fraction": growth.column_share,
            "max_bin": growth.max_bins,
            "min_data_per_group": growth.min_leaf,
            "min_data_in_bin": 1,
            "seed": growth.seed % 2**31,
            "num_threads": growth.n_threads,
            "deterministic": True,
            "force_col_wise": True,
            "verbosity": -1,
        }
        own: dict[str, Any] = {"categorical_feature": data.categories, "params": params}
        train = lightgbm.Dataset(data.rows, data.targets, weight=data.weights, init_score=data.offsets, **own)
        watched: dict[str, Any] = {}
        if data.validation is not None and growth.patience is not None:
            watched["valid_sets"] = [train.create_valid(*data.validation, init_score=data.val_offsets)]
            watched["callbacks"] = [lightgbm.early_stopping(growth.patience, verbose=False)]
        booster = lightgbm.train(params, train, growth.n_trees, **watched)
        return cls.from_bytes(booster.model_to_string(num_iteration=booster.best_iteration).encode())

    def predict(self, rows: Array, n_threads: int) -> Array:
        """Return raw scores."""
        output = self.booster.predict(rows, raw_score=True, num_threads=n_threads)
        return np.reshape(output, (len(rows), self.n_columns))

    def to_bytes(self) -> bytes:
        """Return the text."""
        return self.text.encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read the text; what LightGBM is handed has passed a stricter reader than its own."""
        # What follows the trees are importances and the settings of the training. Sizes of trees, in bytes,
        # let threads share the reading, which would believe them.
        text, end, _ = data.decode("ascii").partition(_END)
        if not end:
            raise ValueError("the text ends before its trees do")
        text = re.sub(r"^tree_sizes=.*\n", "", text, flags=re.MULTILINE) + f"{_END}\n"
        head, *blocks = re.split(r"^Tree=\d+\n", text.removesuffix(f"{_END}\n"), flags=re.MULTILINE)
        n_columns, n_features = _read_header(head)
        if not blocks or len(blocks) % n_columns:
            raise ValueError(f"{len(blocks)} trees are no whole number of rounds of {n_columns}")
        parsed = [_read_tree(block, n_features, i % n_columns) for i, block in enumerate(blocks)]
        booster = cls.load_library().Booster(model_str=text)
        return cls(text, booster, parsed, n_columns, n_features)

    def trees(self) -> tuple[Sequence[TreeArrays], Array]:
        """Return the trees, to whose sum nothing is added."""
        return self.parsed, np.zeros(self.n_columns)


def _objective(n_classes: int | None) -> dict[str, Any]:
    if n_classes is None:
        return {"objective": "regression"}
    return {"objective": "binary"} if n_classes == 2 else {"objective": "multiclass", "num_class": n_classes}


def _read_fields(lines: Sequence[str]) -> dict[str, str]:
    """Return lines ``name=value``, each name once."""
    pairs = [line.partition("=") for line in lines if line]
    fields = {name: value for name, _, value in pairs}
    if len(fields) < len(pairs):
        raise ValueError("a name stands twice")
    return fields


def _read_header(text: str) -> tuple[int, int]:
    """Return the numbers of columns and of features."""
    first, *lines = text.split("\n")
    fields = _read_fields(lines)
    n_columns, n_features = int(fields["num_class"]), int(fields["max_feature_idx"]) + 1
    lists = [fields[name].split(" ") for name in ("feature_names", "feature_infos")]
    is_whole = (
        first == "tree"
        and set(fields) == _HEADER
        and n_columns >= 1
        and fields["num_tree_per_iteration"] == fields["num_class"]
        and _OBJECTIVES.fullmatch(fields["objective"]) is not None
        and all(len(each) == n_features for each in lists)
    )
    if not is_whole:
        raise ValueError("its header is not one of boosted trees")
    return n_columns, n_features


def _read_tree(text: str, n_features: int, column: int) -> TreeArrays:
    """Return one tree: its splits, then its leaves."""
    fields = _read_fields(text.split("\n"))
    n_leaves, n_categorical = int(fields["num_leaves"]), int(fields["num_cat"])
    expected = _BY_SPLIT | _BY_LEAF | _ALONE | (_OF_CATEGORIES if n_categorical else set())
    if set(fields) != expected or fields["is_linear"] != "0" or n_leaves < 1:
        raise ValueError("a tree has other fields than LightGBM writes")
    lists = {name: fields[name].split() for name in _BY_SPLIT | _BY_LEAF}
    if n_leaves == 1:  # which LightGBM writes without some of the counts
        lists |= {name: ["0"] for name in _BY_LEAF if not lists[name]}
    for names, length in ((_BY_SPLIT, n_leaves - 1), (_BY_LEAF, n_leaves)):
        if any(len(lists[name]) != length for name in names):
            raise ValueError("arrays of a tree have the wrong length")
    splits = {name: np.array(lists[name], dtype=np.int64) for name in ("left_child", "right_child")}
    left, right = (_number_leaves(each, n_leaves) for each in splits.values())
    kinds = np.array(lists["decision_type"], dtype=np.int64)
    threshold = np.array(lists["threshold"], dtype=np.float64)
    _check_categories(fields, threshold[kinds & _CATEGORICAL == 1], n_categorical)
    # Where no value was missing in training, a missing one is read as zero.
    knows_missing = kinds >> 2 == _NAN_IS_MISSING
    missing_left = np.where(knows_missing, kinds & _DEFAULT_LEFT > 0, threshold >= 0)
    missing_left[kinds & _CATEGORICAL > 0] = False
    feature = np.array(lists["split_feature"], dtype=np.int64)
    value = np.array(lists["leaf_value"], dtype=np.float64)
    return TreeArrays(
        feature=np.append(feature, np.zeros(n_leaves, dtype=np.int64)),
        threshold=np.append(threshold, np.zeros(n_leaves)),
        left=np.append(left, np.full(n_leaves, LEAF)),
        right=np.append(right, np.full(n_leaves, LEAF)),
        missing_left=np.append(missing_left, np.zeros(n_leaves, dtype=bool)),
        value=np.append(np.zeros(n_leaves - 1), value),
        column=column,
        gain=np.append(np.array(lists["split_gain"], dtype=np.float64), np.zeros(n_leaves)),
        cover=np.append(
            *(np.array(lists[f"{kind}_count"], dtype=np.float64) for kind in ("internal", "leaf"))
        ),
        categories=_read_categories(fields, np.flatnonzero(kinds & _CATEGORICAL), threshold),
    ).check(n_features)


def _read_categories(fields: dict[str, str], nodes: Array, threshold: Array) -> dict[int, CategorySet]:
    """Return the categories that go left at the nodes that ask for them: bits of 32 at a time."""
    if not len(nodes):
        return {}
    bounds, words = (np.array(fields[n].split(), dtype=np.int64) for n in ("cat_boundaries", "cat_threshold"))
    found = {}
    for node, place in zip(nodes.tolist(), threshold[nodes].astype(np.int64).tolist(), strict=True):
        own = words[bounds[place] : bounds[place + 1], None] >> np.arange(32) & 1
        found[node] = CategorySet(np.flatnonzero(own))
    return found


def _number_leaves(children: Array, n_leaves: int) -> Array:
    """Return children with leaf i, which is written ``~i``, numbered after all splits."""
    if (children < -n_leaves).any() or (children >= n_leaves - 1).any():
        raise ValueError("a child is no node of its tree")
    return np.where(children >= 0, children, n_leaves - 1 + ~children)


def _check_categories(fields: dict[str, str], asked: Array, n_categorical: int) -> None:
    """Raise unless every split by category has its set, and every set its words."""
    if not n_categorical:
        if len(asked):
            raise ValueError("a tree asks for categories that are not there")
        return
    bounds, words = (np.array(fields[n].split(), dtype=np.int64) for n in ("cat_boundaries", "cat_threshold"))
    is_whole = len(bounds) == n_categorical + 1 and bounds[0] == 0 and bounds[-1] == len(words)
    if not is_whole or (np.diff(bounds) < 0).any() or (words < 0).any() or (words >= 2**32).any():
        raise ValueError("the categories of a tree do not fit")
    if (asked != np.floor(asked)).any() or (asked < 0).any() or (asked >= n_categorical).any():
        raise ValueError("a tree asks for categories that are not there")
