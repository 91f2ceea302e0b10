"""Problem: everything a part of the method may see. Labels of other nodes are not in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from gbgnn._matrices import Features
from gbgnn._threads import threads_for
from gbgnn.errors import GraphError
from gbgnn.features import LabelledRows, Neighbourhood
from gbgnn.graph import Graph
from gbgnn.propagation import (
    DenseRows,
    GraphRows,
    KeptRows,
    Mixable,
    NeighbourEdges,
    Operator,
    Propagation,
    Propagator,
    Representation,
    as_rows,
)
from gbgnn.propagation.operator import Csr, as_tensor
from gbgnn.tables import RawColumns, TableEncoder
from gbgnn.tables.frames import list_names
from gbgnn.tasks import Task


@dataclass(frozen=True, eq=False)
class KnownLabels:
    """Labelled nodes of a graph, and numbers that say what each is, shape (nodes, n), zero on average."""

    rows: torch.Tensor
    codes: torch.Tensor


@dataclass(frozen=True, eq=False)
class NodeInputs:
    """What a fitted model needs of a graph: the features of all nodes, and P.

    ``raw_columns`` makes what trees see, where features are a table's: see :attr:`raw`. ``names`` are those
    of the features, None where they have none. ``column_groups`` are the numbers of columns up to the end of
    every group that a learner may do without, the first excepted. ``own_columns`` makes what nodes have of
    their own, where the features are more than that: see :attr:`own`. ``known`` are the labelled nodes that
    heads may hear of, None in a graph where none are known.
    """

    features: Representation
    P: Propagator
    raw_columns: Callable[[], RawColumns] | None = None
    names: tuple[str, ...] | None = None
    column_groups: tuple[int, ...] = ()
    own_columns: Callable[[], Representation] | None = None
    known: KnownLabels | None = None

    @classmethod
    def from_tensor(cls, features: torch.Tensor, P: Propagator) -> NodeInputs:
        """Build the inputs of dense features."""
        return cls(DenseRows(features), P)

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return self.features.shape[0]

    @property
    def device(self) -> torch.device:
        """Where everything is computed."""
        return self.features.device

    @property
    def dtype(self) -> torch.dtype:
        """The precision of representations and scores."""
        return self.features.dtype

    @cached_property
    def raw(self) -> RawColumns:
        """What trees see of all nodes: a table's numbers as they are, codes and gaps; or the features."""
        if self.raw_columns is not None:
            return self.raw_columns()
        return as_raw_columns(self.features.dense().cpu().numpy(), self.names)

    @cached_property
    def own(self) -> Representation:
        """What a node has of its own, without gaps: the features, less what a neighbourhood put beside."""
        return self.features if self.own_columns is None else self.own_columns()

    @cached_property
    def neighbours(self) -> NeighbourEdges:
        """The edges that P was made of, without self loops, in both directions."""
        return NeighbourEdges(self.P.operator.edges, self.dtype)

    def keep(self, ids: torch.Tensor) -> NodeInputs:
        """Return the inputs of a few nodes alone, numbered anew: for hops that are polynomials in P."""
        X = self.features if isinstance(self.features, Mixable) else GraphRows.of(self.features, self.P)
        return replace(self, features=KeptRows(X, ids))

    def zero_scores(self, n_outputs: int, *n_members: int) -> torch.Tensor:
        """Return the scores before round 1: of one model, or of several with an axis of members in front."""
        return torch.zeros(*n_members, self.n_nodes, n_outputs, dtype=self.dtype, device=self.device)


