"""Problem: everything a part of the method may see. Labels of other nodes are not in it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from gbgnn.graph import Graph
from gbgnn.propagation import Propagation, Propagator

NORMS = {"l1": 1, "l2": 2}
"""By which feature rows may be brought to length one."""


@dataclass(frozen=True, eq=False)
class NodeInputs:
    """What a fitted model needs of a graph: the raw features of all nodes, and P."""

    features: torch.Tensor
    P: Propagator

    @classmethod
    def from_graph(
        cls,
        graph: Graph,
        propagation: Propagation,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        norm: str | None = None,
    ) -> NodeInputs:
        """Build the inputs on ``device``, where the features become dense.

        ``norm`` brings their rows to length one; a row of zeros stays as it is.
        """
        X = graph.features
        rows = X if isinstance(X, np.ndarray) else X.toarray()
        features = torch.tensor(rows, dtype=dtype, device=device)
        if norm is not None:
            lengths = torch.linalg.vector_norm(features, NORMS[norm], dim=1, keepdim=True)
            features.div_(torch.where(lengths > 0, lengths, 1.0))
        return cls(features, Propagator(propagation.build(graph.adjacency), device, dtype))

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return int(self.features.shape[0])


@dataclass(frozen=True, eq=False)
class LabelledNodes:
    """Node ids with their class indices and weights; the weights sum to one."""

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
        """Move ids, class indices and weights (uniform when None) to ``device``."""
        share = np.full(len(rows), 1 / len(rows)) if weights is None else weights / weights.sum()
        return cls(
            torch.as_tensor(np.array(rows, np.int64), device=device),
            torch.as_tensor(np.array(targets, np.int64), device=device),
            torch.as_tensor(np.array(share, np.float64), device=device),
        )


@dataclass(frozen=True, eq=False)
class Problem:
    """A node classification task as the parts of the method see it.

    Parameters
    ----------
    inputs
        Features of all nodes, and P.
    train
        The labelled nodes, with their weights in the training loss.
    validation
        Nodes for choosing the round and stopping early; nothing is trained on them.
    n_classes
        Number of classes, K.
    """

    inputs: NodeInputs
    train: LabelledNodes
    n_classes: int
    validation: LabelledNodes | None = None
