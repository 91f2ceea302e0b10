"""CatBoostTrees: CatBoost's boosted trees, stored in its own binary format."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from gbgnn.errors import import_needed
from gbgnn.learners.tree_libraries.base import ABSENT, Array, Growth, TreeData, TreeModel

_NEARLY_NONE = 1e-9


@dataclass(frozen=True, eq=False)
class CatBoostTrees(TreeModel):
    """Trees of CatBoost, whose reader verifies its format by itself."""

    library = "catboost"
    extra = "catboost"

    model: Any
    n_columns: int
    n_features: int

    @classmethod
    def load_library(cls) -> Any:
        """Return the module."""
        return import_needed("catboost", 'BoostedTrees(library="catboost")', cls.extra)

    @classmethod
    def fit(cls, data: TreeData, growth: Growth) -> Self:
        """Train the trees."""
        catboost = cls.load_library()
        loss = "RMSE" if data.n_classes is None else "Logloss" if data.n_classes == 2 else "MultiClass"
        model = catboost.CatBoost(
            {
                "loss_function": loss,
                **({"classes_count": data.n_classes} if loss == "MultiClass" else {}),
                "iterations": growth.n_trees,
                "learning_rate": growth.learning_rate,
                "grow_policy": "Lossguide",
                "max_leaves": growth.max_leaves,
                "min_data_in_leaf": growth.min_leaf,
                "l2_leaf_reg": growth.l2,
                "bootstrap_type": "Bernoulli",
                "subsample": growth.subsample,
                "rsm": growth.column_share,
                "border_count": min(growth.max_bins, 254),
                "random_seed": growth.seed % 2**31,
                "thread_count": growth.n_threads,
                "allow_writing_files": False,
                "verbose": False,
            }
        )
        data, categories = _with_two_classes(data), data.categories
        train = catboost.Pool(
            _as_columns(data.rows, categories), data.targets, cat_features=categories, weight=data.weights
        )
        watched: dict[str, Any] = {}
        if data.validation is not None and growth.patience is not None:
            rows, targets = data.validation
            watched["eval_set"] = catboost.Pool(
                _as_columns(rows, categories), targets, cat_features=categories
            )
            watched |= {"early_stopping_rounds": growth.patience, "use_best_model": True}
        model.fit(train, **watched)
        return cls._of(model)

    def predict(self, rows: Array, n_threads: int) -> Array:
        """Return raw values."""
        columns = _as_columns(rows, self.model.get_cat_feature_indices())
        output = self.model.predict(columns, prediction_type="RawFormulaVal", thread_count=n_threads)
        known = np.where(np.isneginf(output), ABSENT, output)  # of classes that no row has
        return np.reshape(known, (len(rows), self.n_columns))

    def importances(self) -> Array:
        """Return CatBoost's own: by how much predictions change where a column does, 100 in all."""
        return np.asarray(self.model.get_feature_importance(type="PredictionValuesChange"), np.float64)

    def to_bytes(self) -> bytes:
        """Return CatBoost's file."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.cbm"
            self.model.save_model(str(path), format="cbm")
            return path.read_bytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read CatBoost's file."""
        model = cls.load_library().CatBoost()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.cbm"
            path.write_bytes(data)
            model.load_model(str(path), format="cbm")
        return cls._of(model)

    @classmethod
    def _of(cls, model: Any) -> Self:
        n_classes = len(model.classes_)
        return cls(model, n_classes if n_classes > 2 else 1, len(model.feature_names_))


def _with_two_classes(data: TreeData) -> TreeData:
    """Return data as it is, or where it has one class alone, which CatBoost refuses, a row of another."""
    if not data.n_classes or len(np.unique(data.targets)) > 1:
        return data
    return replace(
        data,
        rows=np.vstack([data.rows, data.rows[:1]]),
        targets=np.append(data.targets, (data.targets[0] + 1) % data.n_classes),
        weights=np.append(data.weights, _NEARLY_NONE * data.weights.sum()),
    )


def _as_columns(rows: Array, categories: list[int]) -> Array:
    """Return rows with categories as whole numbers, which CatBoost insists on; -1 is a missing one."""
    if not categories:
        return rows
    columns = rows.astype(object)
    columns[:, categories] = np.nan_to_num(rows[:, categories], nan=-1).astype(np.int64)
    return columns
