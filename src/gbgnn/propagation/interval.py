"""Where the eigenvalues of P are, if P has real eigenvalues and a full set of eigenvectors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from scipy.sparse.csgraph import breadth_first_order, connected_components
from scipy.sparse.linalg import ArpackError, eigsh

from gbgnn.propagation.propagator import Propagator
from gbgnn.propagation.spectrum import DENSE_LIMIT, is_symmetric

# Eigenvalues are found to about this share of their range, and the interval is made that much wider.
_MARGIN = 1e-6


@dataclass(frozen=True)
class Interval:
    """The numbers from ``centre - radius`` to ``centre + radius``."""

    centre: float
    radius: float

    @classmethod
    def around(cls, low: float, high: float) -> Interval:
        """Return an interval a little wider than from ``low`` to ``high``, and never empty."""
        radius = (high - low) / 2 * (1 + _MARGIN)
        smallest = max(abs(low), abs(high), 1.0) * _MARGIN
        return cls((low + high) / 2, max(radius, smallest))


def spectral_interval(P: Propagator) -> Interval | None:
    """Return an interval that holds all eigenvalues of P, or None unless P is symmetric up to a scaling.

    P is when S = R P R^-1 is symmetric for some positive diagonal R. Normalised adjacency matrices and
    Laplacians of undirected graphs are symmetric, random walks on them are up to a scaling.
    """
    S = symmetrized(P.to_scipy(), tolerance=100 * float(torch.finfo(P.dtype).eps))
    return None if S is None else Interval.around(*_extreme_eigenvalues(S))


def symmetrized(P: sp.csr_array, tolerance: float) -> sp.csr_array | None:
    """Return the symmetric R P R^-1, R diagonal and positive, or None where there is none.

    Entries may differ from their mirror images by ``tolerance`` times the largest.
    """
    if is_symmetric(P, tolerance):
        return P
    logs = _log_scaling(P)
    if logs is None:
        return None
    of_row = np.repeat(np.arange(P.shape[0]), np.diff(P.indptr))
    S = P.copy()
    S.data = S.data * np.exp(logs[of_row] - logs[S.indices])
    return S if is_symmetric(S, tolerance) else None


def _log_scaling(P: sp.csr_array) -> NDArray[np.float64] | None:
    """Return log R such that R P R^-1 is symmetric along a spanning forest, which settles R."""
    n_nodes = P.shape[0]
    pattern = sp.csr_array(abs(P) + abs(P).T)
    _, labels = connected_components(pattern, directed=False)
    _, first = np.unique(labels, return_index=True)
    # One more node, joined to the first of every component: a single search then visits all of them.
    joined = sp.csr_array((np.ones(len(first)), (np.zeros(len(first), int), first)), shape=(1, n_nodes))
    order, parents = breadth_first_order(
        sp.csr_array(sp.block_array([[pattern, joined.T], [joined, None]])), n_nodes, directed=False
    )
    children = order[1:]
    inner = children[parents[children] != n_nodes]
    forth = np.asarray(P[parents[inner], inner]).ravel()
    back = np.asarray(P[inner, parents[inner]]).ravel()
    if (forth * back <= 0).any():  # an edge that leads one way, or changes its sign
        return None
    logs = np.zeros(n_nodes)
    for child, parent, step in zip(inner, parents[inner], np.log(forth / back) / 2, strict=True):
        logs[child] = logs[parent] + step
    return logs


def _extreme_eigenvalues(S: sp.csr_array) -> tuple[float, float]:
    """Return the least and the largest eigenvalue of a symmetric matrix, or bounds of them."""
    if S.shape[0] <= DENSE_LIMIT:
        values = np.linalg.eigvalsh(S.toarray())
        return float(values[0]), float(values[-1])
    start = np.random.default_rng(0).standard_normal(S.shape[0])
    try:
        low, high = (
            float(eigsh(S, k=1, which=which, v0=start, tol=_MARGIN / 10, return_eigenvectors=False)[0])
            for which in ("SA", "LA")
        )
    except ArpackError:  # no convergence, or nothing to converge to; no eigenvalue exceeds this norm
        bound = float(abs(S).sum(axis=1).max())
        return -bound, bound
    return low, high
