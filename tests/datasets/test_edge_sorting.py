from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gbgnn import Graph
from gbgnn.datasets.arrays import open_array
from gbgnn.datasets.edge_sorting import Buckets, EdgeSorter
from gbgnn.datasets.scratch import Scratch
from gbgnn.tables.links import build_adjacency


@st.composite
def edge_lists(draw):
    n = draw(st.integers(1, 9))
    node = st.integers(0, n - 1)
    ends = draw(st.lists(st.tuples(node, node), max_size=40))
    kind = draw(st.sampled_from([None, np.float32, np.float64]))
    values = draw(st.lists(st.sampled_from([0, 0.1, 0.3, 1, 2.5]), min_size=len(ends), max_size=len(ends)))
    if draw(st.booleans()):
        ends, values = ends + [pair[::-1] for pair in ends], values * 2
    sources, targets = np.array(ends, np.int64).reshape(-1, 2).T
    return n, sources, targets, None if kind is None else np.array(values, kind), draw(st.booleans())


@settings(max_examples=200, deadline=None)
@given(made=edge_lists(), most=st.integers(1, 9), n_buckets=st.integers(1, 4), n_blocks=st.integers(1, 4))
def test_the_arrays_are_those_of_all_edges_at_once(made, most, n_buckets, n_blocks) -> None:
    n, sources, targets, weights, directed = made
    matrix, mended = build_adjacency((sources, targets), n, weights=weights, directed=directed)
    graph = Graph(matrix, np.ones((n, 1)), repairs=mended)
    told = []
    with tempfile.TemporaryDirectory() as place:
        scratch, out = Scratch(Path(place)), Path(place, "out")
        kind = None if weights is None else weights.dtype
        sorter = EdgeSorter(n, len(sources), kind, directed, scratch)
        sorter._most = most  # edges that fit into memory at once
        for name in ("_buckets", "_turned"):
            setattr(sorter, name, Buckets(scratch, (0, n), n_buckets, sorter._record))
        for part in np.array_split(np.arange(len(sources)), n_blocks):
            sorter.add(sources[part], targets[part], None if weights is None else weights[part])
        done = sorter.finish(out, lambda n_done, n_all: told.append((n_done, n_all)))
        A = graph.adjacency
        parts = {"indptr": A.indptr, "indices": A.indices}
        if weights is not None:
            parts["weights"] = A.data
        for name, known in parts.items():
            found = open_array(out / f"{name}.npy")
            assert found.dtype == known.dtype
            assert found.tolist() == known.tolist()
        assert sorted(file.stem for file in out.iterdir()) == sorted(parts)
    assert (tuple(done.repairs), done.is_directed) == (graph.repairs, graph.is_directed)
    assert told == sorted(told)
    assert told[-1] == (2 * n, 2 * n)


def test_tables_without_weights_weigh_one_beside_others(tmp_path) -> None:
    sorter = EdgeSorter(3, 2, np.dtype(np.float32), False, Scratch(tmp_path))
    sorter.add(np.array([0]), np.array([1]), np.array([2.5]))
    sorter.add(np.array([1]), np.array([2]))
    sorter.finish(tmp_path / "out")
    assert open_array(tmp_path / "out" / "weights.npy").tolist() == [2.5, 2.5, 1, 1]


def test_a_range_that_is_too_large_is_divided_down_to_single_rows(tmp_path) -> None:
    record = np.dtype([("row", np.int32), ("column", np.int32)])
    buckets = Buckets(Scratch(tmp_path), (0, 100), 2, record)
    records = np.zeros(50, record)
    records["row"][:40], records["row"][40:] = 7, np.arange(10)
    records["column"] = np.arange(50)
    buckets.add(records)
    found = list(buckets.ranges(5))
    assert [start for (start, _), _ in found] == [0, *(stop for (_, stop), _ in found[:-1])]
    assert found[-1][0][1] == 100
    hub = next(block for (start, stop), block in found if start <= 7 < stop)
    assert hub["column"].tolist() == [*range(40), 47]  # in the order in which they came
    assert all(len(block) <= 5 for (start, stop), block in found if not start <= 7 < stop)
    buckets.remove()
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize("n_nodes", [5, 2**31 + 5])
def test_columns_are_as_wide_as_the_number_of_nodes_needs(n_nodes, tmp_path) -> None:
    sorter = EdgeSorter(n_nodes, 1, None, False, Scratch(tmp_path))
    assert sorter._record["column"].itemsize == (4 if n_nodes == 5 else 8)
