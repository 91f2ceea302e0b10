"""SklearnTrees: scikit-learn's HistGradientBoosting, stored by skops."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import has_fit_parameter

from gbgnn.learners.estimator_bytes import check_bitsets, check_categories, dump_estimator, load_estimator
from gbgnn.learners.tree_arrays import LEAF, CategorySet, TreeArrays
from gbgnn.learners.tree_libraries.base import ABSENT, Array, Growth, TreeData, TreeModel

_TREE = ("nodes", "binned_left_cat_bitsets", "raw_left_cat_bitsets")  # what a tree is made of


@dataclass(frozen=True, eq=False)
class SklearnTrees(TreeModel):
    """Trees of scikit-learn; ``n_classes`` is 0 for numbers."""

    library = "sklearn"
    extra = "trees"

    estimator: Any
    n_classes: int

    @classmethod
    def load_library(cls) -> Any:
        """Return the module, which is always there, but takes its time."""
        return import_module("sklearn.ensemble")

    @classmethod
    def _kind(cls, n_classes: int) -> Any:
        return getattr(
            cls.load_library(), f"HistGradientBoosting{'Classifier' if n_classes else 'Regressor'}"
        )

    @property
    def n_columns(self) -> int:  # type: ignore[override]
        """One for numbers and for two classes, else one per class."""
        return self.n_classes if self.n_classes > 2 else 1

    @property
    def n_features(self) -> int:  # type: ignore[override]
        """Number of columns of rows."""
        return int(self.estimator.n_features_in_)

    @classmethod
    def fit(cls, data: TreeData, growth: Growth) -> Self:
        """Train the trees; a ``subsample`` is drawn once, for all of them, columns anew for every split."""
        kind = cls._kind(data.n_classes or 0)
        estimator = kind(
            max_iter=growth.n_trees,
            learning_rate=growth.learning_rate,
            max_leaf_nodes=growth.max_leaves,
            min_samples_leaf=growth.min_leaf,
            l2_regularization=growth.l2,
            max_features=growth.column_share,
            max_bins=growth.max_bins,
            categorical_features=data.is_category if data.categories else None,
            early_stopping=False,
            random_state=growth.seed % 2**32,
        )
        rows, targets, weights = data.rows, data.targets, data.weights
        if growth.subsample < 1:
            n_drawn = max(1, round(growth.subsample * len(rows)))
            drawn = np.random.default_rng(growth.seed).choice(len(rows), n_drawn, replace=False)
            rows, targets, weights = rows[np.sort(drawn)], targets[np.sort(drawn)], weights[np.sort(drawn)]
        watched = _watch(estimator, targets, data, growth)
        # Bins of weighted rows take scikit-learn longer than the trees.
        weighted = {} if (weights == weights[0]).all() else {"sample_weight": weights}
        with _openmp_threads(growth.n_threads):
            estimator.fit(rows, targets, **weighted, **watched)
        if watched:
            # scikit-learn stops, but keeps what it grew in vain since the best.
            best = max(1, int(np.argmax(estimator.validation_score_)))
            estimator._predictors = estimator._predictors[:best]
        return cls(estimator, data.n_classes or 0)

    def predict(self, rows: Array, n_threads: int) -> Array:
        """Return numbers, or logits of all classes, of two that of the second."""
        with _openmp_threads(n_threads):
            if not self.n_classes:
                return np.reshape(self.estimator.predict(rows), (-1, 1))
            known = self.estimator.decision_function(rows)
        classes = self.estimator.classes_
        result = np.full((len(rows), self.n_classes), ABSENT)
        result[:, classes] = 0.0  # and stays so for the first of two classes, or the only one
        if len(classes) > 1:
            result[:, _grown(classes)] = np.reshape(known, (len(rows), -1))
        return result[:, 1:] - result[:, :1] if self.n_classes == 2 else result

    def to_bytes(self) -> bytes:
        """Return the estimator as skops writes it, its trees as a few arrays: one by one takes seconds."""
        bare = copy.copy(self.estimator)
        bare._predictors = []
        parts = {"estimator": bare, "n_classes": self.n_classes, **_join(self.estimator._predictors)}
        return dump_estimator(parts, type(self.estimator).__name__)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read the estimator, whose types must be the known ones, and its trees."""
        parts = load_estimator(data)
        estimator, n_classes = parts["estimator"], int(parts["n_classes"])
        kind = cls._kind(n_classes)
        if type(estimator) is not kind:
            raise ValueError(f"a {type(estimator).__name__} stands for a {kind.__name__}")
        if n_classes:
            classes = np.asarray(estimator.classes_)
            if classes.dtype.kind not in "iu" or classes.min() < 0 or classes.max() >= n_classes:
                raise ValueError(f"its classes are not among {n_classes}")
        estimator._predictors = _split(parts)
        check_categories(estimator)
        loaded = cls(estimator, n_classes)
        loaded.trees()
        return loaded

    def trees(self) -> tuple[Sequence[TreeArrays], Array]:
        """Return the trees, and the logits or the mean that they start from."""
        classes = np.asarray(self.estimator.classes_) if self.n_classes else np.arange(1)
        base, columns = np.full(self.n_classes or 1, ABSENT), _grown(classes)
        base[classes] = 0.0
        if not self.n_classes or len(classes) > 1:
            base[columns] = np.ravel(self.estimator._baseline_prediction)
        if self.n_classes == 2:
            base, columns = base[1:] - base[:1], np.zeros(1, dtype=np.int64)
        if self.n_classes and len(classes) == 1:
            return [], base
        order, known = _column_order(self.estimator), _known_categories(self.estimator)
        read = [
            _read_nodes(tree, column, known).check(self.n_features)
            for grown in self.estimator._predictors
            for tree, column in zip(grown, columns.tolist(), strict=True)
        ]
        return [replace(tree, feature=order[tree.feature]) for tree in read], base


