from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

from gbgnn.errors import GraphError
from gbgnn.tables import NodeTable, is_table
from gbgnn.tables.frames import Coded, read_frame

NAN = float("nan")
DAY = dt.date(2024, 2, 29)
NOON = dt.datetime(2024, 2, 29, 12)

MIXED: dict[str, list[Any]] = {
    "whole": [1, 2, 3],
    "real": [0.5, None, -2.0],
    "flag": [True, None, False],
    "word": ["b", None, "a"],
    "day": [DAY, None, DAY],
    "time": [NOON, None, NOON],
    "span": [dt.timedelta(hours=1), None, dt.timedelta(days=1)],
    "price": [Decimal("1.50"), None, Decimal("2.25")],
    "empty": [None, None, None],
}
EXPECTED: dict[str, tuple[str, list[float]]] = {
    "whole": ("number", [1, 2, 3]),
    "real": ("number", [0.5, NAN, -2]),
    "flag": ("boolean", [1, -1, 0]),
    "word": ("category", [1, -1, 0]),
    "day": ("date", [1709164800, NAN, 1709164800]),
    "time": ("date", [1709208000, NAN, 1709208000]),
    "span": ("number", [3600, NAN, 86400]),
    "price": ("number", [1.5, NAN, 2.25]),
    "empty": ("number", [NAN, NAN, NAN]),
}


def arrow_backed() -> pd.DataFrame:
    return pa.table(MIXED).to_pandas(types_mapper=pd.ArrowDtype)


FRAMES = {
    "pandas": lambda: pd.DataFrame(MIXED),
    "pandas nullable": lambda: pd.DataFrame(MIXED).convert_dtypes(),
    "pandas with Arrow": arrow_backed,
    "polars": lambda: pl.DataFrame(MIXED),
    "Arrow": lambda: pa.table(MIXED),
    "Arrow batch": lambda: pa.RecordBatch.from_pydict(MIXED),
    "lists": lambda: MIXED,
    "columns of polars": lambda: {name: pl.Series(name, values) for name, values in MIXED.items()},
    "columns of Arrow": lambda: {name: pa.array(values) for name, values in MIXED.items()},
    "columns of pandas": lambda: {name: pd.Series(values) for name, values in MIXED.items()},
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_every_package_gives_the_same_columns(frame: Any) -> None:
    table = NodeTable(frame())
    assert table.names == tuple(MIXED)
    for column in table.columns:
        kind, values = EXPECTED[column.name]
        assert column.kind == kind, column.name
        np.testing.assert_array_equal(column.values, values, err_msg=column.name)
    assert table["word"].categories == ("a", "b")


def test_one_checksum_whatever_package_it_came_from() -> None:
    checksums = {
        NodeTable(frame()).checksum for frame in (FRAMES["pandas"], FRAMES["polars"], FRAMES["Arrow"])
    }
    assert len(checksums) == 1


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"size": pd.Categorical(["S", None, "L"], categories=["S", "M", "L"], ordered=True)}),
        pl.DataFrame({"size": pl.Series(["S", None, "L"], dtype=pl.Enum(["S", "M", "L"]))}),
        pa.table({"size": pa.DictionaryArray.from_arrays(pa.array([0, None, 2]), pa.array(["S", "M", "L"]))}),
    ],
    ids=["pandas", "polars", "Arrow"],
)
def test_the_order_of_categories_is_kept(frame: Any) -> None:
    column = NodeTable(frame)["size"]
    assert (column.kind, column.categories) == ("category", ("S", "M", "L"))
    assert column.values.tolist() == [0, -1, 2]


def test_polars_categories_and_chunked_dictionaries() -> None:
    column = NodeTable(pl.DataFrame({"c": pl.Series(["x", None, "a"], dtype=pl.Categorical)}))["c"]
    assert (column.kind, column.categories, column.values.tolist()) == ("category", ("a", "x"), [1, -1, 0])
    parts = [pa.array(part).dictionary_encode() for part in (["x"], ["y", "x"])]
    column = NodeTable(pa.table({"c": pa.chunked_array(parts)}))["c"]
    assert [column.categories[i] for i in column.values] == ["x", "y", "x"]
    assert column.kind == "category"


