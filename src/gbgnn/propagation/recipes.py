"""The propagation matrices P, each described from a graph's adjacency matrix A."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from sklearn.base import BaseEstimator

from gbgnn._matrices import as_adjacency
from gbgnn.errors import GraphError, ParameterError
from gbgnn.propagation.operator import Csr, Operator


class Propagation(BaseEstimator, ABC):
    """A recipe that turns an adjacency matrix into the matrix P that mixes node representations.

    ``build`` is called once per graph, at ``fit`` and again for every other graph a model is applied
    to. It may assume a checked matrix: a SciPy CSR array, or a :class:`~gbgnn.propagation.Csr`, which may be
    on a GPU. It must return P: an :class:`~gbgnn.propagation.Operator`, which describes it, or a SciPy matrix
    of the same shape. A recipe of one's own is a few lines::

        @dataclass(kw_only=True, eq=False, repr=False)
        class Squared(Propagation):
            def build(self, adjacency):
                P = AugmentedAdjacency().build(adjacency).to_scipy()
                return P @ P
    """

    @abstractmethod
    def build(self, adjacency: Any) -> Any:
        """Return P for ``adjacency``."""


@dataclass(kw_only=True, eq=False, repr=False)
class AugmentedAdjacency(Propagation):
    r"""Normalised adjacency with self loops, :math:`(D+I)^{-1/2}(A+I)(D+I)^{-1/2}`; the default.

    For a directed graph the left factor has the row sums of A + I and the right one its column sums. A self
    loop that the graph already has is added to, not replaced.

    Examples
    --------
    >>> AugmentedAdjacency().build([[0.0, 1.0], [1.0, 0.0]]).toarray().round(12)
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """

    def build(self, adjacency: Any) -> Operator:
        """Return P for ``adjacency``."""
        return _symmetric(Csr.from_matrix(adjacency), self_loop=1.0)


@dataclass(kw_only=True, eq=False, repr=False)
class NormalizedAdjacency(Propagation):
    r"""Normalised adjacency :math:`D^{-1/2} A D^{-1/2}`; a node without edges gets a zero row.

    Examples
    --------
    >>> NormalizedAdjacency().build([[0.0, 4.0], [4.0, 0.0]]).toarray()
    array([[0., 1.],
           [1., 0.]])
    """

    def build(self, adjacency: Any) -> Operator:
        """Return P for ``adjacency``."""
        return _symmetric(Csr.from_matrix(adjacency))


@dataclass(kw_only=True, eq=False, repr=False)
class RandomWalk(Propagation):
    r"""Row-stochastic average over the neighbours, :math:`D^{-1} A`.

    Parameters
    ----------
    self_loops
        Whether every node is its own neighbour too, :math:`(D+I)^{-1}(A+I)`. Without, a node with no edges
        gets a zero row.

    Examples
    --------
    >>> RandomWalk().build([[0.0, 1.0, 1.0], [1.0, 0, 0], [1.0, 0, 0]]).toarray()
    array([[0. , 0.5, 0.5],
           [1. , 0. , 0. ],
           [1. , 0. , 0. ]])
    """

    self_loops: bool = False

    def build(self, adjacency: Any) -> Operator:
        """Return P for ``adjacency``."""
        A = Csr.from_matrix(adjacency)
        _check_weights(A)
        self_loop = 1.0 if self.self_loops else 0.0
        return Operator(A, left=_power(A.row_sums() + self_loop, -1.0), self_loop=self_loop)


@dataclass(kw_only=True, eq=False, repr=False)
class NormalizedLaplacian(Propagation):
    r"""Normalised graph Laplacian :math:`I - D^{-1/2} A D^{-1/2}`: it sharpens instead of smoothing.

    Examples
    --------
    >>> NormalizedLaplacian().build([[0.0, 1.0], [1.0, 0.0]]).toarray()
    array([[ 1., -1.],
           [-1.,  1.]])
    """

    def build(self, adjacency: Any) -> Operator:
        """Return P for ``adjacency``."""
        P = _symmetric(Csr.from_matrix(adjacency))
        assert P.left is not None
        return Operator(P.edges, -P.left, P.right, identity=1.0)


@dataclass(kw_only=True, eq=False, repr=False)
class GivenMatrix(Propagation):
    """A matrix of the user's own.

    Parameters
    ----------
    matrix
        N x N, of SciPy, NumPy or torch. None takes the adjacency matrix itself, as it is, weights and signs
        included; that form also works on other graphs.

    Examples
    --------
    >>> GivenMatrix().build([[0.0, -2.0], [3.0, 0.0]]).toarray()
    array([[ 0., -2.],
           [ 3.,  0.]])
    """

    matrix: Any = None

    def build(self, adjacency: Any) -> Operator:
        """Return P for ``adjacency``."""
        A = Csr.from_matrix(adjacency)
        if self.matrix is None:
            return Operator(A)
        try:
            P, _ = as_adjacency(self.matrix, copy=True, name="GivenMatrix.matrix")
        except GraphError as error:
            raise ParameterError(str(error)) from error
        if P.shape != A.shape:
            raise ParameterError(
                f"GivenMatrix.matrix is {P.shape[0]} x {P.shape[1]}, but the graph has {A.shape[0]} nodes."
            )
        return Operator(Csr.from_scipy(P, A.device))


def _symmetric(A: Csr, self_loop: float = 0.0) -> Operator:
    _check_weights(A)
    left, right = (_power(sums + self_loop, -0.5) for sums in (A.row_sums(), A.column_sums()))
    return Operator(A, left, left if torch.equal(left, right) else right, self_loop)


def _check_weights(A: Csr) -> None:
    smallest = 1.0 if A.values is None or not A.n_entries else float(A.values.min())
    if smallest < 0:
        raise GraphError(
            f"adjacency has negative weights (smallest: {smallest:g}), which degrees cannot normalise; "
            'use propagation="given" to take the matrix as it is.'
        )


def _power(degrees: torch.Tensor, exponent: float) -> torch.Tensor:
    # Degrees are float64: a node of degree 10^8 must not lose its last neighbours to rounding.
    return torch.where(degrees > 0, degrees.pow(exponent), 0.0)
