from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gbgnn.errors import GraphError
from gbgnn.tables import NodeTable

FRAME = pd.DataFrame({"age": [31.0, None, 58.0], "city": ["Oslo", "Rome", "Oslo"], "code": [3, 1, 3]})


def test_columns_by_name_and_in_order() -> None:
    table = NodeTable(FRAME)
    assert table.names == ("age", "city", "code")
    assert table.n_rows == 3
    assert table["city"].categories == ("Oslo", "Rome")
    assert repr(table) == "NodeTable(n_rows=3, age: number, city: category, code: number)"


def test_kinds_are_taken_from_the_user() -> None:
    for source in (FRAME, NodeTable(FRAME)):
        table = NodeTable(source, kinds={"code": "category"})
        assert table["code"].categories == ("1", "3")
    with pytest.raises(GraphError, match=r"the table has no column 'cod'. Did you mean 'code'?"):
        NodeTable(FRAME, kinds={"cod": "category"})


def test_some_columns_and_some_rows() -> None:
    table = NodeTable(FRAME)
    assert table.select(["code", "age"]).names == ("code", "age")
    assert table.drop("city").names == ("age", "code")
    for rows in ([2, 0], np.array([2, 0])):
        assert table.rows(rows)["age"].values.tolist() == [58, 31]
    assert table.rows(slice(1, 3))["code"].values.tolist() == [1, 3]
    assert table.rows(np.array([True, False, False]))["city"].values.tolist() == [0]
    with pytest.raises(GraphError, match="no column is left"):
        table.drop(table.names)


def test_a_table_cannot_be_changed() -> None:
    table = NodeTable(FRAME)
    with pytest.raises(AttributeError, match="a NodeTable cannot be changed; columns was to be set"):
        table.columns = ()
    with pytest.raises(ValueError, match="read-only"):
        table["age"].values[0] = 1


@pytest.mark.parametrize(
    "change",
    [
        {"age": [31.0, None, 59.0]},
        {"city": ["Oslo", "Rome", "Rome"]},
        {"city": ["Oslo", "Bern", "Oslo"]},
        {"code": [3.5, 1, 3]},
    ],
)
def test_checksums_tell_tables_apart(change: dict[str, Any]) -> None:
    table = NodeTable(FRAME)
    assert table.checksum == NodeTable(FRAME.copy()).checksum == NodeTable(table).checksum
    assert NodeTable(FRAME.assign(**change)).checksum != table.checksum
    assert NodeTable(FRAME.rename(columns={"age": "Age"})).checksum != table.checksum


def test_a_table_survives_pickle_and_copies() -> None:
    table = NodeTable(FRAME)
    for again in (pickle.loads(pickle.dumps(table)), copy.deepcopy(table)):
        assert again.checksum == table.checksum
        assert again.names == table.names
        assert not again["age"].values.flags.writeable
