from __future__ import annotations

import itertools

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from gbgnn import Graph
from gbgnn.dask import DaskGraph
from gbgnn.dask.graph import _share_out
from gbgnn.errors import GraphError, ParameterError


def frames(n_nodes: int = 40, n_edges: int = 150, *, seed: int = 0, both_ways: bool = False):
    """Return a table of nodes with ids in no order, and one of edges, some of them twice, and self loops."""
    rng = np.random.default_rng(seed)
    ids = rng.permutation(n_nodes) * 7 + 3
    nodes = pd.DataFrame({"key": ids, "a": rng.normal(size=n_nodes), "b": rng.integers(0, 9, n_nodes)})
    nodes["label"] = (nodes["a"] > 0).astype(int)
    edges = pd.DataFrame(
        {
            "caller": rng.choice(ids, n_edges),
            "called": rng.choice(ids, n_edges),
            "calls": rng.integers(1, 5, n_edges),
        }
    )
    if both_ways:
        turned = edges.rename(columns={"caller": "called", "called": "caller"})
        edges = pd.concat([edges, turned], ignore_index=True)
    return nodes, edges


def adjacency_of(graph: DaskGraph):
    """Return the whole matrix of local edges, as somebody would who had all of them."""
    bounds, A = graph.layout.bounds, np.zeros((graph.n_nodes, graph.n_nodes))
    for i, edges in enumerate(graph.layout.client.gather(list(graph.edges))):
        seen = [np.arange(bounds[i], bounds[i + 1])]
        seen = np.concatenate([*seen, *(bounds[j] + ids for j, ids in edges.borrowed.items())])
        starts, rows = edges.rows.row_starts, edges.rows
        values = np.ones(len(rows.columns)) if rows.values is None else rows.values
        for row, (start, stop) in enumerate(itertools.pairwise(starts)):
            A[bounds[i] + row, seen[rows.columns[start:stop]]] = values[start:stop]
    return A


@pytest.mark.parametrize("weight", [None, "calls"])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("both_ways", [False, True])
def test_tables_on_workers_are_the_graph_of_tables_in_memory(client, weight, directed, both_ways) -> None:
    nodes, edges = frames(both_ways=both_ways)
    columns = {"id": "key", "source": "caller", "target": "called", "weight": weight, "directed": directed}
    here = Graph.from_tables(nodes.drop(columns="label"), edges, **columns)
    there = DaskGraph.from_dask(
        dd.from_pandas(nodes, npartitions=3, sort=False),
        dd.from_pandas(edges, npartitions=2),
        client=client,
        exclude=["label"],
        **columns,
    )
    assert np.array_equal(adjacency_of(there), here.adjacency.toarray())
    assert there.feature_names == ("a", "b")
    order = np.arange(there.n_nodes)
    assert np.array_equal(there.features[order], nodes[["a", "b"]].to_numpy())
    assert there.rows_of(nodes["key"][::-1]).tolist() == order[::-1].tolist()
    sums = np.concatenate(client.gather(list(there.totals)))
    assert np.allclose(sums, np.column_stack([here.adjacency.sum(axis=1), here.adjacency.sum(axis=0)]))


def test_text_may_be_ids(client) -> None:
    nodes = pd.DataFrame({"name": list("xyzw"), "age": [1.0, 2.0, 3.0, 4.0]})
    edges = pd.DataFrame({"source": list("xyz"), "target": list("yzw")})
    graph = DaskGraph.from_dask(
        dd.from_pandas(nodes, npartitions=2, sort=False),
        dd.from_pandas(edges, npartitions=1),
        client=client,
        id="name",
    )
    assert np.array_equal(adjacency_of(graph), np.diag([1.0] * 3, 1) + np.diag([1.0] * 3, -1))
    assert graph.rows_of(["w", "x"]).tolist() == [3, 0]
    with pytest.raises(GraphError, match="1 ids are of no node of the graph \\(first: 'q'\\)"):
        graph.rows_of(["q"])


def test_parquet_files_are_read_by_the_workers(client, tmp_path) -> None:
    nodes, edges = frames()
    place = {key: row for row, key in enumerate(nodes["key"])}
    numbered = edges.assign(source=edges["caller"].map(place), target=edges["called"].map(place))
    for name, frame in (("nodes", nodes.drop(columns="key")), ("edges", numbered[["source", "target"]])):
        (tmp_path / name).mkdir()
        for i, part in enumerate(np.array_split(np.arange(len(frame)), 3)):
            frame.iloc[part].to_parquet(tmp_path / name / f"{i}.parquet")
    graph = DaskGraph.from_parquet(
        str(tmp_path / "nodes"), str(tmp_path / "edges"), client=client, exclude=["label"]
    )
    here = Graph.from_tables(nodes, edges, id="key", source="caller", target="called", exclude=["label"])
    assert np.array_equal(adjacency_of(graph), here.adjacency.toarray())
    assert graph.rows_of([5]).tolist() == [5]
    assert repr(graph).startswith("DaskGraph(n_nodes=40, n_features=2, n_chunks=")


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
def test_what_is_wrong_with_tables_is_said(client, spoil, columns, message) -> None:
    nodes, edges = frames()
    with pytest.raises(GraphError, match=message):
        read(client, *spoil(nodes.drop(columns="label"), edges), **columns)


def test_chunks_cost_about_the_same_and_none_is_empty() -> None:
    starts = np.concatenate([[0], np.cumsum(np.r_[np.full(10, 1000), np.ones(90, int)])])
    bounds = _share_out(starts, 4)
    assert bounds[0] == 0
    assert bounds[-1] == 100
    assert np.diff(bounds).tolist() == [3, 3, 2, 92]
    assert _share_out(np.zeros(4, int), 9) == (0, 1, 2, 3)
    assert _share_out(np.arange(6), 1) == (0, 5)


def test_a_graph_in_memory_is_sent_as_it_is(client, make_graph) -> None:
    graph = make_graph(50, weighted=True, directed=True)
    sent = DaskGraph.from_graph(graph, client=client, n_chunks=4)
    assert np.array_equal(adjacency_of(sent), graph.adjacency.toarray())
    assert np.array_equal(sent.features[np.array([49, 3])], graph.features[[49, 3]])
    assert sent.checksum == graph.checksum
    assert sent.column_names == graph.feature_names
    with pytest.raises(ParameterError, match="n_chunks must be an integer >= 1"):
        DaskGraph.from_graph(graph, client=client, n_chunks=0)
