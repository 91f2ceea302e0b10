"""Every malformed table gets one clear sentence: what it is, what came, what would work."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from gbgnn import GBGNNClassifier, Graph, NodeTable, TableEncoder
from gbgnn.errors import GBGNNError, GBGNNWarning

NAN, INF = float("nan"), float("inf")
NODES = {"id": ["a", "b", "c"], "x": [1.0, 2.0, 4.0]}
EDGES = {"source": ["a", "b"], "target": ["b", "c"]}
FITTED = TableEncoder().fit({"x": [1.0, 2.0, 4.0], "city": ["Oslo", "Rome", "Oslo"]})


def read(frame: Any, **settings: Any) -> Callable[[], Any]:
    return lambda: NodeTable(frame, **settings)


def objects(*values: Any) -> dict[str, Any]:
    return {"x": np.array([*values, None], dtype=object)[:-1]}


def link(nodes: Any = NODES, edges: Any = EDGES, **settings: Any) -> Callable[[], Any]:
    return lambda: Graph.from_tables(nodes, edges, **settings)


def weighed(*weights: Any) -> Callable[[], Any]:
    return link(edges=EDGES | {"w": list(weights)}, weight="w")


def encode(frame: Any) -> Callable[[], Any]:
    return lambda: FITTED.transform(frame)


CASES: dict[str, tuple[Callable[[], Any], str]] = {
    # What is no table
    "a list": (read([[1, 2]]), "must be a pandas, polars or Arrow frame, or a mapping.*; got list"),
    "a file name": (read("people.csv"), "must be a pandas, polars or Arrow frame.*; got str"),
    "a pandas series": (read(pd.Series([1])), r"is a pandas Series; a frame is needed: to_frame\(\)"),
    "a polars series": (read(pl.Series([1])), r"is a polars Series; a frame is needed: to_frame\(\)"),
    "a lazy frame": (
        read(pl.LazyFrame({"a": [1]})),
        r"is a polars LazyFrame; a frame is needed: collect\(\)",
    ),
    "an Arrow array": (read(pa.array([1])), "is an Arrow Int64Array; a Table is needed"),
    # Names and shapes
    "no columns": (read({}), "the table has no columns; give each node at least one"),
    "no columns in a frame": (read(pd.DataFrame(index=[0, 1])), "the table has no columns"),
    "no rows": (read(pd.DataFrame({"x": [], "y": []})), r"the table has no rows, only columns \(x, y\)"),
    "two columns of one name": (
        read(pd.DataFrame([[1, 2]], columns=["x", "x"])),
        "has more than one column named 'x'; rename one of them",
    ),
    "names of two levels": (
        read(pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "x"), ("a", "y")]))),
        "column names of 2 levels; join them into one name each",
    ),
    "a name that is missing": (
        read(pd.DataFrame([[1, 2]], columns=["x", None])),
        "a column named .*; names must be text",
    ),
    "an empty name": (read({"": [1]}), "has a column named ''; names must be text"),
    "a name that is a tuple": (read({("a", 1): [1]}), r"has a column named \('a', 1\); names must be text"),
    "columns of two lengths": (read({"x": [1, 2], "y": [1]}), "column 'y' has 1 rows but column 'x' has 2"),
    "a column of two dimensions": (read({"x": np.ones((2, 2))}), r"column 'x' has shape \(2, 2\)"),
    "one number for a column": (read({"x": np.float64(3)}), r"column 'x' has shape \(\)"),
    "a masked column": (
        read({"x": np.ma.masked_equal([1, 2], 1)}),
        "column 'x' has 1 masked values; fill or drop them first",
    ),
    # Values
    "complex numbers": (read({"x": np.array([1j])}), "column 'x' holds complex numbers; give numbers"),
    "infinite numbers": (
        read({"x": [1.0, INF, -INF]}),
        r"column 'x' has 2 infinite values \(first: row 1\); make them missing \(NaN\), or finite",
    ),
    "an infinite decimal": (read(objects(Decimal("Infinity"), 1)), "column 'x' has 1 infinite values"),
    "text among numbers": (
        read(objects(1, None, "two")),
        r"column 'x' mixes numbers \(1 in row 0\) and text \('two' in row 2\); make its values one kind",
    ),
    "booleans among numbers": (
        read(objects(True, 2)),
        r"column 'x' mixes booleans \(True in row 0\) and numbers",
    ),
    "dates among text": (
        read(objects("soon", pd.Timestamp("2024-01-01"))),
        r"column 'x' mixes text \('soon' in row 0\) and dates",
    ),
    "bytes": (read(objects(b"ab")), r"column 'x' holds bytes such as b'ab'; decode them to text"),
    "bytes in an array": (
        read({"x": np.array([b"ab"])}),
        "column 'x' holds bytes, which are text once decoded",
    ),
    "lists": (
        read(objects([1, 2], [3])),
        "column 'x' holds a list per row; a column holds one value per row",
    ),
    "lists in a list": (read({"x": [[1, 2], [3, 4]]}), "column 'x' holds a list per row"),
    "arrays in a list": (read({"x": [np.ones(2), np.ones(2)]}), "column 'x' holds a ndarray per row"),
    "dictionaries": (read(objects({"a": 1})), "column 'x' holds a dict per row"),
    "nested polars": (read(pl.DataFrame({"x": [[1], [2]]})), r"column 'x' holds List\(Int64\)"),
    "nested Arrow": (read(pa.table({"x": [{"a": 1}]})), "column 'x' holds struct<a: int64>"),
    "lists of pandas and Arrow": (
        read(pd.DataFrame({"x": pd.array([[1], [2]], dtype=pd.ArrowDtype(pa.list_(pa.int64())))})),
        "column 'x' holds a ndarray per row",
    ),
    "objects": (
        read(objects(object())),
        "column 'x' holds objects of type object; give numbers, text or dates",
    ),
    "times of day": (read(pl.DataFrame({"x": [pd.Timestamp(0).time()]})), "holds objects of type time"),
    "intervals": (read(pd.DataFrame({"x": pd.interval_range(0, 2)})), "holds objects of type Interval"),
    "categories of tuples": (
        read(pd.DataFrame({"x": pd.Categorical([(1, 2), (3, 4)])})),
        r"column 'x' has the category \(1, 2\); categories are text or numbers",
    ),
    # Kinds
    "an unknown kind": (
        read({"x": [1]}, kinds={"x": "nominal"}),
        "kind must be one of number, .*; got 'nominal'",
    ),
    "the kind of no column": (read({"x": [1]}, kinds={"y": "text"}), "the table has no column 'y'"),
    "numbers that are none": (
        read({"x": ["12", "n/a"]}, kinds={"x": "number"}),
        "column 'x' holds 'n/a', which is no number",
    ),
    "dates that are none": (read({"x": ["31.5.2024"]}, kinds={"x": "date"}), "holds no dates as 2024-05-31"),
    "a day that is none": (
        read({"x": ["2024-02-31"]}, kinds={"x": "date"}),
        "column 'x' holds no dates as 2024-05-31",
    ),
    "a date in nanoseconds": (
        read({"x": [1.7e18]}, kinds={"x": "date"}),
        "holds 1.7e.18; dates as numbers are sec",
    ),
    "booleans that are none": (read({"x": [0, 2]}, kinds={"x": "boolean"}), "holds 2; booleans are 0 and 1"),
    # Tables that say nothing
    "all missing": (
        lambda: Graph(np.eye(2), {"x": [None, None]}).features,
        "no column tells nodes apart: dropped 'x': it is missing everywhere",
    ),
    "empty strings": (
        lambda: Graph(np.eye(2), {"x": ["", "  "]}).features,
        "no column tells nodes apart: dropped 'x': it is missing everywhere",
    ),
    "constant": (
        lambda: Graph(np.eye(2), {"x": ["a", "a"]}).features,
        "no column tells nodes apart: dropped 'x': it is 'a' everywhere",
    ),
    "a ring, where all nodes are alike": (
        lambda: Graph(np.roll(np.eye(4), 1, 0) + np.roll(np.eye(4), -1, 0), None).features,
        "no column tells nodes apart: dropped 'log_degree'",
    ),
    # Another table
    "a column is not there": (
        encode({"x": [1.0, 2.0]}),
        "the table has no column 'city', which the encoder was fitted with; its columns are x",
    ),
    "a column of another kind": (
        encode({"x": ["red", "blue"], "city": ["Oslo", "Rome"]}),
        "column 'x' holds 'blue', which is no number",
    ),
    "dates for numbers of a category": (
        encode({"x": [1.0], "city": np.array(["2024-01-01"], "datetime64[D]")}),
        "column 'city' holds dates such as 2024-01-01.*, which cannot be read as categories",
    ),
    # Ids
    "an id is missing": (
        link(NODES | {"id": ["a", None, "c"]}),
        r"column 'id' of the nodes has 1 missing ids \(first: row 1\); fill them in",
    ),
    "an id is empty": (link(NODES | {"id": ["a", " ", "c"]}), "column 'id' of the nodes has 1 missing ids"),
    "an id is NaN": (link(NODES | {"id": [1.0, NAN, 2.0]}), "column 'id' of the nodes has 1 missing ids"),
    "an id twice": (
        link(NODES | {"id": ["a", "b", "a"]}),
        r"column 'id' of the nodes holds 1 repeated ids \(first: 'a' in rows 0 and 2\)",
    ),
    "ids with a fraction": (link(NODES | {"id": [1.0, 1.5, 2.0]}), "holds 1.5; ids are whole numbers, text"),
    "ids that are booleans": (link(NODES | {"id": [True, False, True]}), "holds dtype bool; ids are whole"),
    "ids of two kinds": (
        link(NODES | {"id": ["a", 1, "c"]}),
        "mixes ids such as 'a' and 1; make them one kind",
    ),
    "ids that are lists": (
        link(NODES | {"id": [["a"], ["b"], ["c"]]}),
        "holds a list per row; ids are whole",
    ),
    "no nodes": (
        link({"id": np.array([], int), "x": []}),
        r"the table of nodes has no rows, only columns \(id, x\)",
    ),
    "no such id column": (link(id="idd"), "the table of nodes has no column 'idd'. Did you mean 'id'?"),
    "no column holds ids": (
        link({"key": ["x", "y", "z"], "x": [1, 2, 3]}),
        r"no column of the nodes \(key, x\) holds the ids that the edges name; say which one does with id=",
    ),
    # Edges
    "an edge to nowhere": (
        link(edges={"source": ["a", "q"], "target": ["b", "c"]}),
        r"'source' of the edges names nodes that column 'id' of the nodes does not have, in 1 rows: 'q'",
    ),
    "numbers against text": (
        link(edges={"source": [1, 2], "target": [2, 3]}),
        r"column 'source' of the edges holds ids such as 1, but those of the nodes .* are such as 'a'",
    ),
    "an end is missing": (
        link(edges={"source": ["a", None], "target": ["b", "c"]}),
        "column 'source' of the edges has 1 missing ids",
    ),
    "edges of one column": (
        link(edges={"pair": ["a-b"]}),
        "has one column, pair; it needs a source and a target",
    ),
    "one end named": (link(source="source"), "give both source= and target="),
    "both ends one column": (
        link(source="source", target="source"),
        "both column 'source'; an edge has two ends",
    ),
    "no such end": (link(source="src", target="target"), "the table of edges has no column 'src'"),
    "no table of edges": (link(edges=[]), "edges is an empty list; give at least one table of edges"),
    "edges as a list of pairs": (
        link(edges=[("a", "b")]),
        "the table of edges must be a pandas.*; got tuple",
    ),
    # Weights
    "negative weights": (
        weighed(1.0, -2.0),
        r"column 'w' of the edges has 1 negative weights \(first: row 1\)",
    ),
    "missing weights": (
        weighed(None, 2.0),
        r"column 'w' of the edges has 1 missing weights \(first: row 0\)",
    ),
    "infinite weights": (weighed(INF, 2.0), "column 'w' has 1 infinite values"),
    "weights of text": (
        weighed("far", "near"),
        "column 'w' of the edges holds a category; weights are numbers",
    ),
    "no such weight": (link(weight="wieght"), "the table of edges has no column 'wieght'"),
    # Columns to use
    "no such feature": (link(features=["xx"]), "the table of nodes has no column 'xx'. Did you mean 'x'?"),
    "no such column to drop": (link(drop=["y"]), "the table of nodes has no column 'y'"),
    "no such target": (link(exclude="churn"), "the table of nodes has no column 'churn'"),
    "a feature left out": (
        link(features=["x"], drop=["x"]),
        "column 'x' is among features=, but is the id or left out",
    ),
    "the id as a feature": (
        link(features=["id"]),
        "column 'id' is among features=, but is the id or left out",
    ),
    # Graphs
    "too few rows": (lambda: Graph(np.eye(3), {"x": [1, 2]}), "features has 2 rows but adjacency is 3 x 3"),
    "too few rows for neighbours": (
        lambda: Graph.from_neighbors({"x": [1.0, 2.0]}, k=5),
        "k=5 neighbours need at least 6 rows; there are 2",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_bad_table_gets_one_clear_sentence(case: str) -> None:
    call, message = CASES[case]
    with pytest.raises(GBGNNError, match=message) as caught:
        call()
    assert isinstance(caught.value, ValueError)
    assert "\n" not in str(caught.value)


def test_there_are_many_bad_tables() -> None:
    assert len(CASES) >= 40


def test_a_target_among_the_columns_is_named_in_a_fit() -> None:
    random = np.random.default_rng(0)
    y = random.integers(0, 2, 60)
    table = {"noise": random.normal(size=60), "churned": np.where(y, "yes", "no")}
    graph = Graph(np.eye(60), table)
    with pytest.warns(GBGNNWarning, match="column 'churned' gives nearly all of the target alone"):
        GBGNNClassifier(n_rounds=1, random_state=0).fit(np.arange(60), y, graph=graph)
