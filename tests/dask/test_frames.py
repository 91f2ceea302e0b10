from __future__ import annotations

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from gbgnn.dask import DaskGraph
from gbgnn.dask.blocks import EdgeRows
from gbgnn.dask.frames import add_columns, find_ids, join_edges, merge_ways, number_rows, split_edges
from gbgnn.errors import GraphError


def read(client, nodes, edges, **options):
    parts = (dd.from_pandas(frame, npartitions=1, sort=False) for frame in (nodes, edges))
    return DaskGraph.from_dask(*parts, client=client, **options)


BY_KEY = {"id": "key", "source": "caller", "target": "called"}
WRONG = [
    (lambda n, e: (n.drop(columns="key"), e), BY_KEY, "the nodes have no column 'key'; they have 'a', 'b'"),
    (lambda n, e: (n, e), BY_KEY | {"source": "who"}, "the edges have no column 'who'"),
    (
        lambda n, e: (n.assign(c="x"), e),
        BY_KEY,
        "column 'c' of the nodes holds .*; workers take columns of numbers",
    ),
    (lambda n, e: (n.assign(a=np.nan), e), BY_KEY, "column 'a' of the nodes has NaN or infinite values"),
    (
        lambda n, e: (n, e.assign(caller=4)),
        BY_KEY,
        "column 'caller' of the edges names nodes that are not there, in 150",
    ),
    (lambda n, e: (n, e), BY_KEY | {"id": None}, "has row numbers from .* but there are 40 nodes; give id="),
    (lambda n, e: (n.assign(key=1), e), BY_KEY, "column 'key' of the nodes holds repeated ids"),
    (lambda n, e: (n.assign(key=np.nan), e), BY_KEY, "column 'key' of the nodes has missing ids"),
    (
        lambda n, e: (n, e.assign(w=np.inf)),
        BY_KEY | {"weight": "w"},
        "column 'w' of the edges has NaN or infinite",
    ),
    (lambda n, e: (n[["key"]], e), BY_KEY, "the nodes have no columns to describe them; give features="),
    (lambda n, e: (n[:0], e), BY_KEY, "the frame of nodes has no rows"),
]


@pytest.mark.parametrize(("spoil", "columns", "message"), WRONG)
def test_what_is_wrong_with_tables_is_said(frames, client, spoil, columns, message) -> None:
    nodes, edges = frames()
    with pytest.raises(GraphError, match=message):
        read(client, *spoil(nodes.drop(columns="label"), edges), **columns)


ENDS, BOUNDS = ("source", "target"), (0, 2, 5)


def test_edges_go_to_the_chunk_that_they_lead_into() -> None:
    frame = pd.DataFrame({"source": [0, 4, 1, 3], "target": [1, 0, 1, 4]})
    first, second = split_edges(frame, ENDS, None, BOUNDS, True)
    assert [each.tolist() for each in first] == [[1, 0], [0, 4], [1.0, 1.0], [True, True]]
    assert [each.tolist() for each in second] == [[2], [3], [1.0], [True]]
    first, second = split_edges(frame, ENDS, None, BOUNDS, False)
    assert first[1].tolist() == [0, 4, 1]
    assert second[3].tolist() == [True, False, False]


def test_the_order_in_which_pieces_come_does_not_matter() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.integers(0, 5, (60, 2)), columns=list(ENDS)).assign(w=rng.normal(size=60))
    pieces = [split_edges(frame[i : i + 20], ENDS, "w", BOUNDS, False)[1] for i in (0, 20, 40)]
    orders = pieces, pieces[::-1]
    ways = [merge_ways(join_edges(BOUNDS, 1, True, False, *order), True, False) for order in orders]
    for name in ("row_starts", "columns", "values"):
        assert np.array_equal(*(getattr(rows, name) for rows in ways))


def test_sums_of_columns_are_added_from_all_chunks() -> None:
    rows = EdgeRows(np.array([0, 2, 3]), np.array([1, 3, 3]), np.array([0.5, 2.0, 4.0]))
    assert add_columns(rows, BOUNDS, 0).tolist() == [0.0, 0.5]
    assert add_columns(rows, BOUNDS, 1).tolist() == [0.0, 6.0, 0.0]
    alone = EdgeRows(rows.row_starts, rows.columns, None)
    assert add_columns(alone, BOUNDS, 1).tolist() == [0.0, 2.0, 0.0]


def test_ids_are_numbered_and_found() -> None:
    assert number_rows(np.array([7, 5]), 10).to_numpy().tolist() == [[7, 10], [5, 11]]
    assert find_ids(pd.Series(["b", "a"]), np.array(["a", "c"])).tolist() == [1, -1]
