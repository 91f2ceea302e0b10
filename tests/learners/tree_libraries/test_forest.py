"""Forests, beside scikit-learn's own, and what a file may do to them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.metrics import log_loss

from gbgnn.learners.tree_libraries import Forest, Growth, TreeData
from gbgnn.learners.tree_libraries.forest import SCALES, USUAL_SCALE

GROWTH = Growth(
    n_trees=7,
    learning_rate=0.1,
    max_leaves=31,
    min_leaf=2,
    l2=1.0,
    subsample=1.0,
    column_share=1.0,
    patience=None,
    max_bins=255,
    seed=3,
    n_threads=1,
)


def make_data(n_classes: int | None, *, n_rows: int = 150, seed: int = 0) -> TreeData:
    random = np.random.default_rng(seed)
    rows = random.normal(size=(n_rows, 3)).astype(np.float32)
    signal = rows[:, 0] + 0.3 * random.normal(size=n_rows)
    cuts = np.quantile(signal, np.linspace(0, 1, (n_classes or 2) + 1)[1:-1])
    targets = signal if n_classes is None else np.searchsorted(cuts, signal)
    return TreeData(rows, targets, np.ones(n_rows), n_classes)


def fit_sklearn(rows: NDArray[np.float32], targets: NDArray[np.float64]) -> ExtraTreesRegressor:
    forest = ExtraTreesRegressor(n_estimators=7, min_samples_leaf=2, max_features=1.0, random_state=3)
    return forest.fit(rows, targets)


def test_numbers_are_scikit_learns() -> None:
    data, other = make_data(None), make_data(None, seed=1).rows
    reference, forest = fit_sklearn(data.rows, data.targets), Forest.fit(data, GROWTH)
    np.testing.assert_allclose(forest.predict(other, 1)[:, 0], reference.predict(other), rtol=1e-5, atol=1e-6)
    importances = [tree.tree_.compute_feature_importances(normalize=False) for tree in reference.estimators_]
    np.testing.assert_allclose(forest.importances(), 150 * np.mean(importances, axis=0), rtol=1e-5)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes_are_their_shares_times_a_scale(n_classes: int) -> None:
    data, other = make_data(n_classes), make_data(n_classes, seed=1).rows
    shares = fit_sklearn(data.rows, np.eye(n_classes)[data.targets]).predict(other)
    output = Forest.fit(data, GROWTH).predict(other, 1)
    if n_classes == 2:
        wanted = USUAL_SCALE * (shares[:, 1] - shares[:, 0])
        np.testing.assert_allclose(output[:, 0], wanted, rtol=1e-5, atol=1e-5)
    else:
        np.testing.assert_allclose(output, USUAL_SCALE * shares, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("seed", range(3))
def test_the_scale_has_the_least_loss_of_validation(n_classes: int, seed: int) -> None:
    data, validation = make_data(n_classes, seed=seed), make_data(n_classes, seed=seed + 10)
    unscaled = Forest.fit(data, GROWTH).predict(validation.rows, 1) / USUAL_SCALE
    losses = []
    for scale in SCALES:
        logits = scale * unscaled
        if n_classes == 2:
            logits = np.hstack([np.zeros_like(logits), logits])
        powers = np.exp(logits)
        losses.append(log_loss(validation.targets, powers / powers.sum(axis=1, keepdims=True)))
    watched = replace(data, validation=(validation.rows, validation.targets))
    output = Forest.fit(watched, GROWTH).predict(validation.rows, 1)
    np.testing.assert_allclose(output, SCALES[int(np.argmin(losses))] * unscaled, rtol=1e-5, atol=1e-6)


def test_a_missing_value_is_less_than_all_others() -> None:
    data = make_data(3)
    rows = data.rows.copy()
    rows[::4, 0] = np.nan
    missing = Forest.fit(replace(data, rows=rows), GROWTH)
    lowest = np.where(np.isnan(rows), -1e6, rows)
    np.testing.assert_array_equal(missing.predict(rows, 1), missing.predict(lowest, 1))
    everything = np.full_like(rows, np.nan)
    assert np.isfinite(Forest.fit(replace(data, rows=everything), GROWTH).predict(rows, 1)).all()


STORED = Forest.fit(make_data(3), GROWTH)


def forge(**header: int) -> bytes:
    """Return the bytes of a forest with other numbers in front."""
    numbers = np.frombuffer(STORED.to_bytes(), dtype="<i8", count=10).copy()
    for place, name in enumerate(("n_features", "n_columns", "n_trees", "size")):
        numbers[place] = header.get(name, numbers[place])
    return numbers.tobytes() + STORED.to_bytes()[80:]


@pytest.mark.parametrize("name", ["n_features", "n_columns", "n_trees", "size"])
@pytest.mark.parametrize("value", [-(2**63), -1, 0, 2, 10**6, 2**62])
def test_other_sizes_are_refused(name: str, value: int) -> None:
    assert Forest.from_bytes(forge()).to_bytes() == STORED.to_bytes()
    if name == "n_features" and value > 2:  # more columns than trees look at do no harm
        assert Forest.from_bytes(forge(n_features=value)).n_features == value
        return
    with pytest.raises(ValueError, match=r"forest|tree|buffer|dtype|count|offset|size"):
        Forest.from_bytes(forge(**{name: value}))


@pytest.mark.parametrize("field", ["left", "right", "feature"])
@pytest.mark.parametrize("value", [-2, 0, 10**6])
def test_a_node_must_lead_to_a_later_one(field: str, value: int) -> None:
    if (field, value) == ("feature", 0):
        value = 3  # of 0, 1, 2
    nodes = STORED.nodes.copy()
    nodes[field][0] = value
    with pytest.raises(ValueError, match="tree"):
        Forest.from_bytes(replace(STORED, nodes=nodes).to_bytes())


def test_values_must_be_numbers_and_bytes_whole() -> None:
    nodes = STORED.nodes.copy()
    nodes["value"][0] = np.nan
    with pytest.raises(ValueError, match="others than it says"):
        Forest.from_bytes(replace(STORED, nodes=nodes).to_bytes())
    data = STORED.to_bytes()
    for cut in (0, 7, 23, 30, 100, len(data) - 1):
        with pytest.raises(ValueError, match=r".+"):
            Forest.from_bytes(data[:cut])
    random = np.random.default_rng(0)
    for _ in range(300):
        forged = bytearray(data)
        forged[random.integers(len(data))] ^= 1 << int(random.integers(8))
        try:
            loaded = Forest.from_bytes(bytes(forged))
        except ValueError:
            continue
        loaded.predict(make_data(3).rows[:, :1].repeat(min(loaded.n_features, 9), axis=1), 1)
