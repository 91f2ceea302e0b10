from __future__ import annotations

import threading

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from gbgnn import _arrays
from gbgnn._arrays import (
    are_all,
    constant,
    find_fall,
    is_rising,
    over_blocks,
    scan_ends,
    split_blocks,
)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 8 numbers, and three threads."""
    monkeypatch.setattr(_arrays, "_BLOCK", 8)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)


@given(n=st.integers(0, 10**7), width=st.integers(0, 10**6))
def test_blocks_follow_each_other_and_none_is_too_large(n: int, width: int) -> None:
    n = min(n, 10**4 * max(1, _arrays._BLOCK // max(width, 1)))  # that many blocks at most
    blocks = split_blocks(np.broadcast_to(np.int8(0), (n, width)))
    assert sum(stop - start for start, stop in blocks) == n
    assert [start for start, _ in blocks[1:]] == [stop for _, stop in blocks[:-1]]
    assert all(stop - start == 1 or (stop - start) * width <= _arrays._BLOCK for start, stop in blocks)
    assert not blocks or blocks[0][0] == 0


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("n", [0, 1, 8, 9, 31, 32, 33, 500])
def test_results_come_in_order_whatever_the_threads(n: int) -> None:
    names = set()

    def work(start: int, stop: int) -> tuple[int, int]:
        names.add(threading.current_thread().name)
        return start, stop

    array = np.empty(n)
    assert over_blocks(work, array) == split_blocks(array)
    assert (names == {threading.current_thread().name}) == (0 < n <= 56)  # 7 blocks are not worth a thread


@pytest.mark.usefixtures("small_blocks")
def test_an_error_in_a_thread_is_raised() -> None:
    def work(start: int, stop: int) -> None:
        if start == 160:
            raise ValueError("block 20")

    with pytest.raises(ValueError, match="block 20"):
        over_blocks(work, np.empty(400))


def test_a_constant_takes_no_memory_and_cannot_be_written_to() -> None:
    ones = constant(1, 10**12, np.float32)
    assert (len(ones), ones.strides, ones.dtype) == (10**12, (0,), np.float32)
    assert not ones.flags.writeable
    assert are_all(ones, 1)
    assert not are_all(ones, 2)


@pytest.mark.usefixtures("small_blocks")
def test_one_other_value_is_seen_in_any_block() -> None:
    for place in (0, 7, 8, 19):
        values = np.ones(20)
        assert are_all(values, 1)
        values[place] = np.nan
        assert not are_all(values, 1)
    assert are_all(np.empty(0), 1)


@given(values=st.lists(st.integers(0, 30), max_size=40))
def test_rising_and_falling_are_found_across_blocks(values: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_arrays, "_BLOCK", 3)
        array = np.array(values, np.int64)
        falls = np.flatnonzero(np.diff(array) < 0)
        assert find_fall(array) == (falls[0] if len(falls) else None)
        assert is_rising(array) == bool((np.diff(array) > 0).all())
        ordered = np.unique(array)
        assert find_fall(ordered) is None
        assert is_rising(ordered)


@given(
    entries=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=30), block=st.integers(1, 9)
)
def test_loops_and_neighbours_are_those_of_the_matrix(entries: list[tuple[int, int]], block: int) -> None:
    dense = np.zeros((7, 7))
    for row, column in entries:
        dense[row, column] = 1
    matrix = sp.csr_array(dense)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_arrays, "_BLOCK", block)
        ends = scan_ends(matrix.indices, matrix.indptr)
    off = dense - np.diag(np.diag(dense))
    assert ends.n_loops == np.trace(dense)
    assert ends.has_neighbour.tolist() == (off.any(axis=0) | off.any(axis=1)).tolist()
