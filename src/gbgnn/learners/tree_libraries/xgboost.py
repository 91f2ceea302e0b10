"""XGBoostTrees: XGBoost's boosted trees, stored as its JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from gbgnn.errors import import_needed
from gbgnn.learners.tree_arrays import LEAF, CategorySet, TreeArrays
from gbgnn.learners.tree_libraries.base import Array, Growth, TreeData, TreeModel

_OBJECTIVES = ("reg:squarederror", "binary:logistic", "multi:softprob")
_ARRAYS = (
    *("left_children", "right_children", "parents", "split_indices", "split_conditions", "split_type"),
    *("default_left", "base_weights", "loss_changes", "sum_hessian"),
)
_MOST_CATEGORIES = 2**16


@dataclass(frozen=True, eq=False)
class XGBoostTrees(TreeModel):
    """Trees of XGBoost; ``text`` is all of them.

    A leaf's rows are counted by their curvature, which is one for numbers and less for classes.
    """

    library = "xgboost"
    extra = "xgboost"

    text: bytes
    booster: Any
    parsed: Sequence[TreeArrays]
    base: Array
    n_columns: int
    n_features: int

    @classmethod
    def load_library(cls) -> Any:
        """Return the module."""
        return import_needed("xgboost", 'BoostedTrees(library="xgboost")', cls.extra)

    @classmethod
    def fit(cls, data: TreeData, growth: Growth) -> Self:
        """Train the trees."""
        xgboost = cls.load_library()
        params = _objective(data.n_classes) | {
            "learning_rate": growth.learning_rate,
            "max_leaves": growth.max_leaves,
            "max_depth": 0,
            "grow_policy": "lossguide",
            "tree_method": "hist",
            # The curvature of a class is at most a quarter.
            "min_child_weight": growth.min_leaf * (1.0 if data.n_classes is None else 0.25),
            "reg_lambda": growth.l2,
            "subsample": growth.subsample,
            "colsample_bytree": growth.column_share,
            "max_bin": growth.max_bins,
            "seed": growth.seed % 2**31,
            "nthread": growth.n_threads,
            "verbosity": 0,
        }
        types = None
        if data.is_category is not None and data.categories:
            types = np.where(data.is_category, "c", "q").tolist()
        own = {"feature_types": types, "enable_categorical": True, "nthread": growth.n_threads}
        train = xgboost.DMatrix(data.rows, data.targets, weight=data.weights, **own)
        watched: dict[str, Any] = {}
        if data.validation is not None and growth.patience is not None:
            watched["evals"] = [(xgboost.DMatrix(*data.validation, **own), "validation")]
            watched["early_stopping_rounds"] = growth.patience
        booster = xgboost.train(params, train, growth.n_trees, verbose_eval=False, **watched)
        if watched:
            booster = booster[: booster.best_iteration + 1]
        return cls.from_bytes(bytes(booster.save_raw("json")))

    def predict(self, rows: Array, n_threads: int) -> Array:
        """Return margins."""
        types = self.booster.feature_types
        own = {"feature_types": types, "enable_categorical": True, "nthread": n_threads}
        self.booster.set_param({"nthread": n_threads})
        output = self.booster.predict(self.load_library().DMatrix(rows, **own), output_margin=True)
        return np.reshape(output, (len(rows), self.n_columns))

    def to_bytes(self) -> bytes:
        """Return the JSON text."""
        return self.text

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read the JSON text; what XGBoost is handed has been looked through."""
        learner = json.loads(data)["learner"]
        n_columns, n_features, base = _read_header(learner)
        model = learner["gradient_booster"]["model"]
        trees, rounds = model["trees"], model["iteration_indptr"]
        is_whole = (
            len(trees) > 0
            and rounds == list(range(0, len(trees) + 1, n_columns))
            and model["tree_info"] == [i % n_columns for i in range(len(trees))]
            and model["gbtree_model_param"] == {"num_parallel_tree": "1", "num_trees": str(len(trees))}
            and not any(model.get("cats", {}).values())
        )
        if not is_whole:
            raise ValueError("its trees are not in rounds")
        parsed = [_read_tree(tree, n_features, i % n_columns) for i, tree in enumerate(trees)]
        booster = cls.load_library().Booster()
        booster.load_model(bytearray(data))
        return cls(data, booster, parsed, base, n_columns, n_features)

    def trees(self) -> tuple[Sequence[TreeArrays], Array]:
        """Return the trees, and the margins that they start from."""
        return self.parsed, self.base


