"""Where a node is in the graph, as numbers: eigenvectors of the Laplacian, and chances of walking home."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, splu

from gbgnn.errors import GBGNNWarning
from gbgnn.features.structure import count_products
from gbgnn.propagation import NormalizedAdjacency, Operator, Propagator, powers
from gbgnn.propagation.spectrum import DENSE_LIMIT, TopEigenspace, find_eigenpairs, top_eigenspace

EXACT_WORK = 5e8
"""Multiplications up to which chances of return are computed exactly: a few seconds."""
ELIMINATION_WORK = 2e10
"""Multiplications, as foreseen at most, up to which eigenvectors are found by elimination: seconds."""
N_PROBES = 64
_ENTRY_BYTES = 64  # of an entry of a sparse product and of those made on the way to its diagonal
_PROBE_BYTES = 48  # of a random sign, its two last products and their copies
_N_SAMPLED = 64  # rows by which the work is foreseen
# An eigenvector whose third moment is below this is as good as symmetric, and has a sign by its last entry.
_SKEWED = 1e-6

# What makes I - P invertible; well below the eigenvalues that are sought, well above rounding.
_SHIFT = 1e-6
_THIN = 0.05  # share of the nodes that may be neighbours of those eliminated so far, in the mean of squares

MOST_ENCODINGS = 32  # ARPACK is given room for 40 vectors
Floats = NDArray[np.float64]


def laplacian_eigenvectors(adjacency: sp.csr_array, n_vectors: int) -> Floats:
    r"""Return the eigenvectors of :math:`I - D^{-1} A` of the smallest eigenvalues but zero, in columns.

    Neighbours have similar entries, the more so the earlier the column. The eigenvalue zero, once for every
    connected component, says nothing but which component that is, and is left out; so are nodes without
    neighbours, which have zeros. Columns have a mean square of about one and a sign that makes their third
    moment positive. Where an eigenvalue comes twice, its vectors may be any of their plane. Columns beyond
    what the graph has are zero, and so are those that the iterations do not reach, after a warning.

    The adjacency is symmetric.

    Examples
    --------
    >>> path = sp.diags_array([1.0, 1.0, 1.0], offsets=1, shape=(4, 4))
    >>> laplacian_eigenvectors(sp.csr_array(path + path.T), 1).ravel().round(2)
    array([-1.26, -0.63,  0.63,  1.26])
    """
    degrees = np.asarray(adjacency.sum(axis=1), np.float64)
    some = np.flatnonzero(degrees > 0)
    result = np.zeros((adjacency.shape[0], n_vectors))
    if not len(some):
        return result
    roots = np.sqrt(degrees[some])
    part = adjacency if len(some) == len(degrees) else sp.csr_array(adjacency[some][:, some])
    vectors = _smooth_vectors(NormalizedAdjacency().build(part), roots, n_vectors) / roots[:, None]
    sizes = np.sqrt(np.mean(vectors**2, axis=0, keepdims=True))
    result[some, : vectors.shape[1]] = _fix_signs(vectors / sizes)
    return result


def _smooth_vectors(operator: Operator, roots: Floats, n_vectors: int) -> Floats:
    """Return eigenvectors of the normalised adjacency, of its largest eigenvalues but one, largest first."""
    P = operator.to_scipy()
    known = top_eigenspace(P, (roots,))
    n_nodes = P.shape[0]
    n_sought = min(n_vectors, n_nodes - known.dimension)
    if n_nodes <= DENSE_LIMIT:
        vectors = np.linalg.eigh(_average(P, known)(np.eye(n_nodes)))[1]
    else:
        multiply = _invert(P, known) if _is_easily_eliminated(P) else _average(P, known)
        try:
            shifted = LinearOperator(P.shape, matvec=multiply, dtype=np.float64)
            vectors = find_eigenpairs(shifted, True, n_sought, "LA")[1]
        except ArpackNoConvergence as error:
            vectors = error.eigenvectors
            warnings.warn(
                f"{vectors.shape[1]} of {n_sought} eigenvectors of the Laplacian were found in reasonable "
                "time; the other columns are zero. encodings=('walk',) does without them.",
                GBGNNWarning,
                stacklevel=2,
            )
            n_sought = vectors.shape[1]
    return np.asarray(vectors[:, ::-1][:, :n_sought])


def _average(P: sp.csr_array, known: TopEigenspace) -> Callable[[Floats], Floats]:
    """Return products with (I + P) / 2, whose eigenvalues are from 0 to 1; those known are moved to -1."""
    return lambda x: np.asarray((x + P @ x) / 2 - 2 * known.project(x))


def _invert(P: sp.csr_array, known: TopEigenspace) -> Callable[[Floats], Floats]:
    """Return products with the inverse of (1 + _SHIFT) I - P, without what is known.

    The smoothest vectors, whose eigenvalues crowd at one, are far apart there: tens of products find what
    takes thousands with P.
    """
    matrix = sp.csc_array((1 + _SHIFT) * sp.eye_array(P.shape[0]) - P)
    # The matrix is positive definite and needs no pivots.
    factors = splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    return lambda x: np.asarray(factors.solve(x - known.project(x)))


def _is_easily_eliminated(P: sp.csr_array) -> bool:
    """Return whether eliminating one node after another takes few multiplications.

    How many is known without doing it for the order of Cuthill and McKee, where rows fill up from their first
    entry on; the order that is used then takes a fraction. Graphs that lie in space take few. Networks in
    which everybody is a few steps from everybody take many, but have eigenvalues far apart.
    """
    n_nodes = P.shape[0]
    place = np.empty(n_nodes, dtype=np.int64)
    place[reverse_cuthill_mckee(P, symmetric_mode=True)] = np.arange(n_nodes)
    rows = np.repeat(place, np.diff(P.indptr))
    widths = np.zeros(n_nodes)
    np.maximum.at(widths, rows, rows - place[P.indices])
    work = float((widths**2).sum())
    return bool(work <= min(ELIMINATION_WORK, n_nodes * (_THIN * n_nodes) ** 2))


def _fix_signs(vectors: Floats) -> Floats:
    """Return the vectors with signs that make third moments, or else last entries, positive."""
    skew = np.mean(vectors**3, axis=0)
    signs = np.where(abs(skew) > _SKEWED, skew, vectors[-1])
    return vectors * np.where(signs < 0, -1.0, 1.0)


def return_probabilities(adjacency: sp.csr_array, n_steps: int, block_bytes: int) -> Floats:
    r"""Return the chances that a random walk is back after 2, 3, ..., ``n_steps`` + 1 steps, in columns.

    That is the diagonal of :math:`(D^{-1} A)^k`, which is that of :math:`S^k` for the symmetric
    :math:`S = D^{-1/2} A D^{-1/2}`: entry i of :math:`S^{a+b}` is row i of :math:`S^a` times row i of
    :math:`S^b`, so that half as many steps do. Rows are computed exactly, by blocks, where that takes at most
    :data:`EXACT_WORK` multiplications, as foreseen from a sample. Where neighbourhoods grow too fast for
    that, rows of 64 random signs z stand for those of the identity (Hutchinson): the mean of
    :math:`(S^a z)_i (S^b z)_i` over them has a relative error of about 0.2. The signs are the same each time.

    The adjacency is symmetric. A node without neighbours has zeros.

    Examples
    --------
    >>> return_probabilities(sp.csr_array([[0.0, 1, 0], [1, 0, 1], [0, 1, 0]]), 2, 2**20)
    array([[0.5, 0. ],
           [1. , 0. ],
           [0.5, 0. ]])
    """
    operator = NormalizedAdjacency().build(adjacency)
    S, depth = operator.to_scipy(), n_steps // 2 + 1
    work = _foresee_work(S, depth)
    if work > EXACT_WORK:
        return _estimate_returns(operator, n_steps, depth, block_bytes)
    n_nodes = S.shape[0]
    n_rows = max(1, int(block_bytes * n_nodes / (_ENTRY_BYTES * max(work, 1))))
    blocks = (S[start : start + n_rows] for start in range(0, n_nodes, n_rows))
    return np.vstack([_pair_up(_row_powers(rows, S, depth))[:, :n_steps] for rows in blocks])


def _row_powers(rows: sp.csr_array, S: sp.csr_array, depth: int) -> Iterator[sp.csr_array]:
    """Yield rows of S, S^2, ..., S^depth."""
    yield rows
    for _ in range(1, depth):
        rows = rows @ S
        yield rows


def _pair_up(halves: Iterable[Any]) -> Floats:
    """Return the sums over each row of Z_a * Z_b for a + b = 2, 3, ..., in columns; b is a or a + 1."""
    columns: list[Any] = []
    for before, Z in pairwise(chain([None], halves)):
        if before is not None:
            columns.append((before * Z).sum(axis=1))
        columns.append((Z * Z).sum(axis=1))
    return np.stack(columns, axis=1)


def _foresee_work(S: sp.csr_array, depth: int) -> float:
    """Return about how many multiplications all rows of the powers take, or some number that is too many."""
    n_nodes = S.shape[0]
    sample = np.unique(np.linspace(0, n_nodes - 1, min(n_nodes, _N_SAMPLED)).astype(int))
    work, rows = 0.0, S[sample]
    for _ in range(1, depth):
        work += float(count_products(rows, S).sum()) * n_nodes / len(sample)
        if work > EXACT_WORK:  # then the product itself may be large
            break
        rows = rows @ S
    return work


def _estimate_returns(operator: Operator, n_steps: int, depth: int, block_bytes: int) -> Floats:
    """Return the mean over random signs, as many at a time as the memory allows."""
    S, n_nodes = Propagator(operator, dtype=torch.float64), operator.n_nodes
    random = np.random.default_rng(0)
    n_columns = min(N_PROBES, max(1, block_bytes // (_PROBE_BYTES * n_nodes)))
    total = np.zeros((n_nodes, n_steps))
    for start in range(0, N_PROBES, n_columns):
        shape = n_nodes, min(n_columns, N_PROBES - start)
        signs = torch.from_numpy(random.choice([-1.0, 1.0], shape))
        halves = (Z.numpy().copy() for Z in powers(S, signs, range(1, depth + 1)))
        total += _pair_up(halves)[:, :n_steps]
    return total / N_PROBES
