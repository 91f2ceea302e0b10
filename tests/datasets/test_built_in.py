from __future__ import annotations

import time

import numpy as np
import pytest

from gbgnn.datasets import csbm, digits, karate
from gbgnn.errors import ParameterError


def test_karate_is_the_graph_that_networkx_has():
    nx = pytest.importorskip("networkx")
    club = nx.karate_club_graph()
    data = karate()
    ours = {(int(i), int(j)) for i, j in zip(*data.graph.adjacency.nonzero(), strict=True) if i < j}
    assert ours == {tuple(sorted(edge)) for edge in club.edges}
    assert [data.class_names[k] for k in data.y] == [club.nodes[i]["club"] for i in range(34)]


def test_karate_trains_on_the_two_rivals():
    data = karate()
    assert data.train.tolist() == [0, 33]
    assert data.y[data.train].tolist() == [0, 1]
    assert len(data.test) == 32
    assert not data.graph.is_weighted


def test_digits_are_scaled_and_joined_symmetrically():
    data = digits()
    assert data.graph.features.min() == 0
    assert data.graph.features.max() == 1
    assert not data.graph.is_directed
    assert np.diff(data.graph.adjacency.indptr).min() >= 8
    assert np.bincount(data.y[data.train]).tolist() == [5] * 10


def test_the_seed_changes_the_split_but_not_the_graph():
    first, again, other = digits(seed=1), digits(seed=1), digits(seed=2)
    assert np.array_equal(first.test, again.test)
    assert not np.array_equal(first.test, other.test)
    assert (first.graph.adjacency != other.graph.adjacency).nnz == 0


def test_digits_refuses_too_many_neighbours():
    with pytest.raises(ParameterError, match=r"digits\.n_neighbors must be an integer from 1 to 1796"):
        digits(n_neighbors=1797)


def _share_of_equal_ends(data):
    rows, cols = data.graph.adjacency.nonzero()
    return np.mean(data.y[rows] == data.y[cols])


@pytest.mark.parametrize("homophily", [0.0, 0.2, 0.8, 1.0])
def test_homophily_and_degree_are_as_asked(homophily):
    data = csbm(n_nodes=900, n_classes=3, homophily=homophily, mean_degree=8, seed=5)
    assert _share_of_equal_ends(data) == pytest.approx(homophily, abs=1e-3)
    assert data.graph.n_edges == 3600
    assert np.bincount(data.y).tolist() == [300, 300, 300]
    assert data.graph.n_self_loops == 0


def test_edges_favour_no_node_numbers():
    data = csbm(n_nodes=2000, mean_degree=20, seed=0)
    degrees = np.diff(data.graph.adjacency.indptr)
    assert degrees[:1000].mean() == pytest.approx(degrees[1000:].mean(), rel=0.05)


def test_features_lie_around_class_means():
    data = csbm(n_nodes=4000, n_features=5, separation=3.0, seed=1)
    for label in (0, 1):
        cloud = data.graph.features[data.y == label]
        assert np.linalg.norm(cloud.mean(axis=0)) == pytest.approx(3, abs=0.1)
        assert cloud.std(axis=0) == pytest.approx(np.ones(5), abs=0.1)


def test_same_seed_same_data():
    one, two, other = csbm(seed=3), csbm(seed=3), csbm(seed=4)
    assert (one.graph.adjacency != two.graph.adjacency).nnz == 0
    assert np.array_equal(one.graph.features, two.graph.features)
    assert np.array_equal(one.train, two.train)
    assert (one.graph.adjacency != other.graph.adjacency).nnz > 0


def test_sizes_of_the_split_can_be_set():
    data = csbm(n_nodes=300, per_class=4, n_val=10, n_test=20)
    assert (len(data.train), len(data.val), len(data.test)) == (8, 10, 20)


def test_two_hundred_thousand_nodes_take_seconds():
    start = time.perf_counter()
    data = csbm(n_nodes=200_000, n_classes=4, mean_degree=10, n_features=4)
    assert time.perf_counter() - start < 20
    assert data.graph.n_edges == 1_000_000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"homophily": 1.2}, r"csbm\.homophily must be in \[0, 1\]; got 1\.2"),
        ({"n_nodes": 3}, r"csbm\.n_nodes must be an integer >= 4"),
        ({"n_nodes": 40, "mean_degree": 30}, "edges between nodes of equal class, more than half"),
        ({"n_nodes": 10}, "per_class=20"),
    ],
)
def test_impossible_wishes_are_refused(options, message):
    with pytest.raises(ParameterError, match=message):
        csbm(**{"mean_degree": 2, **options})
