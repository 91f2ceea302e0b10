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
def test_tables_on_workers_are_a_graph(frames, client, weight, directed, both_ways) -> None:
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


def test_parquet_files_are_read_by_the_workers(frames, client, tmp_path) -> None:
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
    assert sent.column_names == graph.feature_names
    with pytest.raises(ParameterError, match="n_chunks must be an integer >= 1"):
        DaskGraph.from_graph(graph, client=client, n_chunks=0)
