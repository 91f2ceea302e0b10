from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gbgnn import GBGNNClassifier
from gbgnn.tasks.shares import match_shares
from gbgnn.testing import two_blocks

CLASSES = st.lists(st.integers(0, 3), min_size=1, max_size=200).map(np.array)


@settings(max_examples=300, deadline=None)
@given(CLASSES, CLASSES)
def test_weighted_shares_are_those_elsewhere(targets: np.ndarray, elsewhere: np.ndarray) -> None:
    weights, differ = match_shares(targets, elsewhere, 4)
    assert weights.shape == targets.shape
    if not differ:
        assert (weights == 1).all()
        return
    wanted = (np.bincount(elsewhere, minlength=4) + 1) / (len(elsewhere) + 4)
    for kind in np.unique(targets):
        share = weights[targets == kind].sum() / len(targets)
        assert share == pytest.approx(wanted[kind])


def test_the_same_shares_change_nothing() -> None:
    targets = np.arange(300) % 3
    assert match_shares(targets, np.arange(60) % 3, 3) == (pytest.approx(np.ones(300)), False)


def test_shares_are_all_that_training_learns_of_validation_labels() -> None:
    graph, y = two_blocks(200)
    train, rest = np.arange(80), np.arange(80, 200)
    val = np.concatenate([rest[y[rest] == 0][:50], rest[y[rest] == 1][:8]])
    scrambled = np.random.default_rng(0).permutation(y[val])
    settings = {"class_weight": "validation", "n_rounds": 2, "random_state": 0, "select": "last"}
    first, second = (
        GBGNNClassifier(**settings).fit(train, y[train], graph=graph, validation=(val, labels))
        for labels in (y[val], scrambled)
    )
    np.testing.assert_array_equal(first.scores_, second.scores_)
    weights = first.model_.train.weights.numpy()
    assert weights[y[train] == 0].sum() == pytest.approx(51 / 60)
    plain = GBGNNClassifier(**settings | {"class_weight": None}).fit(
        train, y[train], graph=graph, validation=(val, y[val])
    )
    assert not np.array_equal(plain.scores_, first.scores_)


def test_without_validation_nodes_there_is_nothing_to_match() -> None:
    graph, y = two_blocks(60)
    fits = [
        GBGNNClassifier(class_weight=each, n_rounds=1, random_state=0).fit(range(30), y[:30], graph=graph)
        for each in ("validation", None)
    ]
    np.testing.assert_array_equal(fits[0].scores_, fits[1].scores_)


def test_several_labels_stay_as_they_are() -> None:
    graph, y = two_blocks(60)
    labels = np.column_stack([y, 1 - y])
    model = GBGNNClassifier(class_weight="validation", n_rounds=1, random_state=0)
    model.fit(range(30), labels[:30], graph=graph, validation=(range(30, 40), labels[30:40]))
    assert np.ptp(model.model_.train.weights.numpy()) == 0