def _watch(estimator: Any, targets: Array, data: TreeData, growth: Growth) -> dict[str, Any]:
    """Let the estimator stop early where it can be told validation rows, and return them."""
    can_watch = has_fit_parameter(estimator, "X_val")  # from scikit-learn 1.7 on
    if data.validation is None or growth.patience is None or not can_watch:
        return {}
    rows, wanted = data.validation
    if data.n_classes is not None:  # scikit-learn refuses a class that training does not have
        known = np.isin(wanted, targets)
        rows, wanted = rows[known], wanted[known]
    if not len(rows):
        return {}
    estimator.set_params(early_stopping=True, n_iter_no_change=growth.patience, tol=0.0)
    return {"X_val": rows, "y_val": wanted}


def _column_order(estimator: Any) -> Array:
    """Return which column of the rows each column of a tree is: scikit-learn puts categories in front."""
    n_features, is_category = int(estimator.n_features_in_), estimator.is_categorical_
    if is_category is None:
        return np.arange(n_features)
    if np.shape(is_category) != (n_features,):
        raise ValueError(f"its categories are not among {n_features} columns")
    return np.argsort(~np.asarray(is_category, dtype=bool), kind="stable")


def _grown(classes: Array) -> Array:
    """Return the classes that have trees: of two the second."""
    return classes[1:] if len(classes) == 2 else classes


def _join(grown: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Return the arrays of all trees, one after another, and how long each one is."""
    trees = [tree for each in grown for tree in each]
    parts: dict[str, Any] = {"n_grown": len(grown)}
    for name in _TREE:
        arrays = [getattr(tree, name) for tree in trees]
        parts |= {name: np.concatenate(arrays), f"n_{name}": np.array([len(each) for each in arrays])}
    return parts


def _split(parts: dict[str, Any]) -> list[list[Any]]:
    """Return the trees of :func:`_join`, by the step of boosting that they were grown in."""
    from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE
    from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor

    if parts["nodes"].dtype != PREDICTOR_RECORD_DTYPE:
        raise ValueError("the nodes of its trees have other fields than scikit-learn's")
    arrays = []
    for name in _TREE:
        lengths = np.asarray(parts[f"n_{name}"], dtype=np.int64)
        if (lengths < 0).any() or lengths.sum() != len(parts[name]):
            raise ValueError("its trees have another length than they say")
        arrays.append(np.split(np.ascontiguousarray(parts[name]), np.cumsum(lengths)[:-1]))
    trees = [TreePredictor(*each) for each in zip(*arrays, strict=True)]
    for tree in trees:
        check_bitsets(tree)
    size, rest = divmod(len(trees), int(parts["n_grown"]))
    if rest:
        raise ValueError(f"{len(trees)} trees are not grown in {parts['n_grown']} steps")
    return [trees[start : start + size] for start in range(0, len(trees), size)]


def _known_categories(estimator: Any) -> list[Array]:
    """Return the categories of every column that has some, in whose numbers trees ask for them."""
    if not np.any(estimator.is_categorical_):
        return []
    encoder = estimator._preprocessor.named_transformers_["encoder"]
    return [np.asarray(each, dtype=np.float64) for each in encoder.categories_]


def _read_nodes(tree: Any, column: int, known: Sequence[Array]) -> TreeArrays:
    nodes = tree.nodes
    is_leaf = nodes["is_leaf"] == 1
    left, right = (np.where(is_leaf, LEAF, nodes[name].astype(np.int64)) for name in ("left", "right"))
    feature = nodes["feature_idx"].astype(np.int64)
    categories = {}
    for node in np.flatnonzero(~is_leaf & (nodes["is_categorical"] == 1)).tolist():
        words = tree.raw_left_cat_bitsets[nodes["bitset_idx"][node]].astype(np.int64)
        lefts = np.flatnonzero(words[:, None] >> np.arange(32) & 1)
        own = known[feature[node]]  # columns of categories are the first
        own = own[~np.isnan(own)]
        categories[node] = CategorySet(own[lefts[lefts < len(own)]], own)
    return TreeArrays(
        feature=feature,
        threshold=nodes["num_threshold"],
        left=left,
        right=right,
        missing_left=nodes["missing_go_to_left"] == 1,
        value=nodes["value"],
        column=column,
        gain=nodes["gain"],
        cover=nodes["count"].astype(np.float64),
        categories=categories,
    )


@contextmanager
def _openmp_threads(n_threads: int) -> Iterator[None]:
    """Let scikit-learn use so many threads inside; it has no setting for that."""
    from threadpoolctl import threadpool_limits  # a requirement of scikit-learn

    with threadpool_limits(n_threads, user_api="openmp"):
        yield
