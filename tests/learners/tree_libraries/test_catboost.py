"""What CatBoost is asked for, told by a stand-in; the real one is tried where it is installed."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from gbgnn.learners.tree_libraries import LIBRARIES, Growth, TreeData

ROWS = np.random.default_rng(0).normal(size=(20, 3))
GROWTH = Growth(
    n_trees=5,
    learning_rate=0.2,
    max_leaves=6,
    min_leaf=2,
    l2=0.5,
    subsample=0.7,
    column_share=0.6,
    patience=None,
    max_bins=255,
    seed=2**40,
    n_threads=2,
)


class Pool:
    def __init__(self, data: Any, label: Any, cat_features: Any = None, weight: Any = None) -> None:
        self.data, self.label, self.cat_features, self.weight = data, label, cat_features, weight


class CatBoost:
    """Predicts a constant for each class."""

    made: ClassVar[list[CatBoost]] = []

    def __init__(self, params: dict[str, Any] | None = None) -> None:
        self.params, self.content = params or {}, b""
        CatBoost.made.append(self)

    def fit(self, pool: Pool, **options: Any) -> None:
        self.pool, self.options = pool, options
        loss = self.params["loss_function"]
        n_classes = {"RMSE": 0, "Logloss": 2}.get(loss, self.params.get("classes_count"))
        self.content = bytes([n_classes, pool.data.shape[1], *pool.cat_features])

    classes_ = property(lambda self: list(range(self.content[0])))
    feature_names_ = property(lambda self: list("abcdef"[: self.content[1]]))

    def get_cat_feature_indices(self) -> list[int]:
        return list(self.content[2:])

    def predict(self, data: Any, prediction_type: str, thread_count: int) -> Any:
        self.seen = data
        assert (prediction_type, thread_count) == ("RawFormulaVal", 2)
        n_columns = self.content[0]
        return np.tile(np.arange(n_columns), (len(data), 1)) if n_columns > 2 else np.ones(len(data))

    def get_feature_importance(self, type: str) -> list[float]:
        assert type == "PredictionValuesChange"
        return [50.0, 30.0, 20.0]

    def save_model(self, path: str, format: str) -> None:
        Path(path).write_bytes(self.content)

    def load_model(self, path: str, format: str) -> None:
        self.content = Path(path).read_bytes()


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    CatBoost.made = []
    monkeypatch.setitem(sys.modules, "catboost", SimpleNamespace(CatBoost=CatBoost, Pool=Pool))


@pytest.mark.parametrize(
    ("n_classes", "loss", "n_columns"), [(None, "RMSE", 1), (2, "Logloss", 1), (4, "MultiClass", 4)]
)
def test_settings_reach_catboost_and_bytes_come_back(
    n_classes: int | None, loss: str, n_columns: int
) -> None:
    data = TreeData(ROWS, np.arange(20) % (n_classes or 3), np.ones(20), n_classes)
    model = LIBRARIES["catboost"].fit(data, GROWTH)
    params = CatBoost.made[0].params
    assert params["loss_function"] == loss
    assert params.get("classes_count") == (4 if n_classes == 4 else None)
    assert (params["iterations"], params["max_leaves"], params["min_data_in_leaf"]) == (5, 6, 2)
    assert (params["subsample"], params["border_count"], params["l2_leaf_reg"]) == (0.7, 254, 0.5)
    assert params["rsm"] == 0.6
    assert params["random_seed"] < 2**31
    assert params["allow_writing_files"] is False
    assert CatBoost.made[0].options == {}
    restored = LIBRARIES["catboost"].from_bytes(model.to_bytes())
    assert (restored.n_columns, restored.n_features) == (n_columns, 3)
    output = restored.predict(ROWS, 2)
    assert output.shape == (20, n_columns)
    np.testing.assert_array_equal(output, model.predict(ROWS, 2))
    assert restored.importances().tolist() == [50, 30, 20]


def test_validation_rows_and_categories_are_handed_on() -> None:
    rows = ROWS.copy()
    rows[:, 1] = np.arange(20) % 4
    rows[0, 1] = np.nan
    data = TreeData(
        rows,
        np.arange(20) % 2,
        np.ones(20),
        2,
        validation=(rows[:5], np.ones(5)),
        is_category=np.array([False, True, False]),
    )
    model = LIBRARIES["catboost"].fit(data, replace(GROWTH, patience=3))
    made = CatBoost.made[0]
    assert made.options["early_stopping_rounds"] == 3
    assert made.options["use_best_model"] is True
    assert made.options["eval_set"].cat_features == made.pool.cat_features == [1]
    assert [type(value) for value in made.pool.data[1]] == [float, int, float]
    assert made.pool.data[:5, 1].tolist() == [-1, 1, 2, 3, 0]
    model.predict(rows, 2)
    assert made.seen[0, 1] == -1
