from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gbgnn import _ids
from gbgnn._ids import are_distinct, hash_ids

IDS = st.one_of(
    st.lists(st.integers(-3, 3)).map(lambda given: np.array(given, np.int64)),
    st.lists(st.integers(0, 5)).map(lambda given: np.array(given, np.uint8)),
    st.lists(st.integers(-(2**63), 2**63 - 1)).map(lambda given: np.array(given, np.int64)),
    st.lists(st.sampled_from(["", "a", "aa", "ab", "ba", "é", "a longer one"])).map(
        lambda given: np.array(given, np.str_)
    ),
    st.lists(st.text(st.characters(blacklist_categories=["Cs"], min_codepoint=1), max_size=4)).map(
        lambda given: np.array(given, np.str_)
    ),
    st.lists(st.floats(allow_nan=False)).map(np.array),
)


@pytest.mark.parametrize("at_once", [1, 3, 1 << 23])
@given(ids=IDS)
def test_ids_are_distinct_if_a_set_is_as_large(at_once, ids) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_ids, "_AT_ONCE", at_once)
        assert are_distinct(ids) == (len(set(ids.tolist())) == len(ids))


def test_text_of_the_same_hash_is_compared_itself(monkeypatch) -> None:
    alike = [(np.zeros(2, np.uint64), np.array(["a", "b"])), (np.zeros(1, np.uint64), np.array(["c"]))]
    monkeypatch.setattr(_ids, "_hashed", lambda ids: iter(alike))
    assert are_distinct(np.array(["a", "b", "c"]))
    alike[1] = (np.zeros(1, np.uint64), np.array(["a"]))
    assert not are_distinct(np.array(["a", "b", "a"]))


def test_hashes_do_not_depend_on_width_or_byte_order() -> None:
    words = np.array(["a", "bé", ""])
    assert (
        hash_ids(words).tolist()
        == hash_ids(words.astype("<U9")).tolist()
        == hash_ids(words.astype(">U2")).tolist()
    )
    assert hash_ids(np.array([7, -1], np.int32)).tolist() == hash_ids(np.array([7, -1], np.int64)).tolist()
    assert len(set(hash_ids(np.array([f"{i:04x}" for i in range(5000)])).tolist())) == 5000


def test_other_byte_orders_and_objects() -> None:
    assert are_distinct(np.array(["b", "a"], ">U3"))
    assert not are_distinct(np.array([7, 5, 7], ">i4"))
    assert are_distinct(np.array([("a", 1), ("a", 2), None], object))
    assert not are_distinct(np.array(["x", "x"], object))
