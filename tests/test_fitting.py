from __future__ import annotations

import numpy as np

from gbgnn.fitting import check_weights, encode_classes, given_validation, split_validation
from gbgnn.testing import two_blocks


def test_classes_are_sorted_and_encoded() -> None:
    classes, targets = encode_classes(np.array(["b", "a", "b"], dtype=object), 3)
    assert classes.tolist() == ["a", "b"]
    assert targets.tolist() == [1, 0, 1]


def test_validation_is_encoded_with_the_classes_of_training() -> None:
    graph, _ = two_blocks(10)
    rows, targets = given_validation(([5, 4], ["b", "a"]), np.array([0]), np.array(["a", "b", "c"]), graph)
    assert rows.tolist() == [5, 4]
    assert targets.tolist() == [1, 0]


def test_split_is_stratified_disjoint_and_complete() -> None:
    targets = np.array([0] * 30 + [1] * 10)
    stays, leaves = split_validation(0.2, targets, seed=0)
    assert sorted([*stays, *leaves]) == list(range(40))
    assert np.bincount(targets[leaves]).tolist() == [6, 2]


def test_weights_of_nodes_and_classes_multiply() -> None:
    labels = np.array([0, 0, 1])
    np.testing.assert_allclose(check_weights([1, 2, 3], {0: 1.0, 1: 10.0}, labels), [1, 2, 30])
    np.testing.assert_allclose(check_weights(None, "balanced", labels), [0.75, 0.75, 1.5])
