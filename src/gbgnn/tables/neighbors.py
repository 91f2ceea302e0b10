"""A graph for a table without links: every row and its nearest neighbours."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from gbgnn._checks import check_integer
from gbgnn.errors import GraphError, import_needed

LARGE = 50_000
"""With more rows, neighbours are found approximately, by pynndescent where it is installed."""


def link_neighbors(X: Any, k: int, metric: str) -> sp.csr_array:
    """Return the symmetric 0/1 matrix that links rows of which one is among the k nearest of the other.

    Examples
    --------
    >>> link_neighbors(np.array([[0.0], [1.0], [5.0]]), k=1, metric="euclidean").toarray().tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]
    """
    check_integer("Graph.from_neighbors", "k", k, 1)
    n_rows = X.shape[0]
    if k >= n_rows:
        raise GraphError(f"k={k} neighbours need at least {k + 1} rows; there are {n_rows}.")
    if n_rows > LARGE and find_spec("pynndescent") is not None:
        neighbors = _find_approximately(X, k, metric)
    else:
        try:
            found = NearestNeighbors(n_neighbors=k, metric=metric).fit(X)
        except ValueError as error:
            raise GraphError(f"metric={metric!r} does not suit these columns: {error}") from error
        neighbors = found.kneighbors(return_distance=False)  # of its own rows, without themselves
    rows = np.repeat(np.arange(n_rows), k)
    ones = np.ones(len(rows), np.float32)
    matrix = sp.coo_array((ones, (rows, neighbors.ravel())), shape=(n_rows, n_rows)).tocsr()
    return matrix.maximum(matrix.T.tocsr())


def _find_approximately(X: Any, k: int, metric: str) -> NDArray[np.int64]:
    descent = import_needed("pynndescent", "finding neighbours in a large table", "neighbors")
    places, _ = descent.NNDescent(X, n_neighbors=k + 1, metric=metric, random_state=0).neighbor_graph
    others = places != np.arange(len(places))[:, None]
    # A row is mostly its own first neighbour; among equal rows it may be another, or none.
    others[others.all(axis=1), -1] = False
    return np.asarray(places[others].reshape(len(places), k), np.int64)
