"""Neighbourhood: the columns of a node beside those of its neighbours and of labelled nodes nearby."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from gbgnn._checks import check_integer
from gbgnn.errors import ParameterError
from gbgnn.features.encodings import MOST_ENCODINGS, laplacian_eigenvectors
from gbgnn.features.neighbour_targets import MOST_HOPS, NeighbourTargets
from gbgnn.features.neighbours import STATISTICS, Neighbours
from gbgnn.graph import Graph
from gbgnn.tables import RawColumns

_MOST_NODES = 200_000

_BLOCK_BYTES = 512 * 2**20
"""About how much memory statistics of neighbours take on the way, by as many columns at a time."""

_COLUMN_BYTES = 40
"""Of a column of a node: what is averaged, two products in turn, the means, in double precision."""


class LabelledRows(NamedTuple):
    """Labelled nodes, and numbers that say what each is, shape (nodes, n)."""

    rows: NDArray[np.int64]
    codes: NDArray[np.float64]


class WideColumns(NamedTuple):
    """Columns side by side; ``ends`` are the numbers of columns up to the end of every group of them."""

    raw: RawColumns
    ends: tuple[int, ...]


class NodeColumns(BaseEstimator, ABC):
    """What columns of a node learners see in the first round."""

    @abstractmethod
    def check(self) -> None:
        """Raise when a setting is out of range."""


@dataclass(kw_only=True, eq=False, repr=False)
class OwnColumns(NodeColumns):
    """A node's own columns, and no others."""

    def check(self) -> None:
        """Raise nothing: there are no settings."""


@dataclass(kw_only=True, eq=False, repr=False)
class Neighbourhood(NodeColumns):
    """Shows a learner a node's own columns, those of its neighbours, and what labelled nodes nearby are.

    All are there from the first round on. Columns come in groups, each of which a learner may do without: a
    node's own; statistics of its neighbours' columns, hop by hop, in both directions where edges have one;
    :class:`NeighbourTargets`, in which no node hears its own label; its position in the graph. On another
    graph no labels are known and positions mean something else: these groups are missing there.

    Parameters
    ----------
    hops
        How many hops of neighbours are looked at, 0 for none.
    statistics
        Any of ``"mean"``, ``"std"``, ``"min"``, ``"max"``, ``"missing"``; see :class:`~gbgnn.GraphFeatures`.
    targets
        Steps of the longest walk to labelled nodes, 0 to 3; 0 does without labels.
    positions
        How many of the smoothest eigenvectors of the graph's Laplacian say where a node is, 0 to 32. They are
        left zero in graphs of more than 200,000 nodes, where they would take minutes.

    Examples
    --------
    >>> graph = Graph([[0, 1, 0], [1, 0, 1], [0, 1, 0]], [[1.0], [2.0], [4.0]])
    >>> own = RawColumns(graph.features, np.array([False]), ["x"])
    >>> known = LabelledRows(np.array([0]), np.array([[5.0]]))
    >>> wide = Neighbourhood(hops=1, targets=1, positions=0).widen(graph, own, own, 1, known)
    >>> wide.raw.names, wide.ends
    (['x', 'x_mean_1', 'target_labelled_1', 'labelled_share_1'], (1, 2, 4))
    >>> wide.raw.matrix[1].tolist()
    [2.0, 2.5, 5.0, 0.5]
    """

    hops: int = 2
    statistics: Sequence[str] = ("mean",)
    targets: int = 3
    positions: int = 8

    def check(self) -> None:
        """Raise when a setting is out of range."""
        check_integer("Neighbourhood", "hops", self.hops, 0)
        check_integer("Neighbourhood", "targets", self.targets, 0, MOST_HOPS)
        check_integer("Neighbourhood", "positions", self.positions, 0, MOST_ENCODINGS)
        if unknown := [name for name in self.statistics if name not in STATISTICS]:
            raise ParameterError(
                f"Neighbourhood.statistics may have {', '.join(STATISTICS)}; got {unknown[0]!r}."
            )

    def widen(
        self,
        graph: Graph,
        own: RawColumns,
        encoded: RawColumns,
        n_targets: int,
        known: LabelledRows | None,
    ) -> WideColumns:
        """Return the columns of all nodes.

        Parameters
        ----------
        graph
            Whose neighbours they are.
        own
            What a node's own group shows.
        encoded
            Columns without gaps or categories, of which statistics of neighbours are made.
        n_targets
            How many numbers say what a labelled node is.
        known
            The labelled nodes; None where none are known, and what they are is missing.
        """
        directions = self._directions(graph)
        names = list(own.names)
        names += [
            f"{prefix}{column}_{name}_{hop}"
            for prefix, _ in directions
            for hop in range(1, self.hops + 1)
            for name in self.statistics
            for column in encoded.names
        ]
        ends = [len(own.names), len(names)]
        walks = NeighbourTargets(hops=self.targets)
        if self.targets:
            names += walks.names(["target"] if n_targets == 1 else [f"target{i}" for i in range(n_targets)])
            ends.append(len(names))
        names += [f"position_{i}" for i in range(1, self.positions + 1)]
        ends.append(len(names))
        # Written where it stays: parts that are joined in the end would take twice the memory.
        matrix = np.empty((graph.n_nodes, len(names)), own.matrix.dtype)
        groups = np.split(matrix, ends[:-1], axis=1)
        groups[0][:] = own.matrix
        for (_, neighbours), part in zip(
            directions, np.split(groups[1], max(len(directions), 1), axis=1), strict=False
        ):
            self._describe(neighbours, encoded.matrix, part)
        if self.targets:
            groups[2][:] = np.nan if known is None else walks.columns(graph.adjacency, *known)
        groups[-1][:] = self._locate(graph, is_elsewhere=known is None)
        if graph.n_nodes > _MOST_NODES and self.targets:
            del ends[-2]  # positions that say nothing are no group of their own
        is_category = np.zeros(len(names), dtype=bool)
        is_category[: ends[0]] = own.categorical
        return WideColumns(RawColumns(matrix, is_category, names), tuple(dict.fromkeys(ends)))

    def _describe(self, neighbours: Neighbours, X: NDArray[Any], result: NDArray[Any]) -> None:
        """Write the statistics of the neighbours' columns, a few columns at a time."""
        n_nodes, n_columns = X.shape
        width = max(1, _BLOCK_BYTES // (_COLUMN_BYTES * n_nodes))
        for first in range(0, n_columns, width):
            block = X[:, first : first + width]
            found_at = neighbours.statistics(block, self.hops, self.statistics)
            places = count(first, n_columns)
            for found in found_at:
                for name in self.statistics:
                    start = next(places)
                    result[:, start : start + block.shape[1]] = found[name]

    def _locate(self, graph: Graph, *, is_elsewhere: bool) -> NDArray[np.float64]:
        if is_elsewhere or graph.n_nodes > _MOST_NODES or not self.positions:
            return np.full((1, self.positions), np.nan if is_elsewhere else 0.0)
        edges = graph.adjacency
        both = sp.csr_array(edges.maximum(edges.T)) if graph.is_directed else edges
        return np.asarray(laplacian_eigenvectors(both, self.positions), dtype=np.float64)

    def _directions(self, graph: Graph) -> list[tuple[str, Neighbours]]:
        if not self.hops or not self.statistics:
            return []
        if not graph.is_directed:
            return [("", Neighbours(graph.adjacency))]
        return [
            ("in_", Neighbours(graph.adjacency)),
            ("out_", Neighbours(sp.csr_array(graph.adjacency.T))),
        ]
