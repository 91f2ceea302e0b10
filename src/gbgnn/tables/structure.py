"""What the edges alone say of each node: columns for graphs without features."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

STRUCTURAL = ("log_degree", "neighbor_log_degree", "return_2", "return_3", "return_4")

EXACT_WORK = 50_000_000
"""Return probabilities that would take more multiplications are estimated."""

N_PROBES = 32
"""Random signs per estimate."""

_AT_ONCE = 8
_BLOCK_WORK = 4_000_000


def structural_columns(adjacency: sp.csr_array) -> dict[str, NDArray[np.float64]]:
    """Return degrees and return probabilities of a random walk, by name.

    Directions and signs of weights play no part, nor do self loops. ``return_k`` is the probability that a
    walk is back after k steps: of three steps it tells of triangles.

    Examples
    --------
    >>> triangle = sp.csr_array(np.ones((3, 3)) - np.eye(3))
    >>> {name: float(values[0]) for name, values in structural_columns(triangle).items()}
    {'log_degree': 1.09..., 'neighbor_log_degree': 1.09..., 'return_2': 0.5, 'return_3': 0.25,
    'return_4': 0.375}
    """
    weights = _walkable(adjacency)
    n_neighbors = np.diff(weights.indptr)
    log_degree = np.log1p(n_neighbors.astype(np.float64))
    P = _row_normalized(weights)
    scale = np.asarray(weights.sum(axis=1)).ravel()
    work = float((n_neighbors.astype(np.float64) ** 2).sum())
    returns = _exact_returns(P, scale) if work <= EXACT_WORK else _estimated_returns(P)
    return dict(zip(STRUCTURAL, (log_degree, P @ log_degree, *returns), strict=True))


def _walkable(adjacency: sp.csr_array) -> sp.csr_array:
    there = abs(adjacency).astype(np.float64)
    weights = there.maximum(there.T.tocsr())
    weights = sp.csr_array(weights - sp.diags_array(weights.diagonal()))
    weights.eliminate_zeros()
    return weights


def _row_normalized(weights: sp.csr_array) -> sp.csr_array:
    totals = np.asarray(weights.sum(axis=1)).ravel()
    inverse = np.divide(1, totals, out=np.zeros_like(totals), where=totals > 0)
    return sp.csr_array(sp.diags_array(inverse) @ weights)


def _exact_returns(P: sp.csr_array, scale: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Return the diagonals of P^2, P^3 and P^4, by blocks of rows of P^2.

    ``scale`` are the degrees: P is reversible, P[j, i] = P[i, j] scale[i] / scale[j].
    """
    n = P.shape[0]
    back = P.T.tocsr()
    inverse = np.divide(1, scale, out=np.zeros_like(scale), where=scale > 0)
    returns = [np.asarray(P.multiply(back).sum(axis=1)).ravel(), np.zeros(n), np.zeros(n)]
    for start, stop in _blocks(P):
        two = P[start:stop] @ P
        returns[1][start:stop] = np.asarray(two.multiply(back[start:stop]).sum(axis=1)).ravel()
        returns[2][start:stop] = (two.multiply(two) @ inverse) * scale[start:stop]
    return returns


def _blocks(P: sp.csr_array) -> list[tuple[int, int]]:
    """Return blocks of rows of which the squares have few entries."""
    sizes = np.add.reduceat(np.append(np.diff(P.indptr)[P.indices], 0), P.indptr[:-1])
    sizes[np.diff(P.indptr) == 0] = 0  # reduceat looks at the next entry where there is none
    part = np.cumsum(sizes) // _BLOCK_WORK
    starts = [0, *(np.flatnonzero(np.diff(part)) + 1).tolist(), P.shape[0]]
    return list(pairwise(starts))


def _estimated_returns(P: sp.csr_array) -> list[NDArray[np.float64]]:
    """Return estimates of the same diagonals: the mean of z * P^k z over random signs z."""
    random = np.random.default_rng(0)
    n = P.shape[0]
    single = P.astype(np.float32)
    sums: list[Any] = [np.zeros(n) for _ in range(3)]
    for _ in range(N_PROBES // _AT_ONCE):
        signs = random.integers(0, 2, (n, _AT_ONCE), dtype=np.int8).astype(np.float32) * 2 - 1
        walked = single @ signs
        for total in sums:
            walked = single @ walked
            total += np.einsum("ij,ij->i", signs, walked)
    return [np.clip(total / N_PROBES, 0, 1) for total in sums]
