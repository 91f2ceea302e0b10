from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from gbgnn.datasets.columns import read_table
from gbgnn.datasets.streams import TableStream
from gbgnn.errors import DataError

COLUMNS = {
    "id": ["ann", "bob", None, "dé"],
    "x": [1, 2, 3, 4],
    "y": [0.5, None, 1.5, 2.5],
    "flag": [True, False, True, True],
    "day": pa.array([0, 1, 2, None], pa.date32()),
}


@pytest.mark.parametrize("kind", ["parquet", "parts", "feather", "csv"])
def test_rows_that_come_a_few_at_a_time_are_those_of_the_table(kind, tmp_path) -> None:
    path = tmp_path / f"t.{kind}"
    if kind == "csv":
        path.write_text("id,x,y,flag\nann,1,0.5,true\nbob,2,,false\n,3,1.5,true\n")
    elif kind == "feather":
        feather.write_feather(pa.table(COLUMNS), path)
    else:
        path.mkdir() if kind == "parts" else None
        parquet.write_table(pa.table(COLUMNS), path / "p.parquet" if kind == "parts" else path)
    whole, stream = read_table(path), TableStream.open(path)
    assert list(stream.columns) == list(whole.columns)
    assert stream.n_rows == len(whole.columns["x"])
    batches = list(stream.batches(["x", *stream.columns], 3))
    for name, column in whole.columns.items():
        found = np.concatenate([batch[name] for batch in batches])
        assert (
            found.tolist() == pytest.approx(column.tolist(), nan_ok=True)
            if column.dtype.kind == "f"
            else True
        )
        assert column.dtype.kind == "f" or found.tolist() == column.tolist()
        assert column.dtype.kind == np.result_type(stream.columns[name], found.dtype).kind
    assert list(batches[0]) == ["x", *(name for name in whole.columns if name != "x")]


def test_columns_are_found_as_in_tables(tmp_path) -> None:
    parquet.write_table(pa.table({"age": [1], "name": ["a"]}), tmp_path / "t.parquet")
    stream = TableStream.open(tmp_path / "t.parquet")
    assert stream.find_column(1, "labels") == "name"
    with pytest.raises(
        DataError, match=r"t\.parquet has no column 'agee' for the labels. Did you mean 'age'\?"
    ):
        stream.find_column("agee", "labels")
