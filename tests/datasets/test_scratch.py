from __future__ import annotations

from pathlib import Path

import pytest

from gbgnn._memory import free_bytes, resident_bytes
from gbgnn.datasets import scratch as module
from gbgnn.datasets.scratch import Scratch
from gbgnn.errors import ParameterError


def test_room_is_a_share_of_what_the_limit_leaves(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(module, "resident_bytes", lambda: 10**9)
    assert Scratch(tmp_path, 2 * 10**9).room() == pytest.approx(0.7e9)
    monkeypatch.setattr(module, "resident_bytes", lambda: None)  # not every system tells
    assert Scratch(tmp_path, 2 * 10**9).room() == pytest.approx(0.7e9)


def test_without_a_limit_there_is_what_is_usual_or_half_of_what_is_free(tmp_path: Path, monkeypatch) -> None:
    for free, room in ((None, 2 << 30), (10**8, 5 * 10**7), (10**12, 2 << 30)):
        monkeypatch.setattr(module, "free_bytes", lambda free=free: free)
        assert Scratch(tmp_path).room() == room
    assert free_bytes() is None or free_bytes() > 0


def test_a_limit_below_what_is_taken_says_what_would_do(tmp_path: Path) -> None:
    with pytest.raises(
        ParameterError, match=r"memory_limit=1,000 bytes is too little: [\d,]+ are taken"
    ) as told:
        Scratch(tmp_path, 1000).room()
    least = int(str(told.value).rpartition("least ")[2].rstrip(".").replace(",", ""))
    assert least > (resident_bytes() or 0)


def test_what_is_too_large_as_a_whole_is_said_by_name(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(module, "resident_bytes", lambda: 10**9)
    Scratch(tmp_path).check("labels", 10**15)
    Scratch(tmp_path, 2 * 10**9).check("labels", 10**8)
    with pytest.raises(
        ParameterError, match=r"labels take 1,400,000,000, but .* 700,000,000. Give at least 3,000,"
    ):
        Scratch(tmp_path, 2 * 10**9).check("labels", 14 * 10**8)


def test_paths_of_one_name_are_apart(tmp_path: Path) -> None:
    place = Scratch(tmp_path)
    first, second = place.path("ids.npy"), place.path("ids.npy")
    assert first.name == second.name == "ids.npy"
    assert first != second
    assert not first.exists()