@dataclass(frozen=True, eq=False)
class InputRecipe:
    """How a graph becomes what the parts see; a fitted model applies the same to other graphs.

    A ``feature_norm`` of ``"l1"`` or ``"l2"`` brings feature rows to length one; None leaves them. The
    ``encoder`` makes features of a table, None where they are a matrix; ``column_names`` are those of the
    graph that was fitted, None where it had none. A ``neighbourhood`` puts other columns beside them, among
    them ``n_targets`` numbers for each walk that say what labelled nodes are; a learner that ``takes_gaps``
    sees gaps and categories. Whether anything ``hears_labels`` says whether the labelled nodes of the fit's
    graph must be known again to predict its nodes.
    """

    propagation: Propagation
    feature_norm: str | None = None
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    dtype: torch.dtype = torch.float32
    encoder: TableEncoder | None = None
    column_names: tuple[str, ...] | None = None
    neighbourhood: Neighbourhood | None = None
    n_targets: int = 0
    takes_gaps: bool = False
    hears_labels: bool = False

    def fitted_on(self, graph: Graph) -> InputRecipe:
        """Return the recipe with what is learned of a graph's columns, labels aside."""
        names = graph.column_names if graph.is_named else None
        return replace(self, encoder=graph.encoder, column_names=names)

    def check(self, graph: Graph, n_columns: int) -> None:
        """Raise unless a graph has the columns of the one that was fitted, in any order if by name."""
        if self.encoder is not None:
            if graph.table is None:
                known = list_names(self.encoder.feature_names_in_)
                raise GraphError(
                    f"the model was fitted on a table with columns {known}; "
                    "this graph has a matrix of features. Give Graph(adjacency, frame)."
                )
            return  # which columns are not there, the encoder says
        if graph.table is not None:
            raise GraphError(
                f"the model was fitted on a matrix of {n_columns} features; this graph has a table. Give it "
                "the matrix of numbers that the model knows."
            )
        if graph.n_features != n_columns:
            raise GraphError(
                f"graph has {graph.n_features} features per node, but the model was fitted with {n_columns}."
            )
        if graph.is_named and self.column_names is not None and graph.feature_names != self.column_names:
            pairs = zip(graph.feature_names, self.column_names, strict=True)
            place, (now, then) = next((i, pair) for i, pair in enumerate(pairs) if pair[0] != pair[1])
            raise GraphError(
                f"feature {place} of the graph is {now!r}, but the model was fitted with {then!r} there; "
                "give the columns of the matrix in the order of the fit."
            )

    def build(self, graph: Graph, known: LabelledRows | None = None) -> NodeInputs:
        """Return the inputs of a graph, of which labelled nodes may be known: P is built on the device."""
        encoder = graph.encoder if self.encoder is None else self.encoder
        X = graph.encode(encoder, keep=self.neighbourhood is None)
        raw: Callable[[], RawColumns] | None = None if encoder is None else partial(encoder.raw, graph.table)
        names: tuple[str, ...] | None = None
        if encoder is not None:
            names = tuple(encoder.get_feature_names_out())
        elif graph.is_named:
            names = graph.feature_names
        groups: tuple[int, ...] = ()
        own_rows: Callable[[], Representation] | None = None
        if self.neighbourhood is not None:
            encoded = as_raw_columns(X, names)
            own = raw() if raw is not None and self.takes_gaps else encoded
            wide, groups = self.neighbourhood.widen(graph, own, encoded, self.n_targets, known)
            if not self.takes_gaps:
                np.nan_to_num(wide.matrix, copy=False)
            X, raw, names = wide.matrix, lambda: wide, tuple(wide.names)
            own_rows = partial(as_rows, encoded.matrix, self.device, self.dtype)
        with threads_for(graph.adjacency.nnz + X.shape[0] * X.shape[1]):
            if self.neighbourhood is None:
                features = as_rows(X, self.device, self.dtype, self.feature_norm)
            else:  # of which nobody else has the memory
                features = DenseRows(as_tensor(X).to(self.device, self.dtype))
            P = self.build_propagator(graph)
        labels = None
        if known is not None and self.hears_labels:
            rows, codes = (torch.as_tensor(each, device=self.device) for each in known)
            labels = KnownLabels(rows, codes.to(self.dtype))
        return NodeInputs(features, P, raw, names, groups, own_rows, labels)

    def build_propagator(self, graph: Graph) -> Propagator:
        """Return what multiplies by P, built on the device."""
        adjacency = Csr.from_scipy(graph.adjacency, self.device)
        return Propagator(Operator.from_matrix(self.propagation.build(adjacency)), self.device, self.dtype)


def encode_labels(task: Task, rows: NDArray[np.int64], targets: NDArray[Any]) -> LabelledRows:
    """Return labelled nodes with numbers that say what each is, zero on average, one for two classes."""
    codes = task.codes(torch.as_tensor(targets), torch.float64).numpy()
    codes = codes[:, 1:] if task.has_classes and codes.shape[1] == 2 else codes
    return LabelledRows(rows, codes - codes.mean(axis=0) if len(codes) else codes)


def as_raw_columns(X: Features, names: Sequence[str] | None) -> RawColumns:
    """Return features as they are, without categories."""
    dense: Any = X
    dense = np.asarray(dense.toarray() if sp.issparse(dense) else dense)
    n_columns = dense.shape[1]
    known = [f"x{i}" for i in range(n_columns)] if names is None else list(names)
    return RawColumns(dense, np.zeros(n_columns, bool), known)


@dataclass(frozen=True, eq=False)
class LabelledNodes:
    """Node ids with their targets and weights; the weights sum to one."""

    rows: torch.Tensor
    targets: torch.Tensor
    weights: torch.Tensor

    @property
    def size(self) -> int:
        """Number of nodes."""
        return len(self.rows)

    def renumbered(self, first: int) -> LabelledNodes:
        """Return them with ids that count from ``first``."""
        return replace(self, rows=torch.arange(first, first + self.size, device=self.rows.device))

    @classmethod
    def build(
        cls,
        rows: np.ndarray,
        targets: np.ndarray,
        weights: np.ndarray | None = None,
        device: torch.device | str = "cpu",
    ) -> LabelledNodes:
        """Move ids, targets (of :meth:`Task.encode`) and weights (uniform when None) to ``device``."""
        share = np.full(len(rows), 1 / len(rows)) if weights is None else weights / weights.sum()
        return cls(
            torch.as_tensor(np.array(rows, np.int64), device=device),
            torch.as_tensor(np.array(targets), device=device),
            torch.as_tensor(np.array(share, np.float64), device=device),
        )


@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be learned, as the parts of the method see it.

    ``train`` are the labelled nodes, with their weights in the training loss; ``validation`` nodes are for
    choosing the round and stopping early: nothing is trained on them.
    """

    inputs: NodeInputs
    task: Task
    train: LabelledNodes
    validation: LabelledNodes | None = None

    @property
    def known_rows(self) -> torch.Tensor:
        """Ids of the labelled nodes, and of the validation nodes after them."""
        nodes = [self.train] if self.validation is None else [self.train, self.validation]
        return torch.cat([each.rows for each in nodes])

    def on_known_rows(self, inputs: NodeInputs) -> Problem:
        """Return the problem with inputs of a few nodes alone, of which :attr:`known_rows` are the first."""
        train, validation = self.train.renumbered(0), self.validation
        return replace(
            self,
            inputs=inputs,
            train=train,
            validation=None if validation is None else validation.renumbered(train.size),
        )
