from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gbgnn.errors import ParameterError
from gbgnn.propagation import DenseRows, DiskRows, GivenColumns, GraphRows, Propagator, Workspace, disk_rows

N, C = 60, 9
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(N, C)).astype(np.float32)
MATRIX = sp.random_array((N, N), density=0.1, rng=RANDOM, format="csr", dtype=np.float32)
IDS = torch.tensor([4, 40, 7])
MUCH = 2**40


def rows_on_disk(folder: Path, *, limit: int = MUCH, dtype: torch.dtype = torch.float32) -> DiskRows:
    P = Propagator(MATRIX, dtype=dtype)
    return DiskRows.of(Workspace(folder, limit, P), GivenColumns(X, dtype), "a graph")


def rows_in_memory(dtype: torch.dtype = torch.float32) -> GraphRows:
    return GraphRows.of(DenseRows(torch.from_numpy(X).to(dtype)), Propagator(MATRIX, dtype=dtype))


def narrow(patch: pytest.MonkeyPatch, width: int) -> None:
    """Let only some columns be mixed at once."""
    patch.setattr(Workspace, "width", lambda self, n_columns, n_buffers: min(width, n_columns))


Hop = tuple[tuple[int, ...], list[float], float]
HOPS: list[Hop] = [
    ((1,), [1.0], 0.0),
    ((1,), [0.75], 0.25),
    ((0, 1), [0.5, 0.5], 0.0),
    ((0, 1, 2, 4), [0.1, 0.2, 0.3, 0.4], 0.5),
]


@pytest.mark.parametrize(("dtype", "hops"), [(torch.float32, HOPS), (torch.bfloat16, HOPS[:3])])
@pytest.mark.parametrize("width", [1, 2, 4, 9])
def test_rows_on_disk_are_those_in_memory_to_the_bit_however_few_columns_are_mixed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int, dtype: torch.dtype, hops: list[Hop]
) -> None:
    narrow(monkeypatch, width)
    disk, memory = rows_on_disk(tmp_path, dtype=dtype), rows_in_memory(dtype)
    for exponents, weights, injection in hops:
        disk = disk.mixed(exponents, torch.tensor(weights), injection)
        memory = memory.mixed(exponents, torch.tensor(weights), injection)
        assert torch.equal(disk.rows(IDS), memory.rows(IDS))
        assert torch.equal(disk.dense(), memory.dense())
        assert torch.equal(disk.power_rows((1, 3), IDS), memory.power_rows((1, 3), IDS))
        assert disk.dtype == torch.float32
        assert disk.shape == (N, C)
        assert disk.nbytes == 0


def test_in_16_bits_terms_of_a_sum_are_added_within_their_rounding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow(monkeypatch, 4)
    exponents, weights, injection = HOPS[-1]
    disk = rows_on_disk(tmp_path, dtype=torch.bfloat16).mixed(exponents, torch.tensor(weights), injection)
    memory = rows_in_memory(torch.bfloat16).mixed(exponents, torch.tensor(weights), injection)
    torch.testing.assert_close(disk.dense(), memory.dense(), rtol=2**-6, atol=2**-4)


def test_only_the_newest_representation_stays_on_disk_and_of_others_the_rows_that_were_asked_for(
    tmp_path: Path,
) -> None:
    rows, seen = rows_on_disk(tmp_path), []
    for _ in range(4):
        rows = rows.mixed((1,), torch.tensor([1.0]))
        seen.append(rows.rows(IDS))
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 1
    assert len(list(tmp_path.glob("*.rows"))) == 4
    # The rows of an older one are read; others of it are made again, from the features.
    older = rows.parent
    assert older is not None
    assert torch.equal(older.rows(IDS), seen[-2])
    assert torch.equal(older.rows(IDS[:2]), seen[-2][:2])


def test_what_is_on_disk_is_not_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = rows_on_disk(tmp_path).mixed((1,), torch.tensor([1.0]))
    wanted = first.rows(IDS)
    monkeypatch.setattr(disk_rows, "mix", None)  # whoever multiplies fails
    again = rows_on_disk(tmp_path).mixed((1,), torch.tensor([1.0]))
    assert torch.equal(again.rows(IDS), wanted)
    assert torch.equal(again.dense(), first.dense())
    with pytest.raises(TypeError):
        again.mixed((1,), torch.tensor([1.0])).rows(IDS)


def test_another_graph_and_other_features_are_other_representations(tmp_path: Path) -> None:
    space = rows_on_disk(tmp_path).space
    names = {
        DiskRows.of(space, GivenColumns(X, dtype, norm), graph).name
        for dtype in (torch.float32, torch.bfloat16)
        for norm in (None, "l1")
        for graph in ("one", "other")
    }
    assert len(names) == 8


@given(st.integers(1, 60), st.integers(1, 5), st.integers(0, 10**6))
@settings(max_examples=30)
def test_as_many_columns_are_mixed_at_once_as_the_limit_leaves_room_for(
    n_columns: int, n_buffers: int, free: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk_rows, "resident_bytes", lambda: 10**6)
        space = Workspace(Path("."), 10**6 + free, Propagator(MATRIX))
        column = 4 * N * n_buffers
        if 0.7 * free >= column:
            assert space.width(n_columns, n_buffers) == min(n_columns, int(0.7 * free) // column)
            return
        with pytest.raises(
            ParameterError, match=r"is too little: 1,000,000 are taken already.*Give at"
        ) as error:
            space.width(n_columns, n_buffers)
        least = int(str(error.value).split("at least ")[1].rstrip(".").replace(",", ""))
        assert Workspace(Path("."), least + 1, space.P).width(n_columns, n_buffers) == 1


def test_where_the_system_does_not_tell_half_of_the_limit_is_taken_for_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(disk_rows, "resident_bytes", lambda: None)
    assert Workspace(Path("."), 4 * N * 10 * 2, Propagator(MATRIX)).width(99, 1) == 7


def test_a_reader_that_fails_ends_the_hop_and_leaves_nothing_that_looks_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow(monkeypatch, 2)
    usual, calls = GivenColumns.columns, []

    def fail(self: Any, start: int, stop: int) -> torch.Tensor:
        calls.append(start)
        if start == 4:
            raise OSError("gone")
        return usual(self, start, stop)

    monkeypatch.setattr(GivenColumns, "columns", fail)
    hopped = rows_on_disk(tmp_path).mixed((1,), torch.tensor([1.0]))
    with pytest.raises(OSError, match="gone"):
        hopped.rows(IDS)
    assert calls == [0, 2, 4]
    assert not list(tmp_path.glob("*.rows"))
    assert [path.suffix for path in tmp_path.iterdir()] == [".part"]
    monkeypatch.undo()
    assert torch.equal(hopped.rows(IDS), rows_in_memory().mixed((1,), torch.tensor([1.0])).rows(IDS))
