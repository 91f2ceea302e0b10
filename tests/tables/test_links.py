from __future__ import annotations

from typing import Any
from uuid import UUID

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gbgnn import Graph
from gbgnn.errors import GraphError
from gbgnn.tables.frames import Coded
from gbgnn.tables.links import Ids, build_adjacency

PEOPLE = {"name": ["Ada", "Bo", "Cy", "Di"], "age": [36, 41, 29, 60], "churn": [0, 1, 0, 1]}
CALLS = {"from": ["Ada", "Bo", "Cy"], "to": ["Bo", "Cy", "Bo"], "minutes": [2.0, 3.0, 4.0]}
FRAMES = {"dict": dict, "pandas": pd.DataFrame, "polars": pl.DataFrame, "Arrow": pa.table}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_two_tables_of_any_package_are_a_graph(frame: Any) -> None:
    graph = Graph.from_tables(frame(PEOPLE), frame(CALLS), exclude=["churn"])
    assert graph.adjacency.toarray().tolist() == [[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]]
    assert graph.node_ids.tolist() == PEOPLE["name"]
    assert graph.table is not None
    assert graph.table.names == ("age",)
    assert graph.repairs == ("took column 'name' for the ids of nodes", "merged 1 repeated edges")


@pytest.mark.parametrize(
    "ids",
    [
        [7, 3, 11, 5],
        [7.0, 3.0, 11.0, 5.0],
        ["7", "x", "Straße", "5 "],
        np.array([2**63 + 1, 5, 6, 7], np.uint64),
        [2**70, 5, 6, 7],
        [UUID(int=i) for i in (9, 4, 2, 7)],
        np.array(["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04"], "datetime64[D]"),
        pd.Series(pd.Categorical(["a", "b", "d", "c"])),
        pd.Series([4, 3, 2, 1], dtype="Int64"),
    ],
    ids=[
        "whole",
        "whole floats",
        "text",
        "unsigned",
        "huge",
        "UUID",
        "dates",
        "category",
        "Int64",
    ],
)
def test_ids_are_of_any_kind(ids: Any) -> None:
    nodes = {"key": ids, "x": [1.0, 2.0, 3.0, 4.0]}
    take = ids.iloc if hasattr(ids, "iloc") else ids
    ends = {"source": [take[0], take[2]], "target": [take[1], take[3]]}
    for frame in (dict, pd.DataFrame):
        graph = Graph.from_tables(frame(nodes), frame(ends), id="key")
        assert sorted(zip(*graph.adjacency.nonzero(), strict=True)) == [(0, 1), (1, 0), (2, 3), (3, 2)]


def test_weights_and_directions() -> None:
    graph = Graph.from_tables(PEOPLE, CALLS, weight="minutes", directed=True, drop=["churn"])
    # adjacency[i, j] is the edge from j to i.
    assert graph.adjacency.toarray().tolist() == [[0, 0, 0, 0], [2, 0, 4, 0], [0, 3, 0, 0], [0, 0, 0, 0]]
    assert graph.is_directed
    both = Graph.from_tables(PEOPLE, CALLS, weight="minutes")
    assert both.adjacency.toarray().tolist() == [[0, 2, 0, 0], [2, 0, 7, 0], [0, 7, 0, 0], [0, 0, 0, 0]]


def test_edges_may_be_in_several_tables_and_in_none() -> None:
    letters = pl.DataFrame({"src": ["Di"], "dst": ["Ada"], "minutes": [1.0]})
    graph = Graph.from_tables(PEOPLE, [CALLS, letters], weight="minutes")
    assert graph.adjacency[0, 3] == graph.adjacency[3, 0] == 1
    assert graph.n_edges == 3
    empty = pd.DataFrame({"source": [], "target": []})
    assert Graph.from_tables(PEOPLE, empty, id="name").n_edges == 0
    assert Graph.from_tables(PEOPLE, empty).node_ids.tolist() == PEOPLE["name"]


def test_columns_of_edges_are_found_by_their_names_or_places() -> None:
    dated = {"day": [1, 2, 3], "source": CALLS["from"], "target": CALLS["to"]}
    assert Graph.from_tables(PEOPLE, dated).n_edges == 2
    placed = {"caller": CALLS["from"], "called": CALLS["to"]}
    assert Graph.from_tables(PEOPLE, placed).n_edges == 2
    named = Graph.from_tables(
        PEOPLE, dated | {"friend": ["Di", "Di", "Di"]}, source="source", target="friend"
    )
    assert named.n_edges == 3


def test_the_column_of_ids_is_the_one_that_edges_name() -> None:
    nodes = {"row": [0, 1, 2], "code": [10, 11, 12], "x": [0.5, 1.5, 0.5]}
    graph = Graph.from_tables(nodes, {"source": [10], "target": [12]})
    assert graph.repairs[0] == "took column 'code' for the ids of nodes"
    assert graph.node_ids.tolist() == [10, 11, 12]
    assert graph.table is not None
    assert graph.table.names == ("row", "x")
    plain = Graph.from_tables({"x": [0.5, 1.5], "id": ["a", "b"]}, {"source": ["a"], "target": ["b"]})
    assert plain.repairs == ()
    assert plain.node_ids.tolist() == ["a", "b"]


