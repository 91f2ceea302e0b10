from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gbgnn.datasets import node_index
from gbgnn.datasets.node_index import EdgeEnd, NodeIndex
from gbgnn.datasets.scratch import Scratch
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


@st.composite
def id_lists(draw):
    kind = draw(st.sampled_from(["dense", "sparse", "text"]))
    if kind == "dense":
        first = draw(st.integers(-9, 9))
        return np.array(draw(st.permutations(range(first, first + draw(st.integers(1, 30))))))
    if kind == "sparse":
        return np.array(draw(st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=40, unique=True)))
    text = st.text(st.sampled_from("ab1é "), min_size=1, max_size=5).map(str.strip).filter(bool)
    return np.array(draw(st.lists(text, min_size=1, max_size=40, unique=True)))


@settings(deadline=None)
@given(ids=id_lists(), room=st.sampled_from([1, 500, 1500, 10**9]), data=st.data())
def test_ids_sorted_on_disk_are_found_as_by_a_dictionary(ids, room, data) -> None:
    known = {value: row for row, value in enumerate(ids.tolist())}
    strange = (
        ["zz", "", "1 ", "ab1é a", "longer than any"]
        if ids.dtype.kind == "U"
        else [2**63 - 1, -(2**63), 10**6]
    )
    wanted = data.draw(st.lists(st.sampled_from([*known, *strange]), max_size=30))
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.setattr(Scratch, "room", lambda _: room)
        index = NodeIndex(ids, "nodes", Scratch(Path(place)))
        found = index.find(np.array(wanted, ids.dtype if ids.dtype.kind == "i" else np.str_))
        assert found.tolist() == [known.get(value, -1) for value in wanted]
        assert len(ids) < 3 or room > 1 or any(Path(place).rglob("rows.npy"))


@given(ids=st.lists(st.integers(0, 20), min_size=2, max_size=30), room=st.sampled_from([1, 10**9]))
def test_repeated_ids_on_disk_are_said_as_in_memory(ids, room) -> None:
    def say(scratch: Scratch | None) -> str:
        try:
            NodeIndex(np.array(ids), "nodes", scratch)
        except DataError as error:
            return str(error)
        return ""

    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.setattr(Scratch, "room", lambda _: room)
        assert say(Scratch(Path(place))) == say(None)
        assert bool(say(None)) == (len(set(ids)) < len(ids))


def test_ids_and_names_of_no_node_that_have_the_same_hash_are_told_apart(monkeypatch) -> None:
    same, hash_ids = {"zoe": "ann", "bo": "bob"}, node_index.hash_ids
    monkeypatch.setattr(
        node_index,
        "hash_ids",
        lambda ids: hash_ids(np.array([same.get(each, each) for each in ids.tolist()])),
    )
    index = NodeIndex(np.array(["ann", "bob"]), "nodes")
    assert index.find(np.array(["zoe", "bob", "ann", "bo"])).tolist() == [-1, 1, 0, -1]
    index = NodeIndex(np.array(["zoe", "bob", "ann"]), "nodes")
    assert index.find(np.array(["zoe", "bob", "ann", "bo", "anna"])).tolist() == [0, 1, 2, -1, -1]


def test_words_among_ids_that_are_numbers_name_no_node() -> None:
    index = NodeIndex(np.array([7, -3, 2**62]), "nodes")
    wanted = np.array(["7", "07", "x", "-3", "-0", "4611686018427387904", "12345678901234567890"])
    assert index.find(wanted).tolist() == [0, -1, -1, 1, -1, -1, -1]
    assert index.find(wanted[[0, 3, 5]]).tolist() == [0, 1, 2]


def test_what_is_wrong_is_counted_over_all_rows() -> None:
    index = NodeIndex(np.array(["a", "b"]), "nodes.csv")
    end = EdgeEnd(index, "edges.csv, column 'to'")
    assert end.rows(np.array(["a", "b"])).tolist() == [0, 1]
    end.check()
    assert end.rows(np.array(["b", "z", "y"])).tolist() == [1, -1, -1]
    with pytest.raises(DataError, match=r"data row 4 names node 'z', .* nodes\.csv \(2 such rows\)"):
        end.check()
    end.rows(np.array(["", "b", ""]))
    with pytest.raises(DataError, match=r"column 'to': data row 6 has no id \(2 such rows\)"):
        end.check()
