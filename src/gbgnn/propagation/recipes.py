"""The propagation matrices P, each built from a graph's adjacency matrix A."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from gbgnn.errors import GraphError, ParameterError


class Propagation(BaseEstimator, ABC):
    """A recipe that turns an adjacency matrix into the matrix P that mixes node representations.

    ``build`` is called once per graph, at ``fit`` and again for every other graph a model is applied
    to. It may assume a checked CSR matrix and must return a CSR matrix of the same shape. A recipe of
    one's own is a few lines::

        @dataclass(kw_only=True, eq=False, repr=False)
        class Squared(Propagation):
            def build(self, adjacency):
                P = AugmentedAdjacency().build(adjacency)
                return P @ P
    """

    @abstractmethod
    def build(self, adjacency: sp.csr_array) -> sp.csr_array:
        """Return P for ``adjacency``."""


@dataclass(kw_only=True, eq=False, repr=False)
class AugmentedAdjacency(Propagation):
    r"""Normalised adjacency with self loops, :math:`(D+I)^{-1/2}(A+I)(D+I)^{-1/2}`; the default.

    For a directed graph the left factor has the row sums of A + I and the right one its column sums. A self
    loop that the graph already has is added to, not replaced.

    Examples
    --------
    >>> AugmentedAdjacency().build(sp.csr_array([[0.0, 1.0], [1.0, 0.0]])).toarray()
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """

    def build(self, adjacency: sp.csr_array) -> sp.csr_array:
        """Return P for ``adjacency``."""
        return _symmetric(adjacency + sp.eye_array(adjacency.shape[0], dtype=adjacency.dtype))


@dataclass(kw_only=True, eq=False, repr=False)
class NormalizedAdjacency(Propagation):
    r"""Normalised adjacency :math:`D^{-1/2} A D^{-1/2}`; a node without edges gets a zero row.

    Examples
    --------
    >>> NormalizedAdjacency().build(sp.csr_array([[0.0, 4.0], [4.0, 0.0]])).toarray()
    array([[0., 1.],
           [1., 0.]])
    """

    def build(self, adjacency: sp.csr_array) -> sp.csr_array:
        """Return P for ``adjacency``."""
        return _symmetric(adjacency)


@dataclass(kw_only=True, eq=False, repr=False)
class RandomWalk(Propagation):
    r"""Row-stochastic average over the nodes one hears, :math:`D^{-1} A`.

    Parameters
    ----------
    self_loops
        Whether every node hears itself too, :math:`(D+I)^{-1}(A+I)`. Without, a node with no edges
        gets a zero row.

    Examples
    --------
    >>> RandomWalk().build(sp.csr_array([[0.0, 1.0, 1.0], [1.0, 0, 0], [1.0, 0, 0]])).toarray()
    array([[0. , 0.5, 0.5],
           [1. , 0. , 0. ],
           [1. , 0. , 0. ]])
    """

    self_loops: bool = False

    def build(self, adjacency: sp.csr_array) -> sp.csr_array:
        """Return P for ``adjacency``."""
        loops = sp.eye_array(adjacency.shape[0], dtype=adjacency.dtype)
        A = adjacency + loops if self.self_loops else adjacency
        return _scaled(A, _power(_sums(A, axis=1), -1.0), None)


@dataclass(kw_only=True, eq=False, repr=False)
class NormalizedLaplacian(Propagation):
    r"""Normalised graph Laplacian :math:`I - D^{-1/2} A D^{-1/2}`: it sharpens instead of smoothing.

    Examples
    --------
    >>> NormalizedLaplacian().build(sp.csr_array([[0.0, 1.0], [1.0, 0.0]])).toarray()
    array([[ 1., -1.],
           [-1.,  1.]])
    """

    def build(self, adjacency: sp.csr_array) -> sp.csr_array:
        """Return P for ``adjacency``."""
        identity = sp.eye_array(adjacency.shape[0], dtype=adjacency.dtype)
        return sp.csr_array(identity - _symmetric(adjacency))


@dataclass(kw_only=True, eq=False, repr=False)
class GivenMatrix(Propagation):
    """A matrix of the user's own.

    Parameters
    ----------
    matrix
        N x N, SciPy or NumPy. None takes the adjacency matrix itself, as it is, weights and signs
        included; that form also works on other graphs.

    Examples
    --------
    >>> GivenMatrix().build(sp.csr_array([[0.0, -2.0], [3.0, 0.0]])).toarray()
    array([[ 0., -2.],
           [ 3.,  0.]])
    """

    matrix: Any = None

    def build(self, adjacency: sp.csr_array) -> sp.csr_array:
        """Return P for ``adjacency``."""
        if self.matrix is None:
            return adjacency
        P = sp.csr_array(self.matrix)
        if P.shape != adjacency.shape:
            raise ParameterError(
                f"GivenMatrix.matrix is {P.shape[0]} x {P.shape[1]}, but the graph has "
                f"{adjacency.shape[0]} nodes."
            )
        if not np.isfinite(P.data).all():
            raise ParameterError("GivenMatrix.matrix has NaN or infinite entries.")
        return P


def _symmetric(A: sp.csr_array) -> sp.csr_array:
    return _scaled(A, _power(_sums(A, axis=1), -0.5), _power(_sums(A, axis=0), -0.5))


def _sums(A: sp.csr_array, axis: int) -> NDArray[np.float64]:
    if A.nnz and A.data.min() < 0:
        raise GraphError(
            f"adjacency has negative weights (smallest: {A.data.min():g}), which degrees cannot normalise; "
            'use propagation="given" to take the matrix as it is.'
        )
    # In double precision: a node of degree 10^8 must not lose its last neighbours to rounding. (SciPy's own
    # sum adds up in the precision of the matrix, whatever it is asked for.)
    return np.asarray((A if axis == 1 else A.T) @ np.ones(A.shape[0]))


def _power(degrees: NDArray[np.float64], exponent: float) -> NDArray[np.float64]:
    result = np.zeros_like(degrees)
    np.power(degrees, exponent, out=result, where=degrees > 0)
    return result


def _scaled(A: sp.csr_array, left: NDArray[np.float64], right: NDArray[np.float64] | None) -> sp.csr_array:
    P = sp.csr_array(sp.diags_array(left) @ A)
    return P if right is None else sp.csr_array(P @ sp.diags_array(right))
