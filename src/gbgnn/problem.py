"""Problem: everything a part of the method may see. Labels of other nodes are not in it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from gbgnn._threads import threads_for
from gbgnn.graph import Graph
from gbgnn.propagation import DenseRows, Operator, Propagation, Propagator, Representation, as_rows
from gbgnn.propagation.operator import Csr
from gbgnn.tasks import Task


@dataclass(frozen=True, eq=False)
class NodeInputs:
    """What a fitted model needs of a graph: the raw features of all nodes, and P."""

    features: Representation
    P: Propagator

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

    def zero_scores(self, n_outputs: int, *n_members: int) -> torch.Tensor:
        """Return the scores before round 1: of one model, or of several with an axis of members in front."""
        return torch.zeros(*n_members, self.n_nodes, n_outputs, dtype=self.dtype, device=self.device)


@dataclass(frozen=True, eq=False)
class InputRecipe:
    """How a graph becomes what the parts see; a fitted model applies the same to other graphs.

    A ``feature_norm`` of ``"l1"`` or ``"l2"`` brings feature rows to length one; None leaves them.
    """

    propagation: Propagation
    feature_norm: str | None = None
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    dtype: torch.dtype = torch.float32

    def build(self, graph: Graph) -> NodeInputs:
        """Return the inputs of a graph: P is built on the device."""
        with threads_for(graph.adjacency.nnz + graph.n_nodes * graph.n_features):
            features = as_rows(graph.features, self.device, self.dtype, self.feature_norm)
            adjacency = Csr.from_scipy(graph.adjacency, self.device)
            P = Propagator(Operator.from_matrix(self.propagation.build(adjacency)), self.device, self.dtype)
        return NodeInputs(features, P)


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
