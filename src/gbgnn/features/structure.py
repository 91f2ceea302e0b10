"""What the place of a node in the graph says: its degree, PageRank and clustering coefficient."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from gbgnn.propagation import Propagator, RandomWalk

DAMPING = 0.85  # the chance that PageRank's walk goes on, as is usual
_TOLERANCE = 1e-10
_MOST_STEPS = 200  # 0.85^200 is 1e-14

Floats = NDArray[np.float64]


def count_neighbours(adjacency: sp.csr_array) -> Floats:
    """Return in how many other nodes each row has an entry; a self loop is no neighbour."""
    loops = adjacency.diagonal() != 0
    return np.asarray(np.diff(adjacency.indptr) - loops, np.float64)


def page_rank(adjacency: sp.csr_array) -> Floats:
    """Return how often a walk along the edges is at each node, times the number of nodes: the mean is one.

    ``adjacency[i, j]`` is the weight of the edge from ``j`` to ``i``. The walk chooses edges by their weight,
    and starts anew at any node with a chance of 0.15, or where no edge leads on.

    Examples
    --------
    >>> page_rank(sp.csr_array([[0.0, 1, 1], [0, 0, 0], [0, 0, 0]])).round(3)
    array([1.723, 0.638, 0.638])
    """
    along = RandomWalk().build(adjacency.T.tocsr())
    arrive = Propagator(along.transpose(), dtype=torch.float64)
    is_end = (along.edges.row_sums() == 0)[:, None]
    rank = torch.ones(adjacency.shape[0], 1, dtype=torch.float64)
    for _ in range(_MOST_STEPS):
        before, stopped = rank, rank[is_end].sum() / len(rank)
        rank = DAMPING * (arrive(rank) + stopped) + (1 - DAMPING)
        if float((rank - before).abs().mean()) < _TOLERANCE:
            break
    return np.asarray(rank[:, 0])


def clustering(adjacency: sp.csr_array, block_bytes: int) -> Floats:
    r"""Return the share of the pairs of a node's neighbours that are neighbours; 0 below two neighbours.

    The adjacency is symmetric; weights and self loops play no part. Each edge is kept at its end of the lower
    degree, so that no node keeps more than :math:`\sqrt{2 m}` of m edges, and a triangle is found once, from
    the node that keeps two of its edges.

    Examples
    --------
    >>> clustering(sp.csr_array(np.ones((3, 3))), 2**20)
    array([1., 1., 1.])
    """
    degrees = count_neighbours(adjacency)
    pattern = sp.csr_array((np.ones(adjacency.nnz), adjacency.indices, adjacency.indptr), adjacency.shape)
    n_pairs = degrees * (degrees - 1) / 2
    n_triangles = sum_triangles(pattern, block_bytes)
    return np.divide(n_triangles, n_pairs, out=np.zeros(len(degrees)), where=n_pairs > 0)


def sum_triangles(weights: sp.csr_array, block_bytes: int) -> Floats:
    """Return for each node the sum over its triangles of the products of their three weights.

    Weights are symmetric; self loops play no part. Every triangle is found from the node with the fewest
    neighbours, so that those with very many cost little.

    Examples
    --------
    >>> sum_triangles(sp.csr_array([[0.0, 2, 3], [2, 0, 5], [3, 5, 0]]), 2**20)
    array([30., 30., 30.])
    """
    n_nodes = weights.shape[0]
    rank = np.empty(n_nodes, np.int64)
    rank[np.argsort(count_neighbours(weights), kind="stable")] = np.arange(n_nodes)
    edges = weights.tocoo()
    up = rank[edges.row] < rank[edges.col]
    kept = sp.csr_array((edges.data[up], (edges.row[up], edges.col[up])), shape=weights.shape)
    turned = kept.T.tocsr()
    sums = np.zeros(n_nodes)
    # Of a triangle i -> k -> j, i -> j the first product finds i and j, the second k.
    for rows, closed in _masked_products(kept, kept, kept, block_bytes):
        sums[rows] += closed.sum(axis=1)
        sums += closed.sum(axis=0)
    for rows, closed in _masked_products(turned, kept, kept, block_bytes):
        sums[rows] += closed.sum(axis=1)
    return sums


def _masked_products(left: sp.csr_array, right: sp.csr_array, mask: sp.csr_array, n_bytes: int) -> Any:
    """Yield blocks of rows of (left @ right) * mask; a block makes no more entries than ``n_bytes`` hold."""
    for rows in row_blocks(left, right, n_bytes):
        yield rows, (left[rows] @ right).multiply(mask[rows])


def row_blocks(left: sp.csr_array, right: sp.csr_array, n_bytes: int) -> list[slice]:
    """Return blocks of rows whose products with ``right`` hold at most ``n_bytes``, or are of one row."""
    entry_bytes = right.data.itemsize + right.indices.itemsize
    work = np.concatenate([[0], np.cumsum(count_products(left, right))]) * entry_bytes
    blocks, start = [], 0
    while start < left.shape[0]:
        stop = max(start + 1, int(np.searchsorted(work, work[start] + n_bytes, side="right")) - 1)
        blocks.append(slice(start, stop))
        start = stop
    return blocks


def count_products(left: sp.csr_array, right: sp.csr_array) -> NDArray[np.int64]:
    """Return of each row of ``left`` how many multiplications its product with ``right`` takes."""
    lengths = np.diff(right.indptr).astype(np.int64)
    counts = np.concatenate([[0], np.cumsum(lengths[left.indices])])
    return np.asarray(np.diff(counts[left.indptr]))
