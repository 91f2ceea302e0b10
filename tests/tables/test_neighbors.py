from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.neighbors import kneighbors_graph

from gbgnn import Graph, TableEncoder
from gbgnn.errors import GraphError, ParameterError
from gbgnn.tables import neighbors as module
from gbgnn.tables.neighbors import link_neighbors

X = np.random.default_rng(0).normal(size=(60, 3))


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "cosine"])
def test_links_are_the_neighbours_of_scikit_learn_in_either_direction(metric: str) -> None:
    one_way = kneighbors_graph(X, 4, metric=metric).toarray()
    found = link_neighbors(X, 4, metric)
    np.testing.assert_array_equal(found.toarray(), np.maximum(one_way, one_way.T))


def test_a_table_is_compared_as_it_is_encoded() -> None:
    frame = pd.DataFrame({"a": X[:, 0], "b": 1000 * X[:, 1], "c": np.where(X[:, 2] > 0, "up", "down")})
    graph = Graph.from_neighbors(frame, k=4)
    expected = link_neighbors(TableEncoder().fit_transform(frame), 4, "euclidean")
    np.testing.assert_array_equal(graph.adjacency.toarray(), expected.toarray())
    assert graph.table is not None
    assert graph.table.names == ("a", "b", "c")
    assert not graph.is_directed


@pytest.mark.parametrize("matrix", [X, X.tolist()], ids=["array", "lists"])
def test_a_matrix_is_a_table_of_numbers_whose_units_do_not_matter(matrix: Any) -> None:
    graph, other = Graph.from_neighbors(matrix, k=4), Graph.from_neighbors(X * [1, 1000, 1], k=4)
    expected = link_neighbors(
        TableEncoder().fit_transform({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2]}), 4, "l2"
    )
    np.testing.assert_array_equal(graph.adjacency.toarray(), expected.toarray())
    np.testing.assert_array_equal(other.adjacency.toarray(), expected.toarray())
    assert graph.column_names == ("x0", "x1", "x2")


@pytest.mark.parametrize("matrix", [sp.csr_array(X), np.tile(X, 400)], ids=["sparse", "wide"])
def test_a_sparse_or_wide_matrix_is_compared_as_it_is(matrix: Any) -> None:
    graph = Graph.from_neighbors(matrix, k=4)
    np.testing.assert_array_equal(graph.adjacency.toarray(), link_neighbors(X, 4, "euclidean").toarray())
    assert graph.features_from == "matrix"
    assert graph.n_features == matrix.shape[1]


def test_equal_rows_are_not_their_own_neighbours() -> None:
    found = link_neighbors(np.zeros((5, 2)), 2, "euclidean")
    assert not found.diagonal().any()
    assert (found.sum(axis=1) >= 2).all()


def test_large_tables_go_to_pynndescent_where_it_is_installed(monkeypatch: Any) -> None:
    def descend(rows: Any, n_neighbors: int, metric: str, random_state: int) -> Any:
        distances = np.linalg.norm(rows[:, None] - rows[None], axis=2)
        distances[3, 3] = 1e9  # it does not always find a row itself
        places = np.argsort(distances, axis=1, kind="stable")[:, :n_neighbors]
        return SimpleNamespace(neighbor_graph=(places, None))

    fake = ModuleType("pynndescent")
    fake.NNDescent = descend  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pynndescent", fake)
    monkeypatch.setattr(module, "find_spec", lambda name: object())
    monkeypatch.setattr(module, "LARGE", 10)
    found = link_neighbors(X, 4, "euclidean")
    np.testing.assert_array_equal(found.toarray(), np.maximum(one := kneighbors_graph(X, 4).toarray(), one.T))


def test_what_cannot_be_linked() -> None:
    with pytest.raises(GraphError, match="k=60 neighbours need at least 61 rows; there are 60"):
        link_neighbors(X, 60, "euclidean")
    with pytest.raises(ParameterError, match=r"Graph.from_neighbors.k must be an integer >= 1; got 0"):
        link_neighbors(X, 0, "euclidean")
    with pytest.raises(GraphError, match="metric='nearness' does not suit these columns"):
        link_neighbors(X, 2, "nearness")
