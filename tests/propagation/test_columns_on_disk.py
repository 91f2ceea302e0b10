from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from gbgnn.errors import DataError
from gbgnn.propagation import columns_on_disk
from gbgnn.propagation.columns_on_disk import ColumnStore, ColumnWriter, GivenColumns, StoredColumns

MATRIX = torch.arange(35, dtype=torch.float32).reshape(7, 5)


def store(folder: Path, X: torch.Tensor = MATRIX, widths: tuple[int, ...] = (2, 2, 1)) -> StoredColumns:
    writer = ColumnWriter(folder, (len(X), X.shape[1]), X.dtype)
    for part in X.split(widths, dim=1):
        writer.add(part)
    return writer.finish()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_what_is_written_is_read(tmp_path: Path, dtype: torch.dtype) -> None:
    X = MATRIX.to(dtype)
    found = store(tmp_path / "X", X)
    assert found.dtype == dtype
    assert found.shape == (7, 5)
    for start in range(5):
        for stop in range(start + 1, 6):
            assert torch.equal(found.columns(start, stop), X[:, start:stop])
    assert torch.equal(torch.cat(list(found.blocks(2 * 5 * dtype.itemsize))), X)
    assert [len(block) for block in found.blocks(2 * 5 * dtype.itemsize)] == [2, 2, 2, 1]


@given(st.lists(st.integers(0, 6), max_size=12), st.integers(1, 100))
def test_rows_are_picked_in_any_order(ids: list[int], n_bytes: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns_on_disk, "BLOCK_BYTES", n_bytes)
        found = GivenColumns(MATRIX.numpy(), torch.float32).pick(torch.tensor(ids, dtype=torch.int64))
    assert torch.equal(found, MATRIX[ids])


def test_a_folder_appears_when_all_columns_are_there(tmp_path: Path) -> None:
    writer = ColumnWriter(tmp_path / "X", (7, 5), torch.float32)
    writer.add(MATRIX[:, :2])
    assert [path.name for path in tmp_path.iterdir()] == ["X.part"]
    # Of one that was killed, the next makes nothing of what is there.
    again = store(tmp_path / "X")
    assert [path.name for path in tmp_path.iterdir()] == ["X"]
    assert torch.equal(again.columns(0, 5), MATRIX)
    assert torch.equal(StoredColumns.open(tmp_path / "X").columns(1, 4), MATRIX[:, 1:4])


def test_a_file_that_was_cut_short_is_an_error(tmp_path: Path) -> None:
    found = store(tmp_path / "X")
    (tmp_path / "X" / "1").write_bytes(b"1234")
    with pytest.raises(DataError, match=r"1 is shorter than it was written; fit again"):
        found.columns(0, 5)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        json.dumps({"shape": [7, 5], "dtype": "float32"}),
        json.dumps({"shape": [7, 5], "dtype": "load", "bounds": [0, 5]}),
        json.dumps({"shape": [7, -5], "dtype": "float32", "bounds": [0, 5]}),
        json.dumps({"shape": [7, 5], "dtype": "float32", "bounds": [0, 4]}),
        json.dumps({"shape": [7, 5], "dtype": "float32", "bounds": [0, 3, 2, 5]}),
    ],
)
def test_a_record_that_is_none_is_an_error(tmp_path: Path, text: str) -> None:
    store(tmp_path / "X")
    (tmp_path / "X" / "columns.json").write_text(text)
    with pytest.raises(DataError, match="is no record of columns; remove the folder and fit again"):
        StoredColumns.open(tmp_path / "X")


@pytest.mark.parametrize("norm", [None, "l1", "l2"])
@pytest.mark.parametrize("kind", ["dense", "sparse", "mapped"])
def test_given_features_are_as_a_fit_in_memory_has_them(tmp_path: Path, kind: str, norm: str | None) -> None:
    from gbgnn.propagation import as_rows

    X = np.array([[0.0, 3.0, 4.0], [0.0, 0.0, 0.0], [1.0, -1.0, 2.0], [5.0, 0.0, 0.0]])
    features: object = X
    if kind == "sparse":
        features = sp.csr_array(X)
    elif kind == "mapped":
        np.save(tmp_path / "X.npy", X)
        features = np.load(tmp_path / "X.npy", mmap_mode="r")
    columns: ColumnStore = GivenColumns(features, torch.float32, norm)
    wanted = as_rows(X, norm=norm).dense()
    assert torch.equal(columns.columns(0, 3), wanted)
    assert torch.equal(columns.columns(1, 3), wanted[:, 1:])
