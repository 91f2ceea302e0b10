"""Dataset: a graph with labels and a split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbgnn._checks import check_number
from gbgnn._html import show_facts
from gbgnn.datasets.catalog import Entry
from gbgnn.datasets.targets import REGRESSION, as_typed_target, is_labelled, no_label
from gbgnn.errors import DataError, ParameterError
from gbgnn.graph import Graph
from gbgnn.labels import PARTS, NodeSplit


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
        One label per node, integers or strings, or a number to be predicted. Nodes without hold -1 (``""``
        among strings, NaN among numbers to be predicted) and may not be in the split.
    split
        The training, validation and test nodes.
    class_names
        Names of the integer classes: ``class_names[k]`` is class ``k``.
    source, licence
        Where the data comes from and on which terms.
    split_name
        How the split was made, for reports: ``"public"``, ``"stratified, seed 0"``.
    task
        ``"classification"`` or ``"regression"``; None takes integers for classes and finds out about other
        numbers, see :func:`~gbgnn.datasets.as_target`.
    task_reason
        Why it is that task, for reports.
    own_splits
        All splits that came with the data, of which ``split`` may be one.
    notes
        What a reader decided or passed over, as sentences.
    arrivals
        For inductive data, with which part each node arrives: 0 with the training nodes, 1 with validation, 2
        with test. Training then sees the nodes that are there and the edges among them, see :meth:`snapshot`.
    calibration
        Ids of nodes that were validation nodes and were set aside, for what is calibrated on nodes that have
        chosen nothing; see :meth:`set_aside`.

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
    task: str | None = None
    task_reason: str = ""
    own_splits: Sequence[NodeSplit] = ()
    notes: Sequence[str] = ()
    arrivals: NDArray[Any] | None = None
    calibration: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    def __post_init__(self) -> None:
        target = as_typed_target(self.y, f"{self.name}: y", self.task)
        y = target.values.copy()
        y.flags.writeable = False
        object.__setattr__(self, "y", y)
        object.__setattr__(self, "task", target.task)
        object.__setattr__(self, "task_reason", self.task_reason or target.reason)
        object.__setattr__(self, "own_splits", tuple(self.own_splits))
        object.__setattr__(self, "notes", tuple(self.notes))
        if self.class_names is not None:
            object.__setattr__(self, "class_names", tuple(map(str, self.class_names)))
        if len(y) != self.graph.n_nodes:
            raise DataError(
                f"{self.name}: y has {len(y)} labels but the graph has {self.graph.n_nodes} nodes; "
                "give one label per node."
            )
        self.split.check(self.graph.n_nodes)
        if self.arrivals is not None:
            self._check_arrivals(self.arrivals)
        for part in PARTS:
            nodes = getattr(self, part)
            bare = nodes[~is_labelled(y[nodes])]
            if len(bare):
                raise DataError(
                    f"{self.name}: {part} holds {len(bare)} nodes without a label (first: node "
                    f"{bare[0]}); leave them out of the split."
                )
        if self.class_names is not None and y.dtype.kind == "i" and y.max() >= len(self.class_names):
            raise DataError(
                f"{self.name}: class_names has {len(self.class_names)} names but y holds class {y.max()}; "
                "give one name per class."
            )

    def _check_arrivals(self, arrivals: NDArray[Any]) -> None:
        if arrivals.shape != self.y.shape:
            raise DataError(f"{self.name}: arrivals must have one entry per node, shape {self.y.shape}.")
        for number, part in enumerate(PARTS):
            late = getattr(self, part)[arrivals[getattr(self, part)] > number]
            if len(late):
                raise DataError(f"{self.name}: {part} holds node {late[0]}, which arrives later.")

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
        """The distinct labels, sorted, without the mark for unlabelled nodes; none for a regression."""
        return self.y[:0] if self.is_regression else np.unique(self.y[is_labelled(self.y)])

    @property
    def n_classes(self) -> int:
        """Number of distinct labels."""
        return len(self.classes)

    @property
    def n_splits(self) -> int:
        """How many splits came with the data; 0 where none did."""
        return len(self.own_splits) or int(self.split_name == "public")

    @property
    def is_regression(self) -> bool:
        """Whether y holds numbers to be predicted, not classes."""
        return self.task == REGRESSION

    @property
    def is_inductive(self) -> bool:
        """Whether training may not see the nodes that validate and test."""
        return self.arrivals is not None

    def snapshot(self, part: str) -> Dataset:
        """Return what is there when the nodes of a part are predicted: what arrived with it or before.

        ``snapshot("train")`` is the graph that training may see, ``snapshot("val")`` also has the validation
        nodes. Data that is not inductive is all there at any time.
        """
        if part not in PARTS:
            raise ParameterError(f"a snapshot is that of {', '.join(PARTS)}; got {part!r}.")
        if self.arrivals is None:
            return self
        known = PARTS[: PARTS.index(part) + 1]
        nodes = np.flatnonzero(self.arrivals < len(known))
        graph = self.graph
        edges, features = graph.adjacency[nodes][:, nodes], graph.features[nodes]
        ids = graph.node_ids[nodes]
        split = NodeSplit(**{each: np.searchsorted(nodes, getattr(self, each)) for each in known})
        return replace(
            self,
            graph=Graph(edges, features, node_ids=ids, repairs=graph.repairs),
            y=self.y[nodes],
            split=split,
            own_splits=(),
            arrivals=self.arrivals[nodes],
            calibration=np.searchsorted(
                nodes, self.calibration[self.arrivals[self.calibration] < len(known)]
            ),
        )

    def with_split(self, split: NodeSplit, split_name: str = "") -> Dataset:
        """Return the same data with another split."""
        return replace(self, split=split, split_name=split_name)

    def set_aside(self, fraction: float, seed: int = 0) -> Dataset:
        """Return the same data with a share of the validation nodes as ``calibration`` nodes.

        They are drawn at random from all validation nodes, so that these and the rest are alike.

        Examples
        --------
        >>> from gbgnn.datasets import csbm
        >>> data = csbm(n_nodes=200, seed=0).set_aside(0.25)
        >>> len(data.val), len(data.calibration)
        (30, 10)
        """
        check_number("Dataset", "calibration fraction", fraction, 0, 1, open_low=True, open_high=True)
        n_aside = round(fraction * len(self.val))
        if not 0 < n_aside < len(self.val):
            raise DataError(
                f"{self.name}: {len(self.val)} validation nodes cannot be split with {fraction:g} of them "
                "for calibration; each part needs one at least."
            )
        drawn = np.random.default_rng(seed).permutation(self.val)
        split = replace(self.split, val=np.sort(drawn[n_aside:]))
        return replace(self, split=split, calibration=np.sort(drawn[:n_aside]))

    def without_test_labels(self) -> Dataset:
        """Return the same data with no label but those of the training and validation nodes.

        What is chosen with it cannot have been chosen by looking at the test nodes, which are in no part of
        its split.
        """
        y = np.full_like(self.y, no_label(self.y))
        seen = np.concatenate([self.train, self.val])
        y[seen] = self.y[seen]
        return replace(self, y=y, split=NodeSplit(self.train, self.val), own_splits=())

    def _repr_html_(self) -> str:
        facts = {
            "task": self.task,
            "classes": None if self.is_regression else self.n_classes,
            "split": self.split_name or None,
            **{f"{part} nodes": len(getattr(self, part)) for part in PARTS},
            "source": self.source or None,
            "licence": self.licence or None,
        }
        return show_facts(f"Dataset {self.name}", facts) + self.graph._repr_html_()

    def __repr__(self) -> str:
        graph = self.graph
        target = "task='regression'" if self.is_regression else f"n_classes={self.n_classes}"
        return (
            f"Dataset({self.name!r}, n_nodes={graph.n_nodes}, n_edges={graph.n_edges}, "
            f"n_features={graph.n_features}, {target}, train={len(self.train)}, "
            f"val={len(self.val)}, test={len(self.test)})"
        )
