"""NeighbourTargets: what labelled nodes nearby are, as columns. No node hears its own label."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from gbgnn._checks import check_integer
from gbgnn.features.structure import row_blocks, sum_triangles

_GRID = 2.0**-20
"""Means are rounded to this share of the targets' size. A node's own target is subtracted from sums that hold
it, which leaves some of it in the last digits; a tree would find it there."""

_FEWEST = 1e-9
"""A walk that ends at other labelled nodes with less than this probability has met none."""

_BLOCK_BYTES = 64 * 2**20
"""Of the ends of walks of two steps, of which a few rows are looked at at a time."""

_PARTS = ("indptr", "indices", "data")

MOST_HOPS = 3
"""Longer walks hear little else, and who comes back from them takes long to find."""


@dataclass(kw_only=True, eq=False, repr=False)
class NeighbourTargets(BaseEstimator):
    r"""Means of the targets of labelled nodes at the ends of random walks, and how likely a walk meets one.

    With :math:`W = D^{-1} A` and labelled nodes L, node i gets for k = 1, ..., ``hops``

    .. math:: \sum_{j \in L, j \ne i} (W^k)_{ij}\, y_j / \sum_{j \in L, j \ne i} (W^k)_{ij}

    and the denominator. A labelled node is left out of its own sums, so that what it gets is what an
    unlabelled node in its place would get. Where a walk meets no other labelled node, the mean is missing.

    Parameters
    ----------
    hops
        Length of the longest walk, 1 to 3.

    Examples
    --------
    >>> path = sp.csr_array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> NeighbourTargets(hops=1).columns(path, [0, 2], [[5.0], [7.0]])
    array([[nan,  0.],
           [ 6.,  1.],
           [nan,  0.]], dtype=float32)
    """

    hops: int = 3

    def check(self) -> None:
        """Raise when a setting is out of range."""
        check_integer("NeighbourTargets", "hops", self.hops, 1, MOST_HOPS)

    def columns(self, adjacency: sp.csr_array, rows: ArrayLike, targets: ArrayLike) -> NDArray[np.float32]:
        """Return for each length n means and a share, of all nodes; targets are of shape (labelled, n)."""
        rows, known = np.asarray(rows), np.atleast_2d(np.asarray(targets, dtype=np.float64))
        walk, largest = random_walk(adjacency), float(np.abs(known).max(initial=0.0))
        scale = 2.0 ** math.frexp(largest)[1]  # dividing by which changes no digit
        # The last column counts labelled nodes.
        own = np.zeros((walk.shape[0], known.shape[1] + 1))
        own[rows] = np.column_stack([known / scale, np.ones(len(known))])
        reached, found = own, []
        for returns in return_probabilities(adjacency, rows, self.hops):
            reached = walk @ reached
            others = reached.copy()
            others[rows] -= returns[:, None] * own[rows]
            share = np.where(others[:, -1:] > _FEWEST, others[:, -1:], 0.0)
            with np.errstate(invalid="ignore", divide="ignore"):
                means = np.where(share > 0, others[:, :-1] / share, np.nan)
            found += [scale * _round(means), _round(share)]
        return np.hstack(found).astype(np.float32)

    def names(self, targets: list[str]) -> list[str]:
        """Return the names of the columns."""
        return [
            name
            for k in range(1, self.hops + 1)
            for name in (*(f"{target}_labelled_{k}" for target in targets), f"labelled_share_{k}")
        ]


def _round(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.round(values / _GRID) * _GRID + 0.0  # there is no -0


def random_walk(adjacency: sp.csr_array) -> sp.csr_array:
    """Return :math:`D^{-1} A` without self loops; a node without neighbours stays nowhere."""
    weights = _without_loops(adjacency)
    weights.data *= np.repeat(_inverse_degrees(weights), np.diff(weights.indptr))
    return weights


def return_probabilities(
    adjacency: sp.csr_array, rows: NDArray[np.int64], hops: int
) -> list[NDArray[np.float64]]:
    """Return for lengths 1 to ``hops`` how likely random walks from some nodes end where they began.

    Examples
    --------
    >>> pair = sp.csr_array([[0.0, 1.0], [1.0, 0.0]])
    >>> [each.tolist() for each in return_probabilities(pair, np.array([0]), 2)]
    [[0.0], [1.0]]
    """
    found = [np.zeros(len(rows))]
    if hops > 1:
        weights = _without_loops(adjacency)
        find = _mirrored_returns if _is_symmetric(weights) else _directed_returns
        found += find(weights, rows)
    return found[:hops]


def _mirrored_returns(weights: sp.csr_array, rows: NDArray[np.int64]) -> list[NDArray[np.float64]]:
    r"""Return the chances after two and three steps in a symmetric matrix, which is used up.

    With :math:`S = D^{-1/2} A D^{-1/2}`, whose powers have the diagonals of those of the walk, they are sums
    of squares of its entries, and of triangles, each in both directions.
    """
    roots = np.sqrt(_inverse_degrees(weights))
    weights.data *= np.repeat(roots, np.diff(weights.indptr))
    weights.data *= roots[weights.indices]
    squares = sp.csr_array((weights.data**2, weights.indices, weights.indptr), weights.shape).sum(axis=1)
    return [squares[rows], 2 * sum_triangles(weights, _BLOCK_BYTES)[rows]]


def _directed_returns(weights: sp.csr_array, rows: NDArray[np.int64]) -> list[NDArray[np.float64]]:
    """Return the same where edges have a direction."""
    weights.data *= np.repeat(_inverse_degrees(weights), np.diff(weights.indptr))
    ahead, back = weights[rows], weights.T.tocsr()[rows]
    blocks = row_blocks(ahead, weights, _BLOCK_BYTES)
    thirds = [_meet(ahead[some] @ weights, back[some]) for some in blocks]
    return [_meet(ahead, back), np.concatenate([np.empty(0), *thirds])]


def _is_symmetric(weights: sp.csr_array) -> bool:
    flipped = weights.T.tocsr()  # both are in canonical form, in which equal matrices have equal arrays
    return all(np.array_equal(getattr(weights, each), getattr(flipped, each)) for each in _PARTS)


def _without_loops(adjacency: sp.csr_array) -> sp.csr_array:
    """Return a copy in double precision and canonical form."""
    matrix = sp.csr_array(adjacency, dtype=np.float64, copy=True)
    matrix.sum_duplicates()
    if matrix.diagonal().any():
        matrix.setdiag(0.0)
    matrix.eliminate_zeros()
    return matrix


def _inverse_degrees(weights: sp.csr_array) -> NDArray[np.float64]:
    degrees = weights.sum(axis=1)
    return np.asarray(1 / np.where(degrees > 0, degrees, 1.0))


def _meet(ahead: sp.csr_array, back: sp.csr_array) -> NDArray[np.float64]:
    """Return the sum of the products of each row's entries."""
    return np.asarray(ahead.multiply(back).sum(axis=1)).ravel()