def test_times_of_a_zone_are_read_in_utc() -> None:
    local = pd.Series(pd.to_datetime(["2024-02-29 13:00", None])).dt.tz_localize("Europe/Paris")
    expected = [1709208000, NAN]
    for frame in (pd.DataFrame({"t": local}), pl.DataFrame({"t": pl.from_pandas(local)})):
        np.testing.assert_array_equal(NodeTable(frame)["t"].values, expected)
    objects = NodeTable({"t": local.astype(object).to_numpy()})["t"]
    np.testing.assert_array_equal(objects.values, expected)
    assert objects.kind == "date"


def test_periods_are_dates_and_sparse_numbers_are_numbers() -> None:
    frame = pd.DataFrame(
        {
            "month": pd.period_range("2024-01", periods=2, freq="M"),
            "few": pd.arrays.SparseArray([0.0, 1.0]),
        }
    )
    table = NodeTable(frame)
    assert [column.kind for column in table.columns] == ["date", "number"]
    assert table["few"].values.tolist() == [0, 1]
    assert table["month"].values.tolist() == [1704067200, 1706745600]


def test_what_exports_arrow_is_read_without_being_known() -> None:
    class Relation:
        def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
            return pa.table({"a": [1, 2]}).__arrow_c_stream__(requested_schema)

    assert is_table(Relation())
    assert NodeTable(Relation())["a"].values.tolist() == [1, 2]


def test_what_is_a_table() -> None:
    assert is_table({"a": [1]})
    assert is_table(pd.DataFrame({"a": [1]}))
    assert is_table(NodeTable({"a": [1]}))
    assert not is_table(np.eye(2))
    assert not is_table([[1.0]])
    assert not is_table(sp.dok_array((2, 2)))  # a mapping, but a matrix
    with pytest.raises(GraphError, match=r"must be a pandas, polars or Arrow frame.*; got ndarray"):
        read_frame(np.eye(2))


def test_frames_of_a_class_that_extends_one_are_frames() -> None:
    class Frame(pd.DataFrame):
        pass

    assert NodeTable(Frame({"a": [1, None]}))["a"].kind == "number"


def test_columns_that_nobody_named_are_named_by_their_numbers() -> None:
    assert NodeTable(pd.DataFrame(np.eye(2))).names == ("0", "1")


def test_codes_decode_to_values_and_none() -> None:
    coded = Coded(np.array([1, -1, 0]), np.array(["a", "b"], dtype=object))
    assert coded.decode().tolist() == ["b", None, "a"]
    assert read_frame({"c": coded})["c"] is coded


def test_a_query_of_duckdb_is_a_table() -> None:
    duckdb = pytest.importorskip("duckdb")
    query = duckdb.sql("select 1.5 as x, 'a' as word union all select null, 'b' order by word")
    table = NodeTable(query)
    np.testing.assert_array_equal(table["x"].values, [1.5, NAN])
    assert table["word"].categories == ("a", "b")


@pytest.mark.parametrize("n_distinct", [5, 60])
def test_text_is_the_same_column_however_it_is_stored(n_distinct: int) -> None:
    words = [f" item {i % n_distinct}" if i % 7 else None for i in range(80)]
    words[3] = "  "
    frames = {
        "list": {"w": words},
        "pandas": pd.DataFrame({"w": words}),
        "pandas objects": pd.DataFrame({"w": np.array(words, dtype=object)}),
        "polars": pl.DataFrame({"w": words}),
        "Arrow": pa.table({"w": words}),
        "Arrow, chunks": pa.table({"w": pa.chunked_array([words[:30], words[30:]])}),
        "Arrow, large": pa.table({"w": pa.array(words, pa.large_string())}),
    }
    expected = NodeTable(frames["list"]).columns[0]
    assert expected.kind == ("category" if n_distinct == 5 else "text")
    assert expected.is_missing.sum() == sum(not (word or "").strip() for word in words)
    for name, frame in frames.items():
        column = NodeTable(frame).columns[0]
        assert (column.kind, column.categories) == (expected.kind, expected.categories), name
        np.testing.assert_array_equal(column.values, expected.values)
