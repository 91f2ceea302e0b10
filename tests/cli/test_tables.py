from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from gbgnn.cli.tables import Predictions
from gbgnn.errors import ParameterError

TABLE = Predictions(
    nodes=np.array(["ann", "bob, jr"]),
    labels=["red", "blue"],
    proba=np.array([[0.1, 0.9], [0.75, 0.25]], dtype=np.float32),
    classes=["blue", "red"],
)


def test_csv_has_the_digits_that_matter() -> None:
    file = io.StringIO()
    TABLE.write_csv(file)
    assert file.getvalue() == 'node,label,proba_blue,proba_red\nann,red,0.1,0.9\n"bob, jr",blue,0.75,0.25\n'


def test_both_files_hold_the_same(tmp_path: Path) -> None:
    TABLE.write(tmp_path / "x.parquet")
    table = pq.read_table(tmp_path / "x.parquet").to_pydict()
    assert list(table) == TABLE.columns
    assert table["node"] == ["ann", "bob, jr"]
    assert table["proba_red"] == TABLE.proba[:, 1].tolist()
    TABLE.write(tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_text().splitlines()[1] == "ann,red,0.1,0.9"
    assert {p.name for p in tmp_path.iterdir()} == {"x.csv", "x.parquet"}


def test_other_endings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"--out must end in .csv or .parquet; got .*x.xlsx"):
        TABLE.write(tmp_path / "x.xlsx")
