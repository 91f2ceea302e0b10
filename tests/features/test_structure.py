from __future__ import annotations

from collections.abc import Callable

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from gbgnn.features import structure
from gbgnn.features.structure import clustering, count_neighbours, page_rank, sum_triangles

DrawWeights = Callable[..., sp.csr_array]
SIZES, SEEDS = st.integers(1, 12), st.integers(0, 2**32 - 1)


def as_networkx(A: sp.csr_array, kind: type = nx.DiGraph) -> nx.Graph:
    """Return the graph whose edge from j to i has the weight A[i, j]."""
    return nx.from_scipy_sparse_array(A.T.tocsr(), create_using=kind)


@settings(max_examples=50)
@given(n_nodes=SIZES, seed=SEEDS)
def test_page_rank_is_that_of_networkx(draw_weights: DrawWeights, n_nodes: int, seed: int) -> None:
    A = draw_weights(n_nodes, seed)
    expected = nx.pagerank(as_networkx(A), tol=1e-12, max_iter=1000)
    found = page_rank(A)
    np.testing.assert_allclose(
        found, A.shape[0] * np.array([expected[i] for i in range(A.shape[0])]), atol=1e-8
    )
    assert found.mean() == pytest.approx(1)


@settings(max_examples=50)
@given(n_nodes=SIZES, seed=SEEDS)
def test_clustering_is_that_of_networkx(draw_weights: DrawWeights, n_nodes: int, seed: int) -> None:
    A = draw_weights(n_nodes, seed, symmetric=True)
    simple = as_networkx(A, nx.Graph)
    simple.remove_edges_from(nx.selfloop_edges(simple))
    expected = nx.clustering(simple)
    for block_bytes in (1, 100, 2**20):
        found = clustering(A, block_bytes)
        np.testing.assert_allclose(found, [expected[i] for i in range(A.shape[0])])


@settings(max_examples=50)
@given(n_nodes=SIZES, seed=SEEDS)
def test_weighted_triangles_are_the_diagonal_of_the_cube(
    draw_weights: DrawWeights, n_nodes: int, seed: int
) -> None:
    A = draw_weights(n_nodes, seed, symmetric=True)
    dense = A.toarray()
    np.fill_diagonal(dense, 0)
    for block_bytes in (1, 2**20):
        expected = np.diag(np.linalg.matrix_power(dense, 3)) / 2
        np.testing.assert_allclose(sum_triangles(A, block_bytes), expected, rtol=1e-9, atol=1e-12)


def test_clustering_of_a_larger_graph_with_hubs() -> None:
    graph = nx.barabasi_albert_graph(500, 4, seed=0)
    expected = nx.clustering(graph)
    A = sp.csr_array(nx.to_scipy_sparse_array(graph))
    np.testing.assert_allclose(clustering(A, 10_000), [expected[i] for i in range(500)])


@settings(max_examples=50)
@given(n_nodes=SIZES, seed=SEEDS)
def test_neighbours_are_counted_without_self_loops(
    draw_weights: DrawWeights, n_nodes: int, seed: int
) -> None:
    A = draw_weights(n_nodes, seed)
    dense = A.toarray() != 0
    np.fill_diagonal(dense, False)
    np.testing.assert_array_equal(count_neighbours(A), dense.sum(axis=1))


def test_page_rank_ends_where_it_does_not_converge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(structure, "_MOST_STEPS", 1)
    A = sp.csr_array(np.diag(np.ones(4), 1))
    assert page_rank(A).mean() == pytest.approx(1)
