from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gbgnn import _arrays
from gbgnn._arrays import over_blocks, split_blocks


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