def _objective(n_classes: int | None) -> dict[str, Any]:
    if n_classes is None:
        return {"objective": _OBJECTIVES[0]}
    if n_classes == 2:
        return {"objective": _OBJECTIVES[1]}
    return {"objective": _OBJECTIVES[2], "num_class": n_classes}


def _read_header(learner: Mapping[str, Any]) -> tuple[int, int, Array]:
    """Return the numbers of columns and of features, and the margins before any tree."""
    params, objective = learner["learner_model_param"], learner["objective"]["name"]
    n_columns, n_features = max(1, int(params["num_class"])), int(params["num_feature"])
    if objective not in _OBJECTIVES or learner["gradient_booster"]["name"] != "gbtree":
        raise ValueError(f"{objective} is none of {', '.join(_OBJECTIVES)}")
    if params["num_target"] != "1" or (n_columns > 1) != (objective == _OBJECTIVES[2]):
        raise ValueError("its columns do not fit")
    types = learner["feature_types"]
    if len(types) not in (0, n_features) or not set(types) <= {"c", "q", "float"}:
        raise ValueError("the types of its features do not fit")
    base = np.array(str(params["base_score"]).strip("[]").split(","), dtype=np.float64)
    if objective == _OBJECTIVES[1]:  # written as a probability
        base = np.log(base) - np.log1p(-base)
    return n_columns, n_features, np.broadcast_to(base, n_columns).copy()


def _read_tree(tree: Mapping[str, Any], n_features: int, column: int) -> TreeArrays:
    arrays = {name: np.array(tree[name]) for name in _ARRAYS}
    numbers = arrays["split_conditions"].astype(np.float32).astype(np.float64)  # of which JSON has the digits
    n_nodes = len(arrays["left_children"])
    left, right = (arrays[f"{side}_children"].astype(np.int64) for side in ("left", "right"))
    expected = {"num_deleted": 0, "num_feature": n_features, "num_nodes": n_nodes}
    given = {name: int(tree["tree_param"][name]) for name in expected}
    if given != expected or int(tree["tree_param"]["size_leaf_vector"]) > 1:
        raise ValueError("the sizes of a tree do not fit")
    if any(each.shape != (n_nodes,) for each in arrays.values()) or ((left == LEAF) != (right == LEAF)).any():
        raise ValueError("arrays of a tree have the wrong length")
    parents = np.full(n_nodes, 2**31 - 1)
    inner = np.flatnonzero(left != LEAF)
    found = TreeArrays(
        feature=arrays["split_indices"],
        threshold=numbers,
        left=left,
        right=right,
        missing_left=arrays["default_left"].astype(bool),
        value=np.where(left == LEAF, numbers, 0.0),
        column=column,
        is_strict=True,
        gain=arrays["loss_changes"].astype(np.float64),
        cover=arrays["sum_hessian"].astype(np.float64),
    ).check(n_features)
    parents[left[inner]] = parents[right[inner]] = inner
    if not np.array_equal(parents, arrays["parents"]):
        raise ValueError("a node of a tree has another parent")
    return replace(found, categories=_read_categories(tree, np.flatnonzero(arrays["split_type"])))


def _read_categories(tree: Mapping[str, Any], asked: Array) -> dict[int, CategorySet]:
    """Return the categories at the nodes that ask; those that the file has go right.

    Raise unless every split by category has its set.
    """
    nodes, starts, sizes, values = (
        np.array(tree[name], dtype=np.int64)
        for name in ("categories_nodes", "categories_segments", "categories_sizes", "categories")
    )
    is_whole = (
        np.array_equal(nodes, asked)
        and len(starts) == len(sizes) == len(nodes)
        and np.array_equal(starts, np.cumsum(sizes) - sizes)
        and (sizes >= 0).all()
        and sizes.sum() == len(values)
        and ((values >= 0) & (values < _MOST_CATEGORIES)).all()
    )
    if not is_whole:
        raise ValueError("the categories of a tree do not fit")
    return {
        node: CategorySet(values[start : start + size], leads_left=False)
        for node, start, size in zip(asked.tolist(), starts, sizes, strict=True)
    }
