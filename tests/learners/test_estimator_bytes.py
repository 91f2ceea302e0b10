from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skops.io
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from gbgnn.errors import ModelFileError
from gbgnn.learners.estimator_bytes import as_bytes, as_tensor, dump_estimator, load_estimator

X = np.random.default_rng(0).normal(size=(60, 3))
Y = (X[:, 0] > 0).astype(int)
TREE = skops.io.dumps(DecisionTreeClassifier(max_depth=2).fit(X, Y))
BOOSTED = skops.io.dumps(HistGradientBoostingClassifier(max_iter=2).fit(X, Y))


def forge(data: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """The archive with its schema changed."""
    source, result = zipfile.ZipFile(io.BytesIO(data)), io.BytesIO()
    with zipfile.ZipFile(result, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            if name == "schema.json":
                schema = json.loads(content)
                change(schema)
                content = json.dumps(schema).encode()
            target.writestr(name, content)
    return result.getvalue()


class Evil:
    """Leaves a file behind when something builds it."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.path}",)

    def __setstate__(self, state: Any) -> None:
        Path(state["path"]).touch()


@pytest.mark.parametrize("data", [TREE, BOOSTED])
def test_estimators_come_back(data: bytes) -> None:
    estimator = load_estimator(data)
    again = load_estimator(dump_estimator(estimator, "tree"))
    assert again.predict_proba(X).tobytes() == estimator.predict_proba(X).tobytes()


@pytest.mark.parametrize("kind", [DecisionTreeClassifier, HistGradientBoostingClassifier, LogisticRegression])
def test_equal_estimators_are_equal_bytes(kind: Callable[..., Any]) -> None:
    """Whatever was where in memory, also between the fields of a tree's records."""
    expected = dump_estimator(kind(random_state=0).fit(X, Y), "model")
    for n in range(3):
        litter = [np.random.default_rng(n).bytes(64 * (i + 1)) for i in range(200)]
        assert dump_estimator(kind(random_state=0).fit(X, Y), "model") == expected
        assert len(litter) == 200
    assert dump_estimator(load_estimator(expected), "model") == expected


def test_a_type_of_another_package_is_neither_written_nor_built(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    estimator = LogisticRegression().fit(X, Y)
    estimator.extra_ = Evil(str(mark))
    with pytest.raises(ModelFileError, match="Evil.*not among the types that gbgnn trusts"):
        dump_estimator(estimator, "LogisticRegression")
    with pytest.raises(ModelFileError, match="Evil"):
        load_estimator(skops.io.dumps(estimator))
    assert not mark.exists()


@pytest.mark.parametrize(
    ("module", "name", "loader"),
    [
        ("os", "system", "FunctionNode"),
        ("builtins", "eval", "FunctionNode"),
        ("builtins", "eval", "ObjectNode"),
        ("operator", "methodcaller", "OperatorFuncNode"),
        ("builtins", "str", "MethodNode"),
        ("sklearn.linear_model._logistic", "LogisticRegression", "MethodNode"),
        ("numpy.f2py", "compile", "FunctionNode"),
        ("sklearn.datasets", "load_svmlight_file", "FunctionNode"),
        ("builtins", "bytes", "BytesNode"),
    ],
)
def test_what_a_forger_might_ask_for_is_refused(module: str, name: str, loader: str) -> None:
    def change(schema: dict[str, Any]) -> None:
        schema["content"]["content"]["max_depth"] = {
            **{"__class__": name, "__module__": module, "__loader__": loader, "__id__": 1},
            "content": {"module_path": module, "function": name, "func": name, "obj": {}, "attrs": {}},
        }

    with pytest.raises(ModelFileError):
        load_estimator(forge(TREE, change))


def test_partial_calls_of_other_functions_are_refused() -> None:
    estimator = make_pipeline(FunctionTransformer(partial(os.system, "true")), LogisticRegression())
    with pytest.raises(ModelFileError, match="a Pipeline cannot be stored without pickle"):
        dump_estimator(estimator, "Pipeline")
    with pytest.raises(ModelFileError):
        load_estimator(skops.io.dumps(estimator))


def test_compressed_archives_are_refused() -> None:
    data = skops.io.dumps(LogisticRegression().fit(X, Y), compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(ModelFileError, match="is compressed"):
        load_estimator(data)


def test_trees_that_would_lead_out_of_their_arrays_are_refused() -> None:
    columns = ("left_child", "right_child", "feature")
    for column, value in zip((*columns, "left_child"), (99, -7, 3, 0), strict=True):
        estimator = DecisionTreeRegressor(max_depth=2).fit(X, X[:, 0])
        state = estimator.tree_.__getstate__()
        state["nodes"] = state["nodes"].copy()
        state["nodes"][column][0] = value
        estimator.tree_.__setstate__(state)
        with pytest.raises(ModelFileError, match="a node of a tree|a tree looks at"):
            load_estimator(skops.io.dumps(estimator))
    for column, value in (("left", 0), ("right", 10**6), ("feature_idx", 3), ("feature_idx", -1)):
        boosted = HistGradientBoostingClassifier(max_iter=2).fit(X, Y)
        boosted._predictors[1][0].nodes[column][0] = value
        with pytest.raises(ModelFileError, match="a node of a tree|a tree looks at"):
            load_estimator(skops.io.dumps(boosted))


def test_sets_of_categories_that_are_not_there_are_refused() -> None:
    rows = X.copy()
    rows[:, 2] = np.arange(60) % 4
    mask = [False, False, True]
    for change in ("bitset_idx", "shape"):
        boosted = HistGradientBoostingClassifier(max_iter=2, categorical_features=mask)
        boosted.fit(rows, (rows[:, 2] % 2).astype(int))
        tree = boosted._predictors[0][0]
        if change == "shape":
            tree.raw_left_cat_bitsets = np.zeros((1, 1), dtype=np.uint32)
        else:
            tree.nodes["bitset_idx"] = 50
        with pytest.raises(ModelFileError, match="categories that are not there|wrong shape"):
            load_estimator(skops.io.dumps(boosted))


def test_categories_of_a_column_of_numbers_are_refused() -> None:
    rows = X.copy()
    rows[:, 2] = np.arange(60) % 4
    for change in ("column", "bins"):
        boosted = HistGradientBoostingClassifier(max_iter=2, categorical_features=[False, False, True])
        boosted.fit(rows, (rows[:, 2] % 2).astype(int))
        assert load_estimator(skops.io.dumps(boosted)).predict(rows).shape == (60,)
        if change == "bins":
            boosted._bin_mapper.is_categorical_ = boosted._bin_mapper.is_categorical_[:1]
        else:
            boosted._predictors[0][0].nodes["feature_idx"] = 2  # the columns of categories come first
        with pytest.raises(ModelFileError, match="a column of numbers|those of other columns"):
            load_estimator(skops.io.dumps(boosted))


def test_a_forest_may_see_no_more_columns_than_it_is_handed() -> None:
    forest = RandomForestRegressor(2).fit(X, X[:, 2])
    assert load_estimator(dump_estimator(forest, "forest")).predict(X).shape == (60,)
    forest.n_features_in_ = 1
    with pytest.raises(ModelFileError, match="a tree looks at a column that is not among its 1"):
        load_estimator(skops.io.dumps(forest))
    pipeline = make_pipeline(PolynomialFeatures(), DecisionTreeRegressor()).fit(X, X[:, 0] * X[:, 1])
    again = load_estimator(dump_estimator(pipeline, "Pipeline"))
    assert again.predict(X).tobytes() == pipeline.predict(X).tobytes()


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_damage_is_a_model_file_error_or_harmless(data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(TREE) - 1))
    forged = bytearray(TREE)
    forged[position] = data.draw(st.integers(0, 255))
    try:
        estimator = load_estimator(bytes(forged))
    except ModelFileError:
        return
    assert isinstance(estimator, DecisionTreeClassifier)


@given(st.binary(max_size=50))
def test_junk_is_refused(junk: bytes) -> None:
    with pytest.raises(ModelFileError):
        load_estimator(junk)
    assert as_bytes(as_tensor(junk)) == junk


def test_bytes_are_a_row_of_bytes() -> None:
    for tensor in (torch.zeros(3), torch.zeros(2, 2, dtype=torch.uint8)):
        with pytest.raises(ValueError, match="bytes have the type"):
            as_bytes(tensor)
