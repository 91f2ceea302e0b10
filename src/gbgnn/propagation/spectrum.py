"""The spectrum of P: the directions that survive multiplication by it longest, and what fades beside them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from scipy.sparse.csgraph import breadth_first_order, connected_components
from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, LinearOperator, eigs, eigsh

from gbgnn.propagation.propagator import Propagator

# Matrices up to this size are decomposed whole, larger ones by ARPACK.
DENSE_LIMIT = 256
# Eigenvalues of one component closer than this, in units of the largest, are one eigenvalue ...
_SAME = 1e-7
# ... and those that ARPACK finds, which are less exact, are two if further apart than this.
_DIFFERENT = 1e-6
# A guessed vector v is accepted where the ratios (P v)_i / v_i agree to this.
_EXACT = 1e-10
# What is below this share of the largest absolute row sum of P is zero up to rounding.
_ROUNDING = 1e-12
# Extreme eigenvalues are found to about this share of their range, and an interval is made that much wider.
_MARGIN = 1e-6
_ARPACK: dict[str, Any] = {"tol": 1e-8, "ncv": 40}
if "rng" in inspect.signature(eigsh).parameters:  # since SciPy 1.17; what it draws when it must start anew
    _ARPACK["rng"] = 0

Floats = NDArray[np.float64]
Pairs = tuple[NDArray[Any], NDArray[Any]]  # eigenvalues, and their eigenvectors in columns


@dataclass(frozen=True, eq=False)
class TopEigenspace:
    """The directions that a matrix P shrinks least, component by component."""

    basis: sp.csr_array  # N x k, its columns orthonormal, each zero outside its connected component
    # The eigenvalue of each column; those of a complex pair stand for the plane their columns span.
    values: NDArray[np.complex128]
    n_components: int  # connected components of P, those without a top direction included
    symmetric: bool  # whether P is

    @property
    def dimension(self) -> int:
        """Number of directions."""
        return int(self.basis.shape[1])

    def project(self, X: Floats) -> Floats:
        """Return the part of ``X``, a vector or a matrix of N rows, that lies in the space."""
        return np.asarray(self.basis @ (self.basis.T @ X))


def top_eigenspace(P: sp.csr_array, guesses: Sequence[Floats] = ()) -> TopEigenspace:
    r"""Return the top eigenspace of P, a matrix with real entries, symmetric or not.

    P acts on each (weakly) connected component of its pattern by itself, so each has top directions of its
    own: the right eigenvectors of its eigenvalue of largest absolute value. Of several such eigenvalues the
    one of largest real part counts, so a bipartite component of the normalised adjacency matrix has 1 as
    its top eigenvalue and -1 as the next. A complex eigenvalue brings its conjugate, and the two span a real
    plane. The top eigenvalue of one component may be smaller than that of another: the component fades beside
    the other, but its nodes become as hard to tell apart. A component that P sends to zero, at once (a node
    without edges, under the normalised adjacency matrix) or in the end (directed edges without a cycle),
    has no top direction.

    A positive vector that P multiplies by one number throughout a non-negative, strongly connected component
    is its only top direction (Perron and Frobenius): ``guesses``, such as square roots of degrees, and the
    constant vector, are tried first. Other components are decomposed, those of more than 256 nodes by ARPACK.

    P must be a CSR matrix of float64 without explicit zeros. Raised are an ``ArpackError`` where the
    eigenvectors of a component of more than 256 nodes were not found; a ``LinAlgError`` where such a
    component has several top directions that are not one complex pair, or has edges that lead one way and
    rounding hides its largest eigenvalue.

    Examples
    --------
    >>> space = top_eigenspace(sp.csr_array(np.diag([1.0, 1.0], 1) + np.diag([1.0, 1.0], -1)))
    >>> space.values.real.round(4), abs(space.basis.toarray()).ravel().round(4)
    (array([1.4142]), array([0.5   , 0.7071, 0.5   ]))
    """
    n_components, labels = connected_components(P, directed=False)
    symmetric = is_symmetric(P)
    perron = _have_perron_vector(P, labels, symmetric)
    known, vector = _closed_form(P, labels, perron, guesses)
    n_nodes, floor = P.shape[0], _ROUNDING * _size(P)
    some = np.flatnonzero(known > floor)
    place = np.full(n_components, -1)
    place[some] = np.arange(len(some))
    nodes = np.flatnonzero(place[labels] >= 0)
    entries = vector[nodes], (nodes, place[labels[nodes]])
    found, columns = [known[some].astype(complex)], [sp.coo_array(entries, shape=(n_nodes, len(some)))]
    for component, nodes, block in _blocks(P, labels, np.flatnonzero(np.isnan(known))):
        values, vectors = _dominant(block, symmetric, perron[component], floor)
        rows, numbers = np.repeat(nodes, len(values)), np.tile(np.arange(len(values)), len(nodes))
        found.append(values)
        columns.append(sp.coo_array((vectors.ravel(), (rows, numbers)), shape=(n_nodes, len(values))))
    basis = sp.hstack(columns, format="csr")
    return TopEigenspace(basis, np.concatenate(found), n_components, symmetric)


def second_eigenvalue(P: sp.csr_array, space: TopEigenspace) -> float | complex | None:
    """Return the eigenvalue of P of largest absolute value outside ``space``; None if nothing is outside.

    Up to 256 nodes by a full decomposition, beyond by Lanczos or Arnoldi iterations on P without the space,
    from a fixed start; where they do not converge, because many eigenvalues crowd at the largest, an
    ``ArpackError`` is raised. Where two have the same absolute value, either may come. In a large graph whose
    remaining edges lead one way, rounding may hide how small the eigenvalue is.

    Examples
    --------
    >>> P = sp.csr_array([[0.0, 1.0], [1.0, 0.0]])
    >>> round(second_eigenvalue(P, top_eigenspace(P)), 6)
    -1.0
    """
    n_nodes = P.shape[0]
    if space.dimension in (0, n_nodes):  # without a top direction, some power of P is zero
        return None if space.dimension else 0.0
    if n_nodes <= DENSE_LIMIT:
        values = np.linalg.eigvalsh(P.toarray()) if space.symmetric else np.linalg.eigvals(P.toarray())
        for value in space.values:
            values = np.delete(values, np.argmin(abs(values - value)))
    else:
        values = _largest_outside(P, space.symmetric, space.project)
    value = values[np.argmax(abs(values))]
    # A number without imaginary part is a float; of a complex pair the upper one counts.
    is_real = abs(value.imag) <= _SAME * abs(value)
    return float(value.real) if is_real else complex(value.real, abs(value.imag))


def operator_norm(P: sp.csr_array) -> float:
    r"""Return the largest singular value of P, :math:`\|P\|_{op}`.

    By Lanczos iterations on :math:`P^T P` from a fixed start, with an ``ArpackError`` where many singular
    values crowd at the largest and they do not converge; up to 256 nodes by a full decomposition.

    Examples
    --------
    >>> round(operator_norm(sp.csr_array([[0.0, 2.0], [1.0, 0.0]])), 6)
    2.0
    """
    if P.shape[0] <= DENSE_LIMIT:
        return float(np.linalg.norm(P.toarray(), 2))
    if P.nnz == 0:
        return 0.0
    square = LinearOperator(P.shape, matvec=lambda x: P.T @ (P @ x), dtype=np.float64)
    return float(np.sqrt(find_eigenpairs(square, True, 1, "LM")[0][0]))


def is_symmetric(P: sp.csr_array, tolerance: float = 1e-12) -> bool:
    """Return whether P equals its transpose, up to ``tolerance`` times its largest entry."""
    return bool(abs(P - P.T.tocsr()).max() <= tolerance * abs(P).max()) if P.nnz else True


def _have_perron_vector(P: sp.csr_array, labels: NDArray[Any], symmetric: bool) -> NDArray[np.bool_]:
    """Say of each component whether it is non-negative and strongly connected."""
    result = np.ones(labels.max() + 1, bool)
    negative = np.flatnonzero(P.data < 0)
    result[labels[np.searchsorted(P.indptr, negative, side="right") - 1]] = False
    if not symmetric:
        _, strong = connected_components(P, directed=True, connection="strong")
        _, first = np.unique(strong, return_index=True)
        result[np.bincount(labels[first]) > 1] = False
    return result


def _closed_form(
    P: sp.csr_array, labels: NDArray[Any], perron: NDArray[np.bool_], guesses: Sequence[Floats]
) -> tuple[Floats, Floats]:
    """Return the top eigenvalue of each component, NaN where unknown, and their unit vectors in one."""
    n_nodes, n_components = len(labels), len(perron)
    value, vector = np.full(n_components, np.nan), np.zeros(n_nodes)
    for guess in (np.ones(n_nodes), *guesses):
        # Where the guess is zero it fails, by a ratio that no other equals.
        ratio = np.divide(P @ guess, guess, out=np.full(n_nodes, np.inf), where=guess > 0)
        low, high = np.full(n_components, np.inf), np.full(n_components, -np.inf)
        np.minimum.at(low, labels, ratio)
        np.maximum.at(high, labels, ratio)
        holds = perron & np.isnan(value) & np.isfinite(high)
        holds[holds] = high[holds] - low[holds] <= _EXACT * high[holds]
        value[holds] = (low[holds] + high[holds]) / 2
        norm = np.sqrt(np.bincount(labels, guess**2, n_components))
        nodes = holds[labels]
        vector[nodes] = guess[nodes] / norm[labels[nodes]]
    return value, vector


def _dominant(block: sp.csr_array, symmetric: bool, perron: bool, floor: float) -> Pairs:
    """Return the top eigenvalue of one component, once per direction, and orthonormal real directions."""
    nothing = np.empty(0), np.empty((block.shape[0], 0))
    is_large = block.shape[0] > DENSE_LIMIT
    radius = _spectral_radius(block) if is_large and not symmetric and not perron else None
    if radius is not None and radius <= floor:
        return nothing
    values, vectors = _largest(block, symmetric)
    size = abs(values).max()
    if size <= floor:
        return nothing
    largest = values[abs(values) >= (1 - _SAME) * size]
    top = largest[np.lexsort((largest.imag, largest.real))[-1]]
    chosen = np.minimum(abs(values - top), abs(values - top.conjugate())) <= _SAME * size
    directions = vectors[:, chosen]
    if not symmetric:
        # Vectors of one eigenvalue may be parallel up to rounding: of a Jordan block one direction counts.
        both = np.hstack([directions.real, directions.imag])
        directions, lengths, _ = np.linalg.svd(both, full_matrices=False)
        directions = directions[:, lengths > 1e-6 * lengths[0]]
    if is_large and not perron:
        _check_found(block, symmetric, radius, top, directions)
    return np.resize([top, top.conjugate()], directions.shape[1]), directions


def _check_found(
    block: sp.csr_array, symmetric: bool, radius: float | None, top: complex, directions: Floats
) -> None:
    """Raise unless the iterations found the largest eigenvalue and all of its directions."""
    n_nodes, size = block.shape[0], abs(top)
    if radius is not None and abs(size - radius) > _DIFFERENT * radius:
        raise np.linalg.LinAlgError(
            f"edges lead one way in a component of {n_nodes:,} nodes, and rounding hides the eigenvectors of "
            f"its largest eigenvalue, {radius:.4g}"
        )
    try:
        others = _largest_outside(block, symmetric, lambda X: directions @ (directions.T @ X))
    except ArpackNoConvergence as error:  # another direction of the top eigenvalue would converge first
        others = error.eigenvalues
    if (abs(others - top) <= _DIFFERENT * size).any():
        raise np.linalg.LinAlgError(
            f"the largest eigenvalue of a component of {n_nodes:,} nodes has several eigenvectors"
        )


def _largest_outside(P: sp.csr_array, symmetric: bool, project: Callable[[Floats], Floats]) -> NDArray[Any]:
    """Return the eigenvalue of P of largest absolute value, and maybe others, without an invariant space."""

    def outside(x: Floats) -> Floats:
        y: Floats = P @ (x - project(x))
        return y - project(y)

    # From where the space was found, a second direction of the same eigenvalue could not be seen.
    start = _start(P.shape[0], seed=1)
    if np.linalg.norm(outside(start)) <= _ROUNDING * _size(P) * np.linalg.norm(start):
        return np.zeros(1)  # ARPACK cannot start from here
    rest = LinearOperator(P.shape, matvec=outside, dtype=np.float64)
    return find_eigenpairs(rest, symmetric, 1 if symmetric else 6, "LM", start)[0]  # six as in _largest


def _spectral_radius(P: sp.csr_array) -> float:
    """Return the largest absolute eigenvalue, one strongly connected component after the other.

    The eigenvalues of P are theirs. Taken as a whole, P may seem to have others: the eigenvalues of a long
    path of one-way edges are all zero, but rounding makes some of them look like 0.03.
    """
    _, strong = connected_components(P, directed=True, connection="strong")
    sizes = np.bincount(strong)
    radius = abs(P.diagonal()[sizes[strong] == 1]).max(initial=0.0)
    for _, _, block in _blocks(P, strong, np.flatnonzero(sizes > 1)):
        radius = max(radius, abs(_largest(block, False)[0]).max())
    return float(radius)


def _blocks(
    P: sp.csr_array, labels: NDArray[Any], wanted: NDArray[Any]
) -> Iterator[tuple[int, NDArray[Any], sp.csr_array]]:
    """Give the label, the nodes and the part of P of each group of nodes whose label is wanted."""
    if not len(wanted):
        return
    order = np.argsort(labels, kind="stable")
    grouped = sp.csr_array(P[order][:, order])
    starts, ends = np.searchsorted(labels[order], [wanted, wanted + 1])
    for label, start, end in zip(wanted, starts, ends, strict=True):
        yield int(label), order[start:end], grouped[start:end, start:end]


def _largest(block: sp.csr_array, symmetric: bool) -> Pairs:
    """Return eigenvalues and eigenvectors, of a large matrix those of largest absolute value."""
    if block.shape[0] <= DENSE_LIMIT:
        return np.linalg.eigh(block.toarray()) if symmetric else np.linalg.eig(block.toarray())
    if block.data.min() >= 0:  # then the largest real one is on top, however many others are of its size
        return find_eigenpairs(block, symmetric, 1, "LA" if symmetric else "LR")
    # Arnoldi's first eigenvalue need not be the largest where many complex ones are of almost the same size.
    return find_eigenpairs(block, symmetric, 2 if symmetric else 6, "LM")


def find_eigenpairs(
    operator: Any, symmetric: bool, n_sought: int, which: str, start: Floats | None = None
) -> Pairs:
    """Return eigenvalues and eigenvectors by ARPACK, the same ones each time."""
    solve: Callable[..., Pairs] = eigsh if symmetric else eigs
    v0 = _start(operator.shape[0], seed=0) if start is None else start
    # More patience with small matrices: seconds for tens of thousands of nodes, minutes for a million.
    patience = min(max(5_000_000 // operator.shape[0], 100), 500)
    return solve(operator, k=n_sought, which=which, v0=v0, maxiter=patience, **_ARPACK)


def _start(n_nodes: int, seed: int) -> Floats:
    return np.random.default_rng(seed).standard_normal(n_nodes)


def _size(P: sp.csr_array) -> float:
    """Return the largest absolute row sum."""
    return float(abs(P).sum(axis=1).max())


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
    if S is None:
        return None
    if S.shape[0] <= DENSE_LIMIT:
        values = np.linalg.eigvalsh(S.toarray())
        return Interval.around(float(values[0]), float(values[-1]))
    options = {"k": 1, "v0": _start(S.shape[0], seed=0), "tol": _MARGIN / 10, "return_eigenvectors": False}
    try:
        low, high = (float(eigsh(S, which=which, **options)[0]) for which in ("SA", "LA"))
    except ArpackError:  # no convergence, or nothing to converge to; no eigenvalue exceeds this norm
        low, high = -_size(S), _size(S)
    return Interval.around(low, high)


def symmetrized(P: sp.csr_array, tolerance: float) -> sp.csr_array | None:
    """Return the symmetric R P R^-1, R diagonal and positive, or None where there is none.

    Entries may differ from their mirror images by ``tolerance`` times the largest. Symmetry along a spanning
    forest settles R.
    """
    if is_symmetric(P, tolerance):
        return P
    n_nodes = P.shape[0]
    pattern = sp.csr_array(abs(P) + abs(P).T)
    _, labels = connected_components(pattern, directed=False)
    _, first = np.unique(labels, return_index=True)
    # One more node, joined to the first of every component: a single search then visits all of them.
    joined = sp.csr_array((np.ones(len(first)), (np.zeros(len(first), int), first)), shape=(1, n_nodes))
    whole = sp.csr_array(sp.block_array([[pattern, joined.T], [joined, None]]))
    order, parents = breadth_first_order(whole, n_nodes, directed=False)
    inner = order[1:][parents[order[1:]] != n_nodes]
    forth = np.asarray(P[parents[inner], inner]).ravel()
    back = np.asarray(P[inner, parents[inner]]).ravel()
    if (forth * back <= 0).any():  # an edge that leads one way, or changes its sign
        return None
    logs = np.zeros(n_nodes)  # of R
    for child, parent, step in zip(inner, parents[inner], np.log(forth / back) / 2, strict=True):
        logs[child] = logs[parent] + step
    of_row = np.repeat(np.arange(n_nodes), np.diff(P.indptr))
    S = P.copy()
    S.data = S.data * np.exp(logs[of_row] - logs[S.indices])
    return S if is_symmetric(S, tolerance) else None
