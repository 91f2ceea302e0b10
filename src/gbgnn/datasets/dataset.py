"""Dataset: a graph with labels and a split, checked once when built."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbgnn.datasets.arrays import as_labels, is_labelled
from gbgnn.datasets.catalog import Entry
from gbgnn.errors import DataError
from gbgnn.graph import Graph, NodeSplit


@dataclass(frozen=True, eq=False)
class Dataset:
    """A graph, one label per node, and the training, validation and test nodes.

    Parameters
    ----------
    name
        What to call it in reports.
    graph
        The nodes, edges and features.
    y
        One label per node, integers or strings. Nodes without a label hold -1 (or ``""``) and may not
        be in the split.
    split
        The training, validation and test nodes.
    class_names
        Names of the integer classes: ``class_names[k]`` is class ``k``.
    source, licence
        Where the data comes from and on which terms.
    split_name
        How the split was made, for reports: ``"public"``, ``"stratified, seed 0"``.

    Examples
    --------
    >>> graph = Graph([[0, 1, 0], [1, 0, 1], [0, 1, 0]], [[1.0], [2.0], [3.0]])
    >>> Dataset("path", graph, np.array([0, 1, 1]), NodeSplit([0, 1], test=[2]))
    Dataset('path', n_nodes=3, n_edges=2, n_features=1, n_classes=2, train=2, val=0, test=1)
    """

    name: str
    graph: Graph
    y: NDArray[Any]
    split: NodeSplit
    class_names: Sequence[str] | None = None
    source: str = ""
    licence: str = ""
    split_name: str = ""

    def __post_init__(self) -> None:
        y = as_labels(self.y, f"{self.name}: y").copy()
        y.flags.writeable = False
        object.__setattr__(self, "y", y)
        if self.class_names is not None:
            object.__setattr__(self, "class_names", tuple(map(str, self.class_names)))
        self._check()

    @classmethod
    def from_entry(
        cls, entry: Entry, graph: Graph, y: NDArray[Any], split: NodeSplit, split_name: str = "public"
    ) -> Dataset:
        """Return a data set of the catalogue, which knows its name, classes, source and licence."""
        return cls(entry.name, graph, y, split, entry.class_names, entry.source, entry.licence, split_name)

    @property
    def train(self) -> NDArray[np.int64]:
        """Ids of the training nodes."""
        return self.split.train

    @property
    def val(self) -> NDArray[np.int64]:
        """Ids of the validation nodes."""
        return self.split.val

    @property
    def test(self) -> NDArray[np.int64]:
        """Ids of the test nodes."""
        return self.split.test

    @property
    def classes(self) -> NDArray[Any]:
        """The distinct labels, sorted, without the mark for unlabelled nodes."""
        return np.unique(self.y[is_labelled(self.y)])

    @property
    def n_classes(self) -> int:
        """Number of distinct labels."""
        return len(self.classes)

    def with_split(self, split: NodeSplit, split_name: str = "") -> Dataset:
        """Return the same data with another split."""
        return replace(self, split=split, split_name=split_name)

    def without_test_labels(self) -> Dataset:
        """Return the same data with no label but those of the training and validation nodes.

        What is chosen with it cannot have been chosen by looking at the test nodes, which are in no part of
        its split.
        """
        y = np.full_like(self.y, "" if self.y.dtype.kind == "U" else -1)
        seen = np.concatenate([self.train, self.val])
        y[seen] = self.y[seen]
        return replace(self, y=y, split=NodeSplit(self.train, self.val))

    def __repr__(self) -> str:
        graph = self.graph
        return (
            f"Dataset({self.name!r}, n_nodes={graph.n_nodes}, n_edges={graph.n_edges}, "
            f"n_features={graph.n_features}, n_classes={self.n_classes}, train={len(self.train)}, "
            f"val={len(self.val)}, test={len(self.test)})"
        )

    def _check(self) -> None:
        n_nodes = self.graph.n_nodes
        if len(self.y) != n_nodes:
            raise DataError(
                f"{self.name}: y has {len(self.y)} labels but the graph has {n_nodes} nodes; "
                "give one label per node."
            )
        self.split.check(n_nodes)
        labelled = is_labelled(self.y)
        for part in ("train", "val", "test"):
            bare = getattr(self, part)[~labelled[getattr(self, part)]]
            if len(bare):
                raise DataError(
                    f"{self.name}: {part} holds {len(bare)} nodes without a label (first: node "
                    f"{bare[0]}); leave them out of the split."
                )
        if self.class_names is not None and self.y.dtype.kind == "i":
            highest = int(self.y.max(initial=-1))
            if highest >= len(self.class_names):
                raise DataError(
                    f"{self.name}: class_names has {len(self.class_names)} names but y holds class "
                    f"{highest}; give one name per class."
                )
