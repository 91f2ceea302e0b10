"""Neighbourhood: the columns of a node beside those of its neighbours and of labelled nodes nearby."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from gbgnn._checks import check_integer
from gbgnn.errors import ParameterError
from gbgnn.features.neighbour_targets import MOST_HOPS, NeighbourTargets
from gbgnn.features.neighbours import STATISTICS, Neighbours
from gbgnn.graph import Graph
from gbgnn.tables import RawColumns


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

    All are there from the first round on. Columns come in three groups, each of which a learner may do
    without: a node's own; statistics of its neighbours' columns, hop by hop, in both directions where edges
    have one; :class:`NeighbourTargets`, in which no node hears its own label. On another graph no labels are
    known, and the last group is empty.

    Parameters
    ----------
    hops
        How many hops of neighbours are looked at, 0 for none.
    statistics
        Any of ``"mean"``, ``"std"``, ``"min"``, ``"max"``, ``"missing"``; see :class:`~gbgnn.GraphFeatures`.
    targets
        Steps of the longest walk to labelled nodes, 0 to 3; 0 does without labels.

    Examples
    --------
    >>> graph = Graph([[0, 1, 0], [1, 0, 1], [0, 1, 0]], [[1.0], [2.0], [4.0]])
    >>> own = RawColumns(graph.features, np.array([False]), ["x"])
    >>> known = LabelledRows(np.array([0]), np.array([[5.0]]))
    >>> wide = Neighbourhood(hops=1, targets=1).widen(graph, own, own, 1, known)
    >>> wide.raw.names, wide.ends
    (['x', 'x_mean_1', 'target_labelled_1', 'labelled_share_1'], (1, 2, 4))
    >>> wide.raw.matrix[1].tolist()
    [2.0, 2.5, 5.0, 0.5]
    """

    hops: int = 2
    statistics: Sequence[str] = ("mean",)
    targets: int = 3

    def check(self) -> None:
        """Raise when a setting is out of range."""
        check_integer("Neighbourhood", "hops", self.hops, 0)
        check_integer("Neighbourhood", "targets", self.targets, 0, MOST_HOPS)
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
        groups, names, ends = [own.matrix], list(own.names), [len(own.names)]
        for prefix, neighbours in self._directions(graph):
            found_at = neighbours.statistics(encoded.matrix, self.hops, self.statistics)
            for hop, found in enumerate(found_at, start=1):
                for name in self.statistics:
                    groups.append(found[name])
                    names += [f"{prefix}{column}_{name}_{hop}" for column in encoded.names]
        ends.append(len(names))
        if self.targets:
            walks = NeighbourTargets(hops=self.targets)
            names += walks.names(["target"] if n_targets == 1 else [f"target{i}" for i in range(n_targets)])
            if known is None:
                groups.append(np.full((graph.n_nodes, len(names) - ends[-1]), np.nan))
            else:
                groups.append(walks.columns(graph.adjacency, *known))
            ends.append(len(names))
        matrix = np.hstack([np.asarray(group, dtype=own.matrix.dtype) for group in groups])
        is_category = np.zeros(len(names), dtype=bool)
        is_category[: ends[0]] = own.categorical
        return WideColumns(RawColumns(matrix, is_category, names), tuple(dict.fromkeys(ends)))

    def _directions(self, graph: Graph) -> list[tuple[str, Neighbours]]:
        if not self.hops or not self.statistics:
            return []
        if not graph.is_directed:
            return [("", Neighbours(graph.adjacency))]
        return [
            ("in_", Neighbours(graph.adjacency)),
            ("out_", Neighbours(sp.csr_array(graph.adjacency.T))),
        ]
