from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gbgnn.propagation import Csr, NeighbourEdges
from gbgnn.propagation.neighbours import gathered_maxima, maxima


def some_edges(seed: int, n_nodes: int, weighted: bool) -> sp.csr_array:
    A = sp.random_array((n_nodes, n_nodes), density=0.4, rng=np.random.default_rng(seed), format="csr")
    return A if weighted else sp.csr_array((A > 0).astype(np.float32))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 12), st.booleans())
def test_means_maxima_and_degrees_leave_the_node_out(seed: int, n_nodes: int, weighted: bool) -> None:
    A = some_edges(seed, n_nodes, weighted)
    X = torch.tensor(np.random.default_rng(seed).normal(size=(n_nodes, 3)))
    neighbours = NeighbourEdges(Csr.from_scipy(A), torch.float64)
    dense = A.toarray().astype(np.float64)
    np.fill_diagonal(dense, 0)
    assert neighbours.is_directed == (not np.allclose(dense, dense.T, rtol=0, atol=1e-13))
    for direction, side in (("along", dense), ("against", dense.T)):
        edges = neighbours[direction]
        degrees = side.sum(axis=1)
        np.testing.assert_allclose(edges.log_degrees, np.log1p(degrees), rtol=1e-12)
        means = side @ X.numpy() / np.where(degrees > 0, degrees, 1)[:, None]
        np.testing.assert_allclose(edges.walk(X), means, rtol=1e-10, atol=1e-12)
        largest = [X.numpy()[row > 0].max(axis=0) if row.any() else np.zeros(3) for row in side]
        np.testing.assert_array_equal(edges.maximum(X), largest)


@pytest.mark.parametrize("n_bytes", [1, 2**20])
def test_gathered_maxima_are_the_same(n_bytes: int) -> None:
    edges = Csr.from_scipy(some_edges(0, 20, weighted=True))
    X = torch.randn(20, 5, generator=torch.Generator().manual_seed(0))
    found = gathered_maxima(edges, X, n_bytes)
    heard = edges.row_starts.diff() > 0
    torch.testing.assert_close(found[heard], maxima(edges, X)[heard])
    assert bool((maxima(edges, X)[~heard] == -torch.inf).all())


def test_edges_without_loops_are_not_copied() -> None:
    edges = Csr.from_scipy(sp.csr_array([[0.0, 2.0], [1.0, 0.0]]))
    assert edges.without_loops() is edges
    looped = Csr.from_scipy(sp.csr_array([[3.0, 2.0], [1.0, 0.0]]))
    np.testing.assert_array_equal(looped.without_loops().to_scipy().toarray(), [[0, 2], [1, 0]])


def test_directions_in_which_there_is_something_to_hear() -> None:
    both, one = sp.csr_array([[0.0, 1.0], [0.0, 0.0]]), sp.csr_array([[1.0, 1.0], [1.0, 0.0]])
    found = [NeighbourEdges(Csr.from_scipy(each), torch.float32).directions() for each in (both, one)]
    assert found == [("along", "against"), ("along",)]
