from __future__ import annotations

import numpy as np
import pytest

from gbgnn.datasets.node_index import NodeIndex
from gbgnn.errors import DataError


def test_rows_follow_the_given_order_not_the_sorted_one():
    index = NodeIndex(np.array([30, 10, 20]), "nodes")
    assert index.rows(np.array([10, 30, 20]), "edges").tolist() == [1, 0, 2]


def test_numbers_and_words_meet_as_text():
    index = NodeIndex(np.array(["x", "10", "9"]), "nodes")
    assert index.rows(np.array([9, 10]), "edges").tolist() == [2, 1]
    assert NodeIndex(np.array([9, 10]), "nodes").rows(np.array(["10"]), "edges").tolist() == [1]


def test_whole_floats_are_ids():
    assert NodeIndex(np.array([1.0, 2.0]), "nodes").ids.tolist() == [1, 2]


def test_no_edges_need_no_rows():
    assert NodeIndex(np.array(["a"]), "nodes").rows(np.empty(0), "edges").tolist() == []


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["a", "b", "a"], r"nodes: id 'a' stands in data rows 1 and 3.*\(1 repeated ids\)"),
        (["a", ""], r"data row 2 has no id \(1 such rows\)"),
        ([1.0, np.nan], "data row 2 has no id"),
        ([1.0, 2.5], r"data row 2 has id 2\.5; ids are whole"),
    ],
)
def test_unusable_ids_are_refused(ids, message):
    with pytest.raises(DataError, match=message):
        NodeIndex(np.array(ids), "nodes")


def test_an_unknown_id_is_named_with_its_row():
    index = NodeIndex(np.array(["a", "b"]), "nodes.csv")
    with pytest.raises(
        DataError, match=r"edges\.csv: data row 2 names node 'z', which is not an id in nodes\.csv \(1 such"
    ):
        index.rows(np.array(["a", "z"]), "edges.csv")
