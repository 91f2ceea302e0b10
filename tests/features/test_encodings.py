from __future__ import annotations

from collections.abc import Callable

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import ArpackNoConvergence
from sklearn.neighbors import kneighbors_graph

from gbgnn.errors import GBGNNWarning
from gbgnn.features import encodings
from gbgnn.features.encodings import _is_easily_eliminated, laplacian_eigenvectors, return_probabilities
from gbgnn.propagation import NormalizedAdjacency, RandomWalk

DrawWeights = Callable[..., sp.csr_array]
SIZES, SEEDS = st.integers(1, 12), st.integers(0, 2**32 - 1)


def random_graph(n_nodes: int, seed: int = 0) -> sp.csr_array:
    """Return components of two kinds, and a node on its own."""
    random = np.random.default_rng(seed)
    A = np.triu(random.random((n_nodes, n_nodes)) < 8 / n_nodes, 1) * random.uniform(1, 2, (n_nodes, n_nodes))
    side = np.arange(n_nodes) < n_nodes // 3
    A[side[:, None] != side] = 0
    A[:, 5] = A[5] = 0
    return sp.csr_array(A + A.T)


@settings(max_examples=50)
@given(n_nodes=SIZES, seed=SEEDS)
def test_return_probabilities_are_the_diagonals_of_powers(
    draw_weights: DrawWeights, n_nodes: int, seed: int
) -> None:
    A = draw_weights(n_nodes, seed, symmetric=True)
    P = RandomWalk().build(A).toarray()
    expected = np.stack([np.linalg.matrix_power(P, k).diagonal() for k in range(2, 8)], axis=1)
    for n_steps, block_bytes in ((6, 2**20), (5, 1), (1, 2**20)):
        found = return_probabilities(A, n_steps, block_bytes)
        np.testing.assert_allclose(found, expected[:, :n_steps], atol=1e-12)


def test_return_probabilities_are_estimated_where_that_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    A = random_graph(300)
    exact = return_probabilities(A, 5, 2**20)
    monkeypatch.setattr(encodings, "EXACT_WORK", 10)
    estimates = [return_probabilities(A, 5, block_bytes) for block_bytes in (2**24, 300 * 48 * 7)]
    for found in estimates:
        some = exact > 0
        assert np.median(abs(found - exact)[some] / exact[some]) < 0.3
        assert not found[5].any()
        assert np.corrcoef(found[:, 0], exact[:, 0])[0, 1] > 0.8
    assert estimates[0].tobytes() == return_probabilities(A, 5, 2**24).tobytes()


@pytest.mark.parametrize("n_nodes", [60, 400])
def test_eigenvectors_are_the_smoothest_of_the_laplacian(n_nodes: int) -> None:
    A = random_graph(n_nodes)
    vectors = laplacian_eigenvectors(A, 4)
    P = RandomWalk().build(A).toarray()
    values = (vectors * (P @ vectors)).sum(axis=0) / (vectors**2).sum(axis=0)
    np.testing.assert_allclose(P @ vectors, vectors * values, atol=1e-6)
    of_p = np.sort(np.linalg.eigvals(P).real)[::-1]
    expected = of_p[of_p < 1 - 1e-9][:4]  # one is the eigenvalue of every component
    np.testing.assert_allclose(values, expected, atol=1e-8)
    assert ((vectors**3).mean(axis=0) > 0).all()
    np.testing.assert_allclose((vectors**2).sum(axis=0), (P.sum(axis=1) > 0).sum())
    assert not vectors[5].any()


def spatial_graph(n_nodes: int, seed: int = 0) -> sp.csr_array:
    """Return points of a plane, each joined to its five nearest, in several components."""
    points = np.random.default_rng(seed).random((n_nodes, 2))
    near = kneighbors_graph(points, 5)
    return sp.csr_array(near.maximum(near.T))


@pytest.mark.parametrize("n_nodes", [300, 2000])
def test_elimination_and_iterations_find_the_same_eigenvectors(
    n_nodes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    A = spatial_graph(n_nodes)
    P = NormalizedAdjacency().build(A).to_scipy()
    assert _is_easily_eliminated(P) == (n_nodes == 2000)
    found = {}
    for is_easy in (True, False):
        monkeypatch.setattr(encodings, "_is_easily_eliminated", lambda P, is_easy=is_easy: is_easy)
        found[is_easy] = laplacian_eigenvectors(A, 8)
        assert laplacian_eigenvectors(A, 8).tobytes() == found[is_easy].tobytes()
    np.testing.assert_allclose(found[True], found[False], atol=1e-4)
    values = np.sort(np.linalg.eigvalsh(P.toarray()))[::-1]
    vectors = found[True]
    walk = RandomWalk().build(A)
    quotients = (vectors * (walk.to_scipy() @ vectors) * A.sum(axis=1)[:, None]).sum(axis=0) / (
        vectors**2 * A.sum(axis=1)[:, None]
    ).sum(axis=0)
    np.testing.assert_allclose(quotients, values[values < 1 - 1e-9][:8], atol=1e-9)


def test_networks_without_distances_are_not_eliminated() -> None:
    random = np.random.default_rng(0)
    ends = random.integers(0, 2000, (2, 8000))
    A = sp.csr_array(sp.coo_array((np.ones(8000), ends), shape=(2000, 2000)))
    assert not _is_easily_eliminated(sp.csr_array(A + A.T))
    path = sp.csr_array(nx.to_scipy_sparse_array(nx.path_graph(2000), dtype=float))
    assert _is_easily_eliminated(path)


def test_eigenvectors_move_with_the_nodes() -> None:
    A = random_graph(300)
    order = np.random.default_rng(1).permutation(300)
    moved = laplacian_eigenvectors(sp.csr_array(A[order][:, order]), 4)
    np.testing.assert_allclose(moved, laplacian_eigenvectors(A, 4)[order], atol=1e-5)


def test_a_graph_with_few_nodes_has_few_eigenvectors() -> None:
    edge = sp.csr_array([[0.0, 1.0], [1.0, 0.0]])
    np.testing.assert_allclose(abs(laplacian_eigenvectors(edge, 3)), [[1, 0, 0], [1, 0, 0]])
    assert not laplacian_eigenvectors(sp.csr_array((4, 4)), 3).any()


def test_eigenvectors_that_are_not_found_are_zero_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    A = random_graph(400)
    exact = laplacian_eigenvectors(A, 4)
    find = encodings.find_eigenpairs

    def stop_early(operator: object, symmetric: bool, n_sought: int, which: str) -> None:
        values, vectors = find(operator, symmetric, n_sought, which)
        raise ArpackNoConvergence("", values[-2:], vectors[:, -2:])

    monkeypatch.setattr(encodings, "find_eigenpairs", stop_early)
    with pytest.warns(
        GBGNNWarning, match="2 of 4 eigenvectors of the Laplacian were found in reasonable time"
    ):
        found = laplacian_eigenvectors(A, 4)
    np.testing.assert_allclose(found[:, :2], exact[:, :2])
    assert not found[:, 2:].any()


def test_the_first_eigenvector_runs_along_a_path() -> None:
    path = sp.csr_array(nx.to_scipy_sparse_array(nx.path_graph(300), dtype=float))
    first = laplacian_eigenvectors(path, 2)[:, 0]
    assert (np.diff(first) > 0).all()
