"""From lists of edges to an adjacency matrix, with a report of what was merged or dropped."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray


def build_adjacency(
    sources: NDArray[Any],
    targets: NDArray[Any],
    n_nodes: int,
    *,
    weights: NDArray[Any] | None = None,
    directed: bool = False,
) -> tuple[sp.csr_array, list[str]]:
    """Return the adjacency matrix of an edge list, and what was mended on the way.

    An edge lets its target aggregate from its source: ``adjacency[target, source]``. Self loops are dropped.
    Edges given more than once become one edge, their weights summed. Undirected lists may name an edge
    in either direction or both; a list that holds *every* edge both ways with equal weights means each
    pair as one edge.
    """
    proper = sources != targets
    n_given = int(np.count_nonzero(proper))
    values = np.ones(n_given, np.float32) if weights is None else _as_floats(weights[proper])
    pairs = (targets[proper], sources[proper])
    matrix = sp.coo_array((values, pairs), shape=(n_nodes, n_nodes)).tocsr()
    matrix.sum_duplicates()
    if weights is None:
        matrix.data[:] = 1
    n_kept = matrix.nnz
    if not directed and (matrix != matrix.T.tocsr()).nnz:
        mirrored = matrix.T.tocsr()
        # For weights, a line and its reverse are two contributions to one edge.
        matrix = matrix.maximum(mirrored) if weights is None else (matrix + mirrored).tocsr()
        n_kept = matrix.nnz // 2
    mended = []
    if n_given < len(sources):
        mended.append(f"dropped {len(sources) - n_given} self loops")
    if n_kept < n_given:
        summed = "" if weights is None else ", weights summed"
        mended.append(f"merged {n_given - n_kept} repeated edges{summed}")
    return matrix, mended


def _as_floats(weights: NDArray[Any]) -> NDArray[Any]:
    return weights if weights.dtype.kind == "f" else weights.astype(np.float32)