def test_features_can_be_named_and_of_a_kind() -> None:
    graph = Graph.from_tables(PEOPLE, CALLS, features=["churn"], kinds={"churn": "category", "age": "text"})
    assert graph.feature_names == ("churn=0", "churn=1")
    alone = Graph.from_tables(PEOPLE, CALLS, drop=["age", "churn"])
    assert alone.features_from == "edges"


def test_arrays_of_the_user_stay_theirs() -> None:
    nodes = {"id": np.array([3, 4]), "x": np.array([1.0, 2.0]), "flag": np.array([True, False])}
    edges = {"source": np.array([3]), "target": np.array([4]), "weight": np.array([2.0])}
    graph = Graph.from_tables(nodes, edges, weight="weight")
    for array in (*nodes.values(), *edges.values()):
        array[:] = 0
    assert graph.node_ids.tolist() == [3, 4]
    assert graph.adjacency.data.tolist() == [2, 2]
    assert graph.table is not None
    assert graph.table["x"].values.tolist() == [1, 2]
    with pytest.raises(ValueError, match="read-only"):
        graph.node_ids[0] = 1


@pytest.mark.parametrize("step", [1, 1000])
def test_numbers_that_are_no_ids_are_shown(step: int) -> None:
    nodes = {"id": [step * i for i in range(5)], "x": [1.0, 2.0, 3.0, 4.0, 5.0]}
    for stranger in (-1, 5 * step, 3 * step + 1 if step > 1 else 10**12):
        with pytest.raises(GraphError, match=f"does not have, in 1 rows: {stranger}"):
            Graph.from_tables(nodes, {"source": [0, stranger], "target": [step, 0]})


def test_whole_numbers_among_objects_are_ids() -> None:
    nodes = {"id": np.array([1.0, 2.0, 3.0], dtype=object), "x": [1.0, 2.0, 3.0]}
    graph = Graph.from_tables(nodes, {"source": [1], "target": [3]})
    assert graph.node_ids.tolist() == [1, 2, 3]
    assert graph.adjacency[0, 2] == 1


def test_loops_are_dropped_and_said() -> None:
    graph = Graph.from_tables(PEOPLE, {"source": ["Ada", "Ada"], "target": ["Ada", "Bo"]})
    assert graph.repairs[-1] == "dropped 1 self loops"
    assert graph.n_self_loops == 0


@given(
    st.integers(2, 8).flatmap(
        lambda n: st.tuples(
            st.just(n),
            st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), min_size=1, max_size=30),
        )
    ),
    st.booleans(),
)
def test_the_matrix_is_that_of_networkx(case: tuple[int, list[tuple[int, int]]], directed: bool) -> None:
    n, pairs = case
    sources, targets = np.array(pairs).T
    matrix, _ = build_adjacency((sources, targets), n, directed=directed)
    G = nx.DiGraph() if directed else nx.Graph()
    G.add_nodes_from(range(n))
    G.add_edges_from((one, other) for one, other in pairs if one != other)
    expected = nx.to_numpy_array(G, nodelist=range(n))
    np.testing.assert_array_equal(matrix.toarray(), expected.T if directed else expected)


@given(st.permutations(range(20)), st.lists(st.integers(0, 19), max_size=30), st.booleans())
def test_rows_are_found_by_whole_numbers_and_by_text(
    order: list[int], asked: list[int], as_text: bool
) -> None:
    step = 10**9 if asked[:1] == [0] else 7  # near each other, or far apart
    names = [f"n{i}" for i in range(20)] if as_text else [i * step - 5 for i in range(20)]
    ids = Ids.read(np.array([names[i] for i in order]), "ids")
    rows = ids.rows(Ids.read(np.array([names[i] for i in asked], dtype=object), "asked"))
    assert [order[row] for row in rows] == asked


def test_repeated_ids_are_shown_with_their_rows() -> None:
    ids = Ids.read(Coded(np.array([0, 1, 0]), np.array(["a", "b"], dtype=object)), "column 'id'")
    assert ids.find_repeated() == ("a", 0, 2)
    with pytest.raises(GraphError, match=r"holds 1 repeated ids \(first: 'a' in rows 0 and 2\)"):
        ids.check_distinct()


def test_text_ids_by_their_distinct_values() -> None:
    nodes = Ids.read(Coded(np.array([2, 0, 1]), np.array(["a", "b", "c", "unused"], dtype=object)), "ids")
    assert nodes.values.tolist() == ["c", "a", "b"]
    ends = Ids.read(Coded(np.array([1, 1, 2, 0]), np.array(["a", "b", "c"], dtype=object), True), "ends")
    assert nodes.rows(ends).tolist() == [2, 2, 0, 1]
    with pytest.raises(GraphError, match=r"ends has 2 missing ids \(first: row 1\)"):
        Ids.read(Coded(np.array([0, -1, 1]), np.array(["a", " "], dtype=object), True), "ends")
    strange = Ids.read(Coded(np.array([0, 1, 1]), np.array(["a", "z"], dtype=object), True), "ends")
    with pytest.raises(GraphError, match=r"names nodes that ids does not have, in 2 rows: 'z'"):
        nodes.rows(strange)
