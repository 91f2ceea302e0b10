from __future__ import annotations

import pytest

from gbgnn import _memory
from gbgnn._memory import check_size, free_bytes
from gbgnn.errors import DataError


def test_a_machine_has_some_memory():
    assert free_bytes() > 1 << 20


def test_what_fits_is_let_through(monkeypatch):
    monkeypatch.setattr(_memory, "free_bytes", lambda: 1000)
    check_size("x.npz", 1000)
    check_size("x.npz", 1000, stored=1)  # a small file may be full of zeros


def test_what_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr(_memory, "free_bytes", lambda: 3 << 20)
    with pytest.raises(DataError, match=r"x\.npz needs 5\.0 GiB of memory, but 3\.0 MiB are free"):
        check_size("x.npz", 5 << 30)
    monkeypatch.setattr(_memory, "free_bytes", lambda: 30)
    with pytest.raises(DataError, match="needs 31 bytes of memory, but 30 bytes are free"):
        check_size("x.npz", 31)


def test_what_unpacks_to_too_much_is_refused_before_it_is():
    with pytest.raises(
        DataError, match=r"unpacks from 4\.0 MiB to 4\.0 GiB, as files do that are made to fill"
    ):
        check_size("x.npz", 4 << 30, stored=4 << 20)


def test_systems_that_do_not_tell_have_no_limit(monkeypatch):
    monkeypatch.setattr(_memory, "free_bytes", lambda: None)
    check_size("x.npz", 1 << 50)


def test_what_is_free_goes_back_to_the_system_where_there_is_a_way(monkeypatch: pytest.MonkeyPatch) -> None:
    _memory.give_back()

    def missing(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(_memory.ctypes, "CDLL", missing)
    _memory.give_back()
    assert _memory.resident_bytes() is None or _memory.resident_bytes() > 0
