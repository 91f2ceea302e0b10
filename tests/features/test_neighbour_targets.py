from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from gbgnn.errors import ParameterError
from gbgnn.features import NeighbourTargets, neighbour_targets
from gbgnn.features.neighbour_targets import random_walk, return_probabilities


def random_graph(seed: int, n: int = 12, *, directed: bool = False) -> sp.csr_array:
    random = np.random.default_rng(seed)
    dense = (random.random((n, n)) < 0.25) * random.integers(1, 4, (n, n)).astype(float)
    dense = dense if directed else dense + dense.T
    np.fill_diagonal(dense, random.integers(0, 2, n))  # self loops, which walks leave out
    return sp.csr_array(dense)


def brute_force(adjacency: sp.csr_array, rows: np.ndarray, targets: np.ndarray, hops: int) -> np.ndarray:
    dense = adjacency.toarray()
    np.fill_diagonal(dense, 0)
    degrees = dense.sum(axis=1, keepdims=True)
    walk, columns = dense / np.where(degrees > 0, degrees, 1), []
    for k in range(1, hops + 1):
        power = np.linalg.matrix_power(walk, k)
        means, shares = np.full((len(dense), targets.shape[1]), np.nan), np.zeros((len(dense), 1))
        for i in range(len(dense)):
            others = rows != i
            share = power[i, rows[others]].sum()
            if share > 1e-9:
                shares[i], means[i] = share, power[i, rows[others]] @ targets[others] / share
        columns += [means, shares]
    return np.hstack(columns)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**31), hops=st.integers(1, 3), directed=st.booleans(), size=st.floats(1e-3, 1e3))
def test_columns_equal_brute_force(seed: int, hops: int, directed: bool, size: float) -> None:
    random, adjacency = np.random.default_rng(seed), random_graph(seed, directed=directed)
    rows = random.permutation(12)[: random.integers(1, 12)]
    targets = size * random.standard_normal((len(rows), 2))
    found = NeighbourTargets(hops=hops).columns(adjacency, rows, targets)
    expected = brute_force(adjacency, rows, targets, hops)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * max(1, size))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**31), directed=st.booleans())
def test_no_node_hears_its_own_target(seed: int, directed: bool) -> None:
    """To the last bit: a tree would find what rounding leaves of it."""
    random, adjacency = np.random.default_rng(seed), random_graph(seed, directed=directed)
    rows = random.permutation(12)[:8]
    targets = random.integers(0, 2, (8, 1)).astype(float)
    columns, before = NeighbourTargets(), None
    for value in (0.0, 1.0):
        targets[3] = value
        targets[4] = 1.0  # so that the size of all stays
        now = columns.columns(adjacency, rows, targets)[rows[3]]
        assert before is None or now.tobytes() == before.tobytes()
        before = now


def test_no_node_hears_its_own_target_beside_hubs_and_tiny_weights() -> None:
    random, n = np.random.default_rng(0), 300
    ends = random.integers(n, size=(2, 2000))
    ends[1] = np.minimum(ends[1], random.integers(n, size=2000) ** 2 // n)  # the first nodes are hubs
    weights = 10.0 ** random.integers(-3, 4, 2000)
    adjacency = sp.csr_array(sp.coo_array((weights, ends), shape=(n, n)))
    adjacency = sp.csr_array(adjacency + adjacency.T)
    targets = random.integers(0, 2, (n, 1)).astype(float)
    before = NeighbourTargets().columns(adjacency, np.arange(n), targets)
    for node in range(0, n, 15):
        changed = targets.copy()
        changed[node] = 1 - changed[node]
        now = NeighbourTargets().columns(adjacency, np.arange(n), changed)
        assert now[node].tobytes() == before[node].tobytes()


def test_nodes_in_another_order_get_the_same() -> None:
    adjacency, random = random_graph(1), np.random.default_rng(0)
    rows, targets, order = np.arange(6), random.standard_normal((6, 1)), random.permutation(12)
    moved = sp.csr_array(adjacency.toarray()[np.ix_(order, order)])
    found = NeighbourTargets().columns(moved, np.argsort(order)[rows], targets)
    np.testing.assert_allclose(found, NeighbourTargets().columns(adjacency, rows, targets)[order], atol=1e-5)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("block_bytes", [1, 2**26])
def test_walks_that_come_back(monkeypatch, directed: bool, block_bytes: int) -> None:
    monkeypatch.setattr(neighbour_targets, "_BLOCK_BYTES", block_bytes)
    graph = random_graph(3, directed=directed)
    walk, found = random_walk(graph), return_probabilities(graph, np.arange(12), 3)
    for k, own in enumerate(found, start=1):
        np.testing.assert_allclose(own, np.diag(np.linalg.matrix_power(walk.toarray(), k)), atol=1e-12)


def test_names_and_settings() -> None:
    assert NeighbourTargets(hops=2).names(["price"]) == [
        "price_labelled_1",
        "labelled_share_1",
        "price_labelled_2",
        "labelled_share_2",
    ]
    with pytest.raises(ParameterError, match="NeighbourTargets.hops"):
        NeighbourTargets(hops=4).check()
