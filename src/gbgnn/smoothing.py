"""Over-smoothing: how fast repeated multiplication by P makes nodes alike."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackError

from gbgnn._checks import check_integer, check_number
from gbgnn._matrices import Features
from gbgnn.errors import ParameterError
from gbgnn.graph import Graph
from gbgnn.propagation import Operator
from gbgnn.propagation.spectrum import TopEigenspace, is_symmetric, second_eigenvalue, top_eigenspace
from gbgnn.registry import as_part

# Eigenvalues nearer to each other than this, in relative terms, are equal up to rounding.
_EQUAL = 1e-9
_RANK_ENTRIES = 2**27
_BLOCK_ENTRIES = 2**24


@dataclass(frozen=True)
class SmoothingProfile:
    """What ``X_t = P^t X_0`` keeps of the features, for t from 0 to the number of rounds."""

    norm: tuple[float, ...]  # of X_t, Frobenius'
    # Distance of X_t from the top eigenspace of P (see top_eigenspace) in units of the norm, from 0 (all of
    # X_t is in it) to 1; 0 where X_t vanishes. None if the eigenspace was not found.
    distance: tuple[float, ...] | None
    # Dirichlet energy tr(X_t^T (I - P) X_t): of a normalised adjacency matrix, how much neighbours differ.
    energy: tuple[float, ...]
    effective_rank: tuple[float, ...] | None  # None if that was too much work
    n_components: int  # connected components of P
    n_isolated: int  # nodes of the graph without edges, each a component of its own
    top_dimension: int | None  # number of directions in the top eigenspace; one per component is usual
    top_eigenvalues: tuple[float, float] | None  # least and largest absolute value; None without directions
    # The eigenvalue of largest absolute value outside the top eigenspace. A complex one stands for itself and
    # its conjugate. None if nothing is outside, or if it was not found.
    lambda_2: float | complex | None
    # Whether P is. Then the part of X_t outside the top eigenspace is multiplied by the absolute value of
    # lambda_2 or less in every round; otherwise that is its pace in the long run.
    is_symmetric: bool
    missing: Mapping[str, str] = field(default_factory=dict)  # why one of those is None, by name

    @property
    def rounds(self) -> int:
        """The last t."""
        return len(self.norm) - 1

    @property
    def predicted(self) -> tuple[float, ...] | None:
        r"""The distance if the part outside the top eigenspace shrank exactly like :math:`|\lambda_2|^t`.

        For a symmetric P an upper bound of the distance; in general its pace in the long run.
        """
        if self.distance is None or self.lambda_2 is None:
            return None
        pairs = zip(self.norm, self.distance, strict=True)
        inside = [norm * math.sqrt(1 - distance**2) for norm, distance in pairs]
        first = self.norm[0] * self.distance[0]
        with np.errstate(over="ignore"):  # an infinite power makes a distance of 1
            powers = np.power(abs(self.lambda_2), np.arange(len(inside), dtype=np.float64)).tolist()
        outside = [first * power if first else 0.0 for power in powers]
        return tuple(1 / math.hypot(1, b / a) if a else 0.0 for a, b in zip(outside, inside, strict=True))

    def hops_until(self, share: float) -> int | None:
        """Return the first t at which ``share`` of the signal is in the top eigenspace; None if none is.

        The signal is the squared norm of X_t, of which 1 - distance^2 is in the top eigenspace.
        """
        check_number("hops_until", "share", share, 0, 1)
        reached = (t for t, d in enumerate(self.distance or ()) if 1 - d**2 >= share)
        return next(reached, None)

    def hops_bound(self, share: float) -> int | None:
        """Return a t from which on ``share`` must be reached; None where theory promises nothing.

        It needs a symmetric P, features not wholly outside the top eigenspace, and a lambda_2 that is smaller
        in absolute value than every top eigenvalue.
        """
        check_number("hops_bound", "share", share, 0, 1, open_low=True, open_high=True)
        if self.distance is None or self.lambda_2 is None or self.top_eigenvalues is None:
            return None
        ratio, start = abs(self.lambda_2) / self.top_eigenvalues[0], self.distance[0]
        if not self.is_symmetric or ratio >= 1 - _EQUAL or start >= 1:
            return None
        # The part outside shrinks at least, and the part inside at most, by these factors per round.
        excess = start / math.sqrt(1 - start**2) / math.sqrt((1 - share) / share)
        if excess <= 1:
            return 0
        return math.ceil(math.log(excess) / -math.log(ratio)) if ratio > 0 else 1

    def rows(self) -> list[dict[str, Any]]:
        """Return one JSON-ready dictionary per t."""
        names = ("norm", "distance", "predicted", "energy", "effective_rank")
        columns = {name: getattr(self, name) for name in names}
        return [
            {"t": t, **{name: None if column is None else column[t] for name, column in columns.items()}}
            for t in range(len(self.norm))
        ]

    def facts(self) -> dict[str, Any]:
        """Return all that is not per t, JSON-ready."""
        return {
            **{name: getattr(self, name) for name in ("n_components", "n_isolated", "top_dimension")},
            "top_eigenvalues": None if self.top_eigenvalues is None else list(self.top_eigenvalues),
            "lambda_2": None if self.lambda_2 is None else self.lambda_2.real,
            "lambda_2_imaginary": None if self.lambda_2 is None else self.lambda_2.imag,
            "is_symmetric": self.is_symmetric,
            "hops_until_99_percent": self.hops_until(0.99),
            "hops_bound_99_percent": self.hops_bound(0.99),
            "missing": dict(self.missing),
        }

    def __repr__(self) -> str:
        second = "None" if self.lambda_2 is None else f"{self.lambda_2:.4g}"
        facts = [f"rounds={self.rounds}", f"n_components={self.n_components}", f"lambda_2={second}"]
        for name, column in (("distance", self.distance), ("rank", self.effective_rank)):
            if column is not None:
                facts.append(f"{name} {column[0]:.4g} to {column[-1]:.4g}")
        return f"SmoothingProfile({', '.join(facts)})"


def smoothing_profile(
    graph: Graph,
    features: Any = None,
    rounds: int = 32,
    *,
    propagation: Any = "augmented",
    rank_limit: int = 2000,
) -> SmoothingProfile:
    r"""Follow :math:`X_t = P X_{t-1}` and measure what is left of the features after every hop.

    In double precision, with sparse products only; memory is a few arrays of the size of the features, or
    less where the effective rank is left out.

    Parameters
    ----------
    graph
        The graph.
    features
        X_0, N x C, dense or sparse; None takes the features of the graph.
    rounds
        How many hops to follow, >= 0.
    propagation
        P, as in :class:`~gbgnn.GBGNNClassifier`: a name such as ``"random_walk"``, an object such as
        ``RandomWalk()``, or an N x N matrix.
    rank_limit
        The effective rank needs the singular values of every X_t, and their cost grows with the cube of
        min(N, C). It is left out where that is above this limit, or where X_t has more than 2^27 entries.

    Examples
    --------
    >>> from gbgnn import datasets
    >>> profile = smoothing_profile(datasets.karate().graph, rounds=16)
    >>> round(profile.lambda_2, 4), profile.hops_until(0.9)
    (0.8961, 11)
    """
    check_integer("smoothing_profile", "rounds", rounds, 0)
    check_integer("smoothing_profile", "rank_limit", rank_limit, 0)
    P = Operator.from_matrix(as_part("propagation", propagation).build(graph.adjacency)).to_scipy()
    if not P.data.all():  # the pattern of P says what is connected
        P = P.copy()
        P.eliminate_zeros()
    X = graph.features if features is None else Graph(graph.adjacency, features).features
    missing = {}
    space: TopEigenspace | None = None
    second: float | complex | None = None
    try:
        space = top_eigenspace(P, _degree_guesses(graph.adjacency))
        second = second_eigenvalue(P, space)
        if second is None:
            missing["lambda_2"] = "nothing is outside the top eigenspace"
    except (ArpackError, np.linalg.LinAlgError) as error:
        reason = f"not found, {error}"
        missing |= dict.fromkeys(["distance", "lambda_2"] if space is None else ["lambda_2"], reason)
    has_rank = min(X.shape) <= rank_limit and math.prod(X.shape) <= _RANK_ENTRIES
    if min(X.shape) > rank_limit:
        missing["effective_rank"] = f"min(N, C) = {min(X.shape):,} is above rank_limit = {rank_limit:,}"
    elif not has_rank:
        missing["effective_rank"] = f"the features have more than {_RANK_ENTRIES:,} entries"
    squares, outside, energy, ranks = _measure(P, X, rounds, space, has_rank)
    # At most 1 whatever the rounding; 0 where both vanish.
    share = np.divide(outside, squares, out=np.zeros_like(outside), where=squares > 0).clip(max=1.0)
    sizes = None if space is None or not space.dimension else abs(space.values)
    return SmoothingProfile(
        norm=tuple(np.sqrt(squares).tolist()),
        distance=None if space is None else tuple(np.sqrt(share).tolist()),
        energy=tuple(energy.tolist()),
        effective_rank=tuple(ranks) if has_rank else None,
        n_components=connected_components(P, directed=False)[0] if space is None else space.n_components,
        n_isolated=graph.n_isolated,
        top_dimension=None if space is None else space.dimension,
        top_eigenvalues=None if sizes is None else (float(sizes.min()), float(sizes.max())),
        lambda_2=second,
        is_symmetric=is_symmetric(P) if space is None else space.symmetric,
        missing=missing,
    )


def effective_rank(X: NDArray[np.floating[Any]]) -> float:
    r"""Return :math:`\exp H(p)`, the exponential of the entropy of the normalised singular values of X.

    With :math:`p_i = \sigma_i / \sum_j \sigma_j` (Roy and Vetterli 2007): k equal singular values give k, and
    small ones count little. The singular values are the roots of the eigenvalues of the smaller Gram matrix;
    those below some 1e-7 of the largest are rounding and count as zero. A zero matrix has rank 0.
    """
    gram = X.T @ X if X.shape[0] >= X.shape[1] else X @ X.T
    squares = np.linalg.eigvalsh(gram)
    largest = squares[-1]
    if largest <= 0:
        return 0.0
    singular = np.sqrt(squares[squares > max(X.shape) * np.finfo(np.float64).eps * largest])
    p = singular / singular.sum()
    return float(np.exp(-(p * np.log(p)).sum()))


def _degree_guesses(adjacency: sp.csr_array) -> list[NDArray[np.float64]]:
    """Return the top directions of the normalised adjacency matrices of undirected graphs.

    They are guesses because P may be anything; what they are worth is checked against P itself.
    """
    if adjacency.nnz and adjacency.data.min() < 0:
        return []
    augmented = adjacency + sp.eye_array(adjacency.shape[0], dtype=adjacency.dtype)
    ones = np.ones(adjacency.shape[0])
    return [np.sqrt(A @ ones) for A in (augmented, adjacency)]


def _measure(
    P: sp.csr_array, X: Features, rounds: int, space: TopEigenspace | None, has_rank: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], list[float]]:
    """Return squared norms, squared residuals, energies and ranks.

    All but the rank are sums over columns, so a few columns at a time will do.
    """
    squares, outside, energy = np.zeros((3, rounds + 1))
    ranks = []
    width = X.shape[1] if has_rank else max(1, _BLOCK_ENTRIES // X.shape[0])
    for start in range(0, X.shape[1], width):
        block = X[:, start : start + width]
        rows = block if isinstance(block, np.ndarray) else block.toarray()
        current = np.ascontiguousarray(rows, np.float64)
        for t in range(rounds + 1):
            after = P @ current
            squares[t] += np.vdot(current, current)
            energy[t] += np.vdot(current, current - after)
            if not (math.isfinite(squares[t]) and math.isfinite(energy[t])):
                raise ParameterError(
                    f"smoothing_profile: |X_{t}| is too large for double precision with this P; ask for "
                    f"fewer than {rounds} rounds, or scale the features or P down."
                )
            if space is not None:
                rest = space.project(current)
                rest -= current  # the difference of two norms would be lost in rounding
                outside[t] += np.vdot(rest, rest)
            if has_rank:
                ranks.append(effective_rank(current))
            current = after
    return squares, outside, energy, ranks
