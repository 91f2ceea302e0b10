"""The neighbours of nodes, the node itself left out: their means and maxima, along edges and against them."""

from __future__ import annotations

from functools import cached_property

import torch

from gbgnn.propagation.operator import Csr
from gbgnn.propagation.propagator import Propagator, sparse_csr
from gbgnn.propagation.recipes import RandomWalk
from gbgnn.propagation.spectrum import is_symmetric

ALONG, AGAINST = DIRECTIONS = ("along", "against")
"""A node hears from where its edges come; against them, from where they lead."""

_GATHERED_BYTES = 2**28  # of the neighbours' rows, where a device has no kernel of its own for maxima


class DirectedEdges:
    """The edges of all nodes in one direction; ``matrix[i, j]`` is how much node i hears from node j."""

    def __init__(self, matrix: Csr, dtype: torch.dtype) -> None:
        self.matrix, self._dtype = matrix, dtype

    @cached_property
    def walk(self) -> Propagator:
        """What multiplies by the weighted mean of the neighbours; zero for a node without any."""
        return Propagator(RandomWalk().build(self.matrix), self.matrix.device, self._dtype)

    @cached_property
    def log_degrees(self) -> torch.Tensor:
        """The logarithm of one plus the sum of a node's weights, in double precision."""
        return self.matrix.row_sums().log1p()

    def maximum(self, X: torch.Tensor) -> torch.Tensor:
        """Return the largest of the neighbours' values, column by column; zero for a node without any."""
        return maxima(self.matrix, X).masked_fill_((self.matrix.row_starts.diff() == 0)[:, None], 0.0)


class NeighbourEdges:
    """The edges of a graph without its self loops, in both directions.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> loop_and_edge = Csr.from_scipy(sp.csr_array([[5.0, 1.0], [0.0, 0.0]]))  # from node 1 to node 0
    >>> edges = NeighbourEdges(loop_and_edge, torch.float64)
    >>> X = torch.tensor([[1.0], [3.0]], dtype=torch.float64)
    >>> edges["along"].walk(X).tolist(), edges["against"].walk(X).tolist(), edges.is_directed
    ([[3.0], [0.0]], [[0.0], [1.0]], True)
    """

    def __init__(self, edges: Csr, dtype: torch.dtype) -> None:
        self._edges, self._dtype = edges.without_loops(), dtype

    @cached_property
    def is_directed(self) -> bool:
        """Whether the two directions differ."""
        return not is_symmetric(self._edges.to_scipy())

    @cached_property
    def _along(self) -> DirectedEdges:
        return DirectedEdges(self._edges, self._dtype)

    @cached_property
    def _against(self) -> DirectedEdges:
        return DirectedEdges(self._edges.transpose(), self._dtype)

    def __getitem__(self, direction: str) -> DirectedEdges:
        return {ALONG: lambda: self._along, AGAINST: lambda: self._against}[direction]()

    def directions(self) -> tuple[str, ...]:
        """Return the directions in which there is something to hear: both, or one where they are the same."""
        return DIRECTIONS if self.is_directed else (ALONG,)


def maxima(edges: Csr, X: torch.Tensor) -> torch.Tensor:
    """Return the largest of the neighbours' values, column by column; minus infinity where there is none.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> edges = Csr.from_scipy(sp.csr_array([[0.0, 1.0, 1.0], [0, 0, 0], [0, 0, 0]]))
    >>> maxima(edges, torch.tensor([[7.0], [-2.0], [-1.0]])).ravel().tolist()
    [-1.0, -inf, -inf]
    """
    largest: torch.Tensor
    if X.device.type == "cpu":
        ones = torch.ones(edges.n_entries, dtype=X.dtype)
        pattern = sparse_csr(edges.row_starts, edges.columns, ones, edges.shape)
        largest = torch.sparse.mm(pattern, X, "amax")
    else:
        largest = gathered_maxima(edges, X)
    return largest.masked_fill_((edges.row_starts.diff() == 0)[:, None], -torch.inf)


def gathered_maxima(edges: Csr, X: torch.Tensor, n_bytes: int = _GATHERED_BYTES) -> torch.Tensor:
    """Return the largest of the neighbours' values, whose rows are gathered a few columns at a time."""
    width = max(1, n_bytes // max(1, edges.n_entries * X.element_size()))
    columns = edges.columns.long()
    found = [
        torch.segment_reduce(block[columns], "max", offsets=edges.row_starts, axis=0, unsafe=True)
        for block in X.split(width, dim=1)
    ]
    return torch.cat(found, dim=1)
