from __future__ import annotations

import numpy as np
import pytest

from gbgnn.datasets.arrays import as_labels, is_labelled
from gbgnn.errors import DataError


def test_booleans_and_unsigned_integers_become_int64():
    assert as_labels(np.array([True, False])).tolist() == [1, 0]
    assert as_labels(np.array([3, 4], dtype=np.uint8)).dtype == np.int64


def test_a_column_of_labels_is_flattened():
    assert as_labels([[1], [0]]).tolist() == [1, 0]


def test_objects_become_text_or_integers_with_gaps_marked():
    assert as_labels(np.array(["a", None], dtype=object)).tolist() == ["a", ""]
    assert as_labels(np.array([2, None], dtype=object)).tolist() == [2, -1]


def test_unlabelled_nodes_are_minus_one_or_empty_text():
    assert is_labelled(np.array([0, -1])).tolist() == [True, False]
    assert is_labelled(np.array(["a", ""])).tolist() == [True, False]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[0, 1], [1, 0]], r"one label per node, shape \(n,\); got shape \(2, 2\)"),
        ([0.5, 1.0], r"holds 0\.5 at node 0; classes must be whole"),
        ([np.inf, 1.0], "holds inf at node 0"),
        ([-1, 1, 1], "only -1 and 1"),
        (np.array(["a", 1], dtype=object), "mixes labels of types int, str"),
        (np.array([b"a"]), "must hold integers or strings"),
    ],
)
def test_unusable_labels_are_refused(values, message):
    with pytest.raises(DataError, match=message):
        as_labels(values)
