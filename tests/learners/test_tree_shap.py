"""Against all subsets of columns, and against what LightGBM and XGBoost say themselves."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from itertools import combinations
from math import factorial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from gbgnn.learners.tree_arrays import LEAF, TreeArrays
from gbgnn.learners.tree_head import AveragedTrees, TreesHead
from gbgnn.learners.tree_libraries import LIBRARIES, Forest, Growth, TreeData
from gbgnn.learners.tree_shap import shapley_values

GROWTH = Growth(
    n_trees=6,
    learning_rate=0.3,
    max_leaves=12,
    min_leaf=3,
    l2=1.0,
    subsample=1.0,
    column_share=1.0,
    patience=None,
    max_bins=64,
    seed=7,
    n_threads=1,
)


def grow(random: np.random.Generator, depth: int, n_columns: int) -> TreeArrays:
    """Return a random tree, in which a column may be asked for again and again along a path."""
    nodes: list[dict[str, Any]] = []

    def add(level: int, cover: float) -> int:
        place = len(nodes)
        nodes.append({"left": LEAF, "right": LEAF, "cover": cover})
        if level < depth and random.random() < 0.85:
            share = random.uniform(0.1, 0.9)
            nodes[place]["left"] = add(level + 1, share * cover)
            nodes[place]["right"] = add(level + 1, (1 - share) * cover)
        return place

    add(0, 100.0)
    n = len(nodes)
    return TreeArrays(
        feature=random.integers(0, n_columns, n),
        threshold=random.normal(size=n),
        left=np.array([each["left"] for each in nodes]),
        right=np.array([each["right"] for each in nodes]),
        missing_left=random.random(n) < 0.5,
        value=random.normal(size=n),
        cover=np.array([each["cover"] for each in nodes]),
    ).check(n_columns)


def expect(tree: TreeArrays, row: NDArray[Any], known: set[int], node: int = 0) -> float:
    """Return the output with some columns known, by the definition."""
    if tree.left[node] == LEAF:
        return float(tree.value[node])
    children = int(tree.left[node]), int(tree.right[node])
    assert tree.cover is not None
    if int(tree.feature[node]) in known:
        return expect(tree, row, known, children[0 if tree.goes_left(row[None])[0, node] else 1])
    weights = tree.cover[list(children)] / tree.cover[node]
    return float(sum(w * expect(tree, row, known, child) for w, child in zip(weights, children, strict=True)))


def brute_force(tree: TreeArrays, row: NDArray[Any]) -> NDArray[Any]:
    n = len(row)
    found = np.zeros(n)
    for column in range(n):
        others = [each for each in range(n) if each != column]
        for size in range(n):
            weight = factorial(size) * factorial(n - 1 - size) / factorial(n)
            for known in combinations(others, size):
                found[column] += weight * (
                    expect(tree, row, {*known, column}) - expect(tree, row, set(known))
                )
    return found


@given(seed=st.integers(0, 2**32 - 1), depth=st.integers(0, 5), n_columns=st.integers(1, 5))
def test_values_are_those_of_all_subsets(seed: int, depth: int, n_columns: int) -> None:
    random = np.random.default_rng(seed)
    tree = grow(random, depth, n_columns)
    rows = random.normal(size=(3, n_columns))
    rows[random.random(rows.shape) < 0.2] = np.nan
    values, mean = shapley_values([tree], rows, 1)
    np.testing.assert_allclose(values[..., 0], [brute_force(tree, row) for row in rows], atol=1e-12)
    assert mean[0] == pytest.approx(expect(tree, rows[0], set()))
    np.testing.assert_allclose(values.sum(axis=1)[:, 0] + mean, tree.predict(rows), atol=1e-12)


def make_data(n_classes: int | None) -> TreeData:
    random = np.random.default_rng(0)
    rows = random.normal(size=(300, 6)).astype(np.float32)
    rows[:, 5] = random.integers(0, 9, 300)
    signal = rows[:, 0] + rows[:, 1] * rows[:, 2] + np.isin(rows[:, 5], [1, 4, 6])
    rows[:, :4][random.random((300, 4)) < 0.1] = np.nan
    cuts = np.quantile(signal, np.linspace(0, 1, (n_classes or 2) + 1)[1:-1])
    targets = signal.astype(float) if n_classes is None else np.searchsorted(cuts, signal)
    return TreeData(rows, targets, np.ones(300), n_classes, is_category=np.arange(6) == 5)


def ask_library(name: str, model: Any, rows: NDArray[Any]) -> NDArray[Any]:
    """Return contributions as the library computes them, shape (rows, columns and a mean, outputs)."""
    if name == "lightgbm":
        told = model.booster.predict(rows, pred_contrib=True)
        return np.reshape(told, (len(rows), model.n_columns, -1)).transpose(0, 2, 1)
    own = {"feature_types": model.booster.feature_types, "enable_categorical": True}
    told = model.booster.predict(model.load_library().DMatrix(rows, **own), pred_contribs=True)
    return np.reshape(told, (len(rows), model.n_columns, -1)).transpose(0, 2, 1)


@pytest.mark.parametrize("n_classes", [None, 2, 3])
@pytest.mark.parametrize("name", ["lightgbm", "xgboost"])
def test_values_are_those_that_the_library_computes(name: str, n_classes: int | None) -> None:
    if find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    data = make_data(n_classes)
    model = LIBRARIES[name].fit(data, GROWTH)
    assert any(tree.has_categories for tree in model.trees()[0])
    trees, base = model.trees()
    values, means = shapley_values(trees, data.rows, model.n_columns)
    told = ask_library(name, model, data.rows)
    np.testing.assert_allclose(values, told[:, :-1], atol=2e-5)
    np.testing.assert_allclose(base + means, told[0, -1], atol=2e-5)


@pytest.mark.parametrize("n_classes", [None, 2, 3])
def test_values_of_a_forest_are_those_of_its_trees_one_by_one(n_classes: int | None) -> None:
    data = make_data(n_classes)
    forest = Forest.fit(data, GROWTH)
    trees, base = forest.trees()
    values, means = shapley_values(trees, data.rows[:40], forest.n_columns)
    alone = [shapley_values([replace(tree)], data.rows[:40], forest.n_columns) for tree in trees]
    np.testing.assert_allclose(values, np.sum([each for each, _ in alone], axis=0), atol=1e-9)
    np.testing.assert_allclose(means, np.sum([mean for _, mean in alone], axis=0), atol=1e-9)
    outputs = forest.predict(data.rows[:40], 1)
    np.testing.assert_allclose(values.sum(axis=1) + base + means, outputs, atol=1e-5)


def test_leaves_that_nothing_leads_to_say_nothing() -> None:
    tree = TreeArrays(
        feature=np.array([0, 0, 0, 0, 0, 0]),
        threshold=np.zeros(6),
        left=np.array([1, LEAF, LEAF, 4, LEAF, LEAF]),
        right=np.array([2, LEAF, LEAF, 5, LEAF, LEAF]),
        missing_left=np.zeros(6, dtype=bool),
        value=np.array([0.0, 1.0, 2.0, 0.0, 50.0, 60.0]),
        cover=np.array([4.0, 1.0, 3.0, 2.0, 1.0, 1.0]),
    ).check(1)
    values, mean = shapley_values([tree], np.array([[-1.0], [1.0]]), 1)
    assert mean[0] == pytest.approx(1.75)
    assert values.ravel().tolist() == pytest.approx([-0.75, 0.25])


@pytest.mark.parametrize("n_classes", [None, 2, 3])
def test_values_of_averaged_trees_sum_to_the_outputs_of_a_head(n_classes: int | None) -> None:
    data = make_data(n_classes)
    few = TreeData(data.rows[:, :3], data.targets, data.weights, n_classes)
    models = [LIBRARIES["sklearn"].fit(each, GROWTH) for each in (few, data)]
    members = [AveragedTrees(0.25, models[:1]), AveragedTrees(0.75, models[1:])]
    head = TreesHead(members, n_classes or 1, 6)
    found = head.shapley(data.rows)
    assert found is not None
    values, base = found
    outputs = head(torch.from_numpy(data.rows)).numpy()
    assert values.shape == (300, 6, n_classes or 1)
    np.testing.assert_allclose(values.sum(axis=1) + base, outputs, atol=1e-5)
    assert np.abs(values).sum(axis=(0, 2)).argmin() in (3, 4)  # which say nothing
