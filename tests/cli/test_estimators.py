from __future__ import annotations

import pytest

from gbgnn.cli.estimators import build_estimator
from gbgnn.errors import ParameterError


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("os.system", {}, r"full name of a class in sklearn, lightgbm, xgboost.*got 'os.system'"),
        (None, {}, "learner sklearn needs an estimator"),
        ("sklearn.tree.Oak", {}, "there is no estimator 'sklearn.tree.Oak' here"),
        ("sklearn.trees.Oak", {}, "there is no estimator"),
        ("sklearn.tree.export_text", {}, "is not the class of an estimator"),
        ("sklearn.tree.DecisionTreeClassifier", {"depth": 2}, "does not take these parameters"),
    ],
)
def test_names_that_cannot_work(name, params: dict, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        build_estimator(name, params)
