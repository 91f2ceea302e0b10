from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from gbgnn.datasets import read_arrow, read_folder
from gbgnn.datasets.parts import ParquetTable, is_part_folder, list_parts
from gbgnn.errors import DataError


@pytest.fixture
def parts(tmp_path):
    def _write(**files: dict) -> Path:
        folder = tmp_path / "table"
        for name, columns in files.items():
            path = folder / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            parquet.write_table(pa.table(columns), f"{path}.parquet")
        return folder

    return _write


def test_files_are_read_in_the_order_of_their_names(parts) -> None:
    folder = parts(
        **{"part-1": {"id": [3]}, "part-0": {"id": [1, 2]}, "part-2": {"id": pa.array([], pa.int64())}}
    )
    for name in ("_SUCCESS", "_metadata", ".part-0.crc"):
        (folder / name).write_text("?")
    (folder / "_temporary").mkdir()
    (folder / "_temporary" / "part-9.parquet").write_text("half")
    table = ParquetTable.open(folder)
    assert (table.n_rows, table.columns) == (3, ["id"])
    assert [batch["id"].to_pylist() for batch in table.batches(["id"], 2)] == [[1, 2], [3]]
    assert table.read()["id"].to_pylist() == read_arrow(folder)["id"].to_pylist() == [1, 2, 3]
    assert table.empty().num_rows == 0


def test_rows_come_a_few_at_a_time_and_columns_in_the_order_of_asking(parts) -> None:
    folder = parts(**{"a": {"x": np.arange(10), "y": np.arange(10) / 2}})
    batches = list(ParquetTable.open(folder).batches(["y", "x"], 4))
    assert [len(batch) for batch in batches] == [4, 4, 2]
    assert batches[0].column_names == ["y", "x"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (("2023", "2024"), [2023, 2024]),
        (("NO", "S%20E"), ["NO", "S E"]),
        (("01", "2"), ["01", "2"]),
        (("1", "__HIVE_DEFAULT_PARTITION__"), [1, None]),
    ],
)
def test_names_of_folders_are_columns(values, expected, tmp_path) -> None:
    for value in values:
        (tmp_path / f"key={value}").mkdir()
        parquet.write_table(pa.table({"x": [1]}), tmp_path / f"key={value}" / "part-0.parquet")
    table = ParquetTable.open(tmp_path)
    assert table.columns == ["x", "key"]
    assert [value for batch in table.batches(["key"], 5) for value in batch["key"].to_pylist()] == expected
    assert table.read()["key"].to_pylist() == expected
    assert table.read()["key"].type == table.empty()["key"].type


def test_files_without_a_suffix_are_parquet_as_bigquery_writes_them(parts) -> None:
    folder = parts(export={"x": [1]})
    (folder / "export.parquet").rename(folder / "000000000000")
    assert is_part_folder(folder)
    assert read_arrow(folder)["x"].to_pylist() == [1]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            {"id": [1.5]},
            r"b\.parquet has the columns id \(double\), but a\.parquet has id \(int64\); all parts of a",
        ),
        ({"name": [1]}, r"has the columns name \(int64\), but a\.parquet has id"),
        ({"id": [1], "x": [2]}, r"has the columns id \(int64\), x \(int64\), but"),
    ],
)
def test_parts_that_differ_are_an_error(other, message, parts) -> None:
    folder = parts(a={"id": [1]}, b=other)
    with pytest.raises(DataError, match=message):
        ParquetTable.open(folder)


def test_folders_that_name_other_keys_are_an_error(parts) -> None:
    folder = parts(**{"k=1__a": {"id": [1]}, "l=1__b": {"id": [1]}})
    with pytest.raises(
        DataError, match=r"has the columns id \(int64\), l, but a\.parquet has id \(int64\), k"
    ):
        ParquetTable.open(folder)
    (folder / "id=1").mkdir()
    with pytest.raises(DataError, match="names column 'id' more than once"):
        ParquetTable.open(parts(**{"id=1__a": {"id": [1]}}).parent / "table")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("b.parquet", "id\n1\n", r"b\.parquet is not a readable Parquet file"),
        ("b.parquet", "", r"b\.parquet is empty"),
        ("b.csv", "id\n1\n", r"b\.csv is no Parquet file, of which a folder of parts is made"),
    ],
)
def test_a_part_that_is_not_parquet_is_named(name, content, message, parts) -> None:
    folder = parts(a={"id": [1]})
    (folder / name).write_text(content)
    with pytest.raises(DataError, match=message):
        ParquetTable.open(folder)


def test_a_cut_file_is_an_error_that_names_it(parts) -> None:
    folder = parts(a={"id": np.arange(10**5)})
    whole = (folder / "a.parquet").read_bytes()
    (folder / "a.parquet").write_bytes(whole[:100] + b"\0" * 10**4 + whole[10100:])
    with pytest.raises(DataError, match=r"a\.parquet is not a readable Parquet file"):
        list(ParquetTable.open(folder).batches(["id"], 1000))


def test_a_folder_without_files_is_an_error(tmp_path) -> None:
    with pytest.raises(DataError, match="holds no Parquet file"):
        list_parts(tmp_path)
    assert not is_part_folder(tmp_path)
    with pytest.raises(DataError, match="holds no Parquet file"):
        read_arrow(tmp_path)


def test_parts_of_a_few_bytes_that_unpack_to_gigabytes_are_not_read_whole(parts, monkeypatch) -> None:
    folder = parts(a={"x": np.zeros(10**6)})
    monkeypatch.setattr("gbgnn.datasets.parts._LEAST_BYTES", 10**4)
    with pytest.raises(DataError, match="unpacks from"):
        ParquetTable.open(folder).read()


def test_a_folder_of_two_such_folders_is_read_in_memory_too(tmp_path) -> None:
    for kind, columns in (
        (
            "nodes",
            {"id": [1, 2, 3], "label": [0, 1, 0], "x": [0.1, 0.2, 0.3], "split": ["train", "train", "test"]},
        ),
        ("edges", {"source": [1, 2], "target": [2, 3]}),
    ):
        (tmp_path / "net" / kind).mkdir(parents=True)
        parquet.write_table(pa.table(columns), tmp_path / "net" / kind / "0.parquet")
    assert read_folder(tmp_path / "net").graph.n_edges == 2
    (tmp_path / "net" / "nodes.csv").write_text("id\n1\n")
    with pytest.raises(DataError, match=r"must hold one nodes table .* found nodes\.csv and nodes"):
        read_folder(tmp_path / "net")
