"""Libraries of boosted trees, each behind the same few methods."""

from __future__ import annotations

from importlib.util import find_spec

from gbgnn.learners.tree_libraries.base import Growth, TreeData, TreeModel
from gbgnn.learners.tree_libraries.catboost import CatBoostTrees
from gbgnn.learners.tree_libraries.forest import Forest
from gbgnn.learners.tree_libraries.lightgbm import LightGBMTrees
from gbgnn.learners.tree_libraries.sklearn import SklearnTrees
from gbgnn.learners.tree_libraries.xgboost import XGBoostTrees

LIBRARIES: dict[str, type[TreeModel]] = {
    kind.library: kind for kind in (SklearnTrees, LightGBMTrees, XGBoostTrees, CatBoostTrees)
}
"""The libraries of boosted trees, by the names that settings and model files use."""

KINDS: dict[str, type[TreeModel]] = {**LIBRARIES, Forest.library: Forest}
"""All that a model file may hold."""


def find_library(name: str) -> type[TreeModel]:
    """Return the library of a name; ``"auto"`` is LightGBM where it is installed, else scikit-learn."""
    if name == "auto":
        name = "sklearn" if find_spec("lightgbm") is None else "lightgbm"
    return LIBRARIES[name]


__all__ = ["KINDS", "LIBRARIES", "Forest", "Growth", "TreeData", "TreeModel", "find_library"]
