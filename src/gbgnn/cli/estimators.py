"""scikit-learn's estimators by name, for ``--learner sklearn``."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from gbgnn.errors import ParameterError

# A settings file may come from somebody else, so it may not name any module it likes.
PACKAGES = ("sklearn", "lightgbm", "xgboost")


def build_estimator(name: Any, params: Mapping[str, Any]) -> Any:
    """Return the estimator that a full name stands for.

    Examples
    --------
    >>> build_estimator("sklearn.tree.DecisionTreeClassifier", {"max_depth": 2})
    DecisionTreeClassifier(max_depth=2)
    """
    module, _, class_name = str(name).rpartition(".")
    if module.partition(".")[0] not in PACKAGES:
        raise ParameterError(
            "learner sklearn needs an estimator: the full name of a class in "
            f"{', '.join(PACKAGES)}, such as sklearn.tree.DecisionTreeClassifier; got {name!r}."
        )
    try:
        found = getattr(importlib.import_module(module), class_name)
    except (ImportError, AttributeError) as error:
        raise ParameterError(f"there is no estimator {name!r} here: {error}.") from error
    if not isinstance(found, type) or not hasattr(found, "fit"):
        raise ParameterError(f"{name!r} is not the class of an estimator.")
    try:
        return found(**params)
    except TypeError as error:
        raise ParameterError(f"{name} does not take these parameters: {error}.") from error
