from __future__ import annotations

import numpy as np
import pytest

from gbgnn.datasets import digits, karate
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
