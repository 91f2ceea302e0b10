"""What all libraries of boosted trees have to do alike."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import log_loss

from gbgnn.errors import ParameterError
from gbgnn.learners import tree_libraries
from gbgnn.learners.tree_arrays import LEAF, TreeArrays
from gbgnn.learners.tree_libraries import KINDS, LIBRARIES, Growth, TreeData, TreeModel, find_library

READABLE = [name for name in KINDS if name != "catboost"]
GROWTH = Growth(
    n_trees=8,
    learning_rate=0.3,
    max_leaves=6,
    min_leaf=3,
    l2=1.0,
    subsample=1.0,
    column_share=1.0,
    patience=None,
    max_bins=64,
    seed=7,
    n_threads=1,
)


def each_of(names: Iterable[str]) -> pytest.MarkDecorator:
    """Run a test with every library that is installed."""
    marks = {
        name: pytest.mark.skipif(find_spec(name) is None, reason=f"{name} is not installed")
        for name in LIBRARIES
    }
    return pytest.mark.parametrize("name", [pytest.param(n, marks=marks.get(n, ())) for n in names])


every_library, every_kind = each_of(LIBRARIES), each_of(KINDS)


def make_data(n_classes: int | None, *, missing: bool = False, n_rows: int = 200, seed: int = 0) -> TreeData:
    random = np.random.default_rng(seed)
    rows = random.normal(size=(n_rows, 4)).astype(np.float32)
    signal = rows[:, 0] + 0.5 * rows[:, 1] * rows[:, 2]
    if missing:
        rows[random.random(rows.shape) < 0.2] = np.nan
    cuts = np.quantile(signal, np.linspace(0, 1, (n_classes or 2) + 1)[1:-1])
    targets = signal.astype(float) if n_classes is None else np.searchsorted(cuts, signal)
    return TreeData(rows, targets, np.ones(n_rows), n_classes)


def probabilities(output: NDArray[Any]) -> NDArray[Any]:
    if output.shape[1] == 1:
        output = np.hstack([np.zeros_like(output), output])
    powers = np.exp(output - output.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def error(model: TreeModel, data: TreeData) -> float:
    output = model.predict(data.rows, 1)
    if data.n_classes is None:
        return float(np.mean((output[:, 0] - data.targets) ** 2) / np.var(data.targets))
    return float(log_loss(data.targets, probabilities(output), labels=range(data.n_classes)))


@every_kind
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("n_classes", [None, 2, 3])
def test_trees_learn_and_come_back_from_bytes_the_same(
    name: str, n_classes: int | None, missing: bool
) -> None:
    data = make_data(n_classes, missing=missing)
    model = KINDS[name].fit(data, GROWTH)
    output = model.predict(data.rows, 1)
    assert output.shape == (200, model.n_columns)
    assert model.n_features == 4
    assert error(model, data) < (0.6 if n_classes is None else np.log(n_classes) * 0.75)
    restored = KINDS[name].from_bytes(model.to_bytes())
    other = make_data(n_classes, missing=missing, seed=1).rows
    assert restored.predict(other, 1).tobytes() == model.predict(other, 1).tobytes()
    assert KINDS[name].fit(data, GROWTH).predict(other, 1).tobytes() == model.predict(other, 1).tobytes()


@every_kind
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("n_classes", [None, 2, 3])
def test_trees_read_one_by_one_predict_the_same(name: str, n_classes: int | None, missing: bool) -> None:
    data = make_data(n_classes, missing=missing)
    model = KINDS[name].fit(data, GROWTH)
    rows = make_data(n_classes, missing=True, seed=2).rows  # also where no value was missing in training
    if name not in READABLE:
        with pytest.raises(ParameterError, match=f"the trees of {name} cannot be read one by one"):
            model.trees()
        return
    np.testing.assert_allclose(add_trees(model, rows), model.predict(rows, 1), rtol=1e-5, atol=1e-5)


def add_trees(model: TreeModel, rows: NDArray[Any]) -> NDArray[Any]:
    trees, base = model.trees()
    total = np.tile(base, (len(rows), 1))
    for tree in trees:
        total[:, tree.column] += tree.predict(rows)
    return total


def own_gains(name: str, model: Any) -> NDArray[Any]:
    """What a library itself says of the gains of its columns."""
    if name == "lightgbm":
        return np.asarray(model.booster.feature_importance("gain"))
    if name == "xgboost":
        found = model.booster.get_score(importance_type="total_gain")
        return np.array([found.get(f"f{i}", 0.0) for i in range(model.n_features)])
    total = np.zeros(model.n_features)
    for grown in model.estimator._predictors:
        for tree in grown:
            for node in tree.nodes:
                if not node["is_leaf"]:
                    total[node["feature_idx"]] += node["gain"]
    return total


@every_library
@pytest.mark.parametrize("n_classes", [None, 2, 3])
def test_importances_are_the_librarys_gains_and_come_back_from_bytes(
    name: str, n_classes: int | None
) -> None:
    model = LIBRARIES[name].fit(make_data(n_classes, missing=True), GROWTH)
    found = model.importances()
    if name in READABLE:
        np.testing.assert_allclose(found, own_gains(name, model), rtol=1e-5)
    assert found.argmax() == 0
    assert found[3] < found[0] / 2
    restored = LIBRARIES[name].from_bytes(model.to_bytes())
    np.testing.assert_array_equal(restored.importances(), found)


def test_gains_that_are_no_numbers_count_as_nothing() -> None:
    tree = TreeArrays(
        feature=np.array([2, 0, 2, 1, 0, 0, 0, 0, 0]),
        threshold=np.zeros(9),
        left=np.array([1, 3, 5, 7, LEAF, LEAF, LEAF, LEAF, LEAF]),
        right=np.array([2, 4, 6, 8, LEAF, LEAF, LEAF, LEAF, LEAF]),
        missing_left=np.zeros(9, dtype=bool),
        value=np.zeros(9),
        gain=np.array([3.0, np.inf, 2.0, np.nan, 9, 9, 9, 9, 9]),
    )
    assert tree.check(4).gain_by_feature(4).tolist() == [0, 0, 5, 0]
    assert replace(tree, gain=None).check(4).gain_by_feature(4).tolist() == [0, 0, 0, 0]
    with pytest.raises(ValueError, match="different lengths"):
        replace(tree, gain=np.ones(3)).check(4)


@every_library
def test_columns_beside_categories_keep_their_places(name: str) -> None:
    data = make_data(None)
    rows = np.column_stack([data.rows, np.arange(200) % 2]).astype(np.float32)  # which tells nothing
    data = replace(data, rows=rows, is_category=np.arange(5) == 4)
    model = LIBRARIES[name].fit(data, replace(GROWTH, n_trees=2, max_leaves=3))
    assert model.importances().argmax() == 0
    assert model.importances()[4] == 0
    if name in READABLE:
        trees, base = model.trees()
        total = base + sum(tree.predict(rows) for tree in trees)
        np.testing.assert_allclose(total, model.predict(rows, 1)[:, 0], rtol=1e-5)


@every_kind
def test_weights_count(name: str) -> None:
    data = make_data(None)
    doubled = replace(data, targets=np.where(np.arange(200) < 100, data.targets, 5.0))
    favoured = replace(doubled, weights=np.where(np.arange(200) < 100, 2.0, 1e-6))
    first = make_data(None).rows[:100]
    error_of = {
        each: np.mean((KINDS[name].fit(each, GROWTH).predict(first, 1)[:, 0] - data.targets[:100]) ** 2)
        for each in (doubled, favoured)
    }
    assert error_of[favoured] < error_of[doubled] / 2


@every_library
@pytest.mark.parametrize("n_classes", [None, 2, 3])
def test_early_stopping_goes_back_to_the_best_trees(name: str, n_classes: int | None) -> None:
    train = make_data(n_classes, n_rows=60)
    random = np.random.default_rng(0)
    noisy = replace(train, targets=random.permutation(train.targets))  # nothing is to be learned
    validation = make_data(n_classes, seed=3)
    watched = replace(noisy, validation=(validation.rows, validation.targets))
    growth = replace(GROWTH, n_trees=60, patience=5)
    stopped = LIBRARIES[name].fit(watched, growth)
    assert error(stopped, validation) < error(LIBRARIES[name].fit(noisy, growth), validation)
    if name in READABLE:
        assert len(stopped.trees()[0]) < 30 * stopped.n_columns
    unwatched = LIBRARIES[name].fit(watched, replace(growth, patience=None))
    assert error(unwatched, noisy) < error(stopped, noisy)


@every_library
def test_categories_are_split_as_sets(name: str) -> None:
    random = np.random.default_rng(0)
    rows = random.normal(size=(400, 2))
    rows[:, 1] = random.integers(0, 12, 400)
    targets = np.isin(rows[:, 1], [1, 4, 6, 9, 11]).astype(int)
    rows[:5, 1] = np.nan
    data = TreeData(rows, targets, np.ones(400), 2, is_category=np.array([False, True]))
    growth = replace(GROWTH, n_trees=5, max_leaves=2, learning_rate=1.0)  # stumps
    model = LIBRARIES[name].fit(data, growth)
    by_number = LIBRARIES[name].fit(replace(data, is_category=None), growth)
    assert error(model, data) < error(by_number, data) / 2
    restored = LIBRARIES[name].from_bytes(model.to_bytes())
    unseen = np.array([[0.0, 3.0], [0.0, 14.0], [0.0, np.nan]])
    assert restored.predict(unseen, 1).tobytes() == model.predict(unseen, 1).tobytes()
    if name in READABLE:
        assert any(tree.has_categories for tree in model.trees()[0])
        everything = np.vstack([rows, unseen]).astype(np.float32)
        np.testing.assert_allclose(add_trees(model, everything), model.predict(everything, 1), atol=1e-5)


@every_kind
@pytest.mark.parametrize("present", [[0, 2], [1], [0, 1, 3]])
def test_a_class_that_no_row_has_gets_no_votes(name: str, present: list[int]) -> None:
    data = make_data(4)
    kept = np.isin(data.targets, present)
    few = TreeData(data.rows[kept], data.targets[kept], np.ones(kept.sum()), 4)
    model = KINDS[name].fit(few, GROWTH)
    restored = KINDS[name].from_bytes(model.to_bytes())
    assert set(model.predict(data.rows, 1).argmax(axis=1)) <= set(present)
    assert np.isfinite(model.predict(data.rows, 1)).all()
    assert restored.predict(data.rows, 1).tobytes() == model.predict(data.rows, 1).tobytes()
    if name in READABLE:
        trees, base = model.trees()
        total = np.tile(base, (len(data.rows), 1))
        for tree in trees:
            total[:, tree.column] += tree.predict(data.rows)
        np.testing.assert_allclose(total, model.predict(data.rows, 1), rtol=1e-5, atol=1e-5)


@every_kind
def test_a_validation_class_that_no_row_has_is_no_obstacle(name: str) -> None:
    data = make_data(3)
    kept = data.targets < 2
    few = TreeData(data.rows[kept], data.targets[kept], np.ones(kept.sum()), 3)
    growth = replace(GROWTH, patience=3)
    for rows, targets in ((data.rows, data.targets), (data.rows[~kept], data.targets[~kept])):
        model = KINDS[name].fit(replace(few, validation=(rows, targets)), growth)
        assert np.isfinite(model.predict(rows, 1)).all()


@every_library
@pytest.mark.parametrize("setting", ["subsample", "column_share"])
def test_a_share_makes_other_trees_and_the_seed_the_same(name: str, setting: str) -> None:
    data, growth = make_data(2), replace(GROWTH, **{setting: 0.5})
    first, again, other, whole = (
        LIBRARIES[name].fit(data, each).predict(data.rows, 1)
        for each in (growth, growth, replace(growth, seed=8), GROWTH)
    )
    assert first.tobytes() == again.tobytes()
    assert first.tobytes() != other.tobytes()
    assert first.tobytes() != whole.tobytes()


@pytest.mark.parametrize("name", ["lightgbm", "xgboost"])
def test_a_tree_splits_by_its_share_of_the_columns(name: str) -> None:
    data = make_data(None)
    counts = {}
    for share in (0.5, 1.0):
        trees, _ = LIBRARIES[name].fit(data, replace(GROWTH, column_share=share)).trees()
        counts[share] = max(len(set(tree.feature[tree.left != LEAF])) for tree in trees)
    assert counts[0.5] == 2 < counts[1.0]


@every_kind
def test_threads_do_not_change_the_trees(name: str) -> None:
    data = make_data(3, n_rows=2000)
    one, two = (KINDS[name].fit(data, replace(GROWTH, n_threads=n)) for n in (1, 2))
    assert one.predict(data.rows, 1).tobytes() == two.predict(data.rows, 2).tobytes()


def test_auto_is_lightgbm_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_library("auto").library == ("sklearn" if find_spec("lightgbm") is None else "lightgbm")
    monkeypatch.setattr(tree_libraries, "find_spec", lambda name: None)
    assert find_library("auto").library == "sklearn"
    assert find_library("xgboost").library == "xgboost"
