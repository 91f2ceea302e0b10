"""What workers compute, without workers: rows of P X in chunks are those of one machine, bit by bit."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gbgnn.dask.blocks import Block, EdgeRows, LocalEdges, add_up, as_chunk, as_numbers, pick
from gbgnn.propagation import (
    AugmentedAdjacency,
    DenseRows,
    GivenMatrix,
    GraphRows,
    NormalizedAdjacency,
    NormalizedLaplacian,
    Propagator,
    RandomWalk,
)
from gbgnn.propagation.operator import Csr

RECIPES = (
    AugmentedAdjacency(),
    NormalizedAdjacency(),
    RandomWalk(),
    RandomWalk(self_loops=True),
    NormalizedLaplacian(),
    GivenMatrix(),
)


def cut(graph, bounds):
    """Return local edges of every chunk, and sums of rows and columns."""
    edges = [
        LocalEdges.build(EdgeRows.from_scipy(graph.adjacency[start:stop]), bounds, i)
        for i, (start, stop) in enumerate(itertools.pairwise(bounds))
    ]
    A = Csr.from_scipy(graph.adjacency)
    sums = np.column_stack([A.row_sums().numpy(), A.column_sums().numpy()])
    return edges, [sums[start:stop] for start, stop in itertools.pairwise(bounds)]


def multiply(graph, bounds, recipe, X, dtype):
    edges, totals = cut(graph, bounds)
    chunks = [X[start:stop] for start, stop in itertools.pairwise(bounds)]
    result = []
    for i, own in enumerate(edges):
        lent = [pick(totals[j], ids) for j, ids in own.borrowed.items()]
        block = Block.build(own, recipe, dtype, totals[i], *lent)
        result.append(block.multiply(chunks[i], *(pick(chunks[j], ids) for j, ids in own.borrowed.items())))
    return np.concatenate(result)


@settings(max_examples=25)
@given(
    cuts=st.sets(st.integers(1, 59), max_size=5),
    recipe=st.sampled_from(RECIPES),
    weighted=st.booleans(),
    directed=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.bfloat16]),
    seed=st.integers(0, 20),
)
def test_a_product_in_chunks_is_that_of_one_machine_bit_by_bit(
    make_graph, cuts, recipe, weighted, directed, dtype, seed
) -> None:
    graph = make_graph(60, seed=seed, weighted=weighted, directed=directed)
    X = as_chunk(graph.features, dtype, None)
    found = multiply(graph, (0, *sorted(cuts), 60), recipe, X, dtype)
    whole = Propagator(recipe.build(graph.adjacency), dtype=dtype)(as_numbers(X, dtype))
    assert torch.equal(as_numbers(found, dtype), whole)


def test_a_chunk_borrows_what_its_rows_name_and_no_more(make_graph) -> None:
    graph, bounds = make_graph(60), (0, 13, 40, 60)
    edges, _ = cut(graph, bounds)
    for i, own in enumerate(edges):
        named = np.unique(graph.adjacency[bounds[i] : bounds[i + 1]].indices)
        others = named[(named < bounds[i]) | (named >= bounds[i + 1])]
        lent = np.concatenate([bounds[j] + ids for j, ids in own.borrowed.items()])
        assert lent.tolist() == others.tolist()
        assert sum(own.counts.values()) == len(others)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_sums_are_those_of_one_machine_bit_by_bit(make_graph, is_sparse: bool) -> None:
    graph = make_graph(60)
    P, X = Propagator(AugmentedAdjacency().build(graph.adjacency)), torch.from_numpy(graph.features.copy())
    first = DenseRows(X)
    mixed = GraphRows(first, first, P).mixed((0, 1), torch.tensor([0.3, 0.7]), 0.1).dense()
    terms = X.numpy(), P(X).numpy()
    found = add_up(torch.float32, tuple(torch.tensor([0.3, 0.7]).tolist()), 0.1, False, X.numpy(), *terms)
    assert np.array_equal(found, mixed.numpy())
    scaled = add_up(torch.float32, (1.0,), 0.25, is_sparse, X.numpy(), terms[1])
    assert np.allclose(scaled, terms[1] + 0.25 * X.numpy(), atol=1e-6)


def test_dask_can_tell_how_large_they_are(make_graph) -> None:
    graph = make_graph(60, weighted=True)
    edges, totals = cut(graph, (0, 60))
    block = Block.build(edges[0], AugmentedAdjacency(), torch.float32, totals[0])
    assert sys.getsizeof(edges[0].rows) >= graph.adjacency.nnz * 8
    assert sys.getsizeof(edges[0]) >= graph.adjacency.nnz * 8
    assert sys.getsizeof(block) >= graph.adjacency.nnz * 8


def test_edges_that_all_weigh_one_have_no_values(make_graph) -> None:
    assert EdgeRows.from_scipy(make_graph(60).adjacency).values is None
    assert EdgeRows.from_scipy(make_graph(60, weighted=True).adjacency).values is not None
