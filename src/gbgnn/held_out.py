"""Held-out nodes: labels that a model has not trained on, checked before anything is promised."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gbgnn.errors import GBGNNWarning, GraphError
from gbgnn.graph import Graph
from gbgnn.labels import as_nodes, check_disjoint, check_length, check_range
from gbgnn.predictor import Predictor


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Nodes and their encoded targets; ``chosen_by`` of them are validation nodes, which chose the round."""

    nodes: NDArray[np.int64]
    targets: NDArray[Any]
    chosen_by: int = 0

    @classmethod
    def check(
        cls, model: Predictor, nodes: ArrayLike, y: ArrayLike, graph: Graph | None, *, name: str = "nodes"
    ) -> HeldOut:
        """Return them, or raise where the model was trained on them."""
        if graph is not None:
            model.known_graph(graph)  # which checks it
        rows = as_nodes(nodes, name)
        if not len(rows):
            raise GraphError(f"{name} is empty; held-out nodes with their labels are needed.")
        check_range(rows, model.n_nodes if graph is None else graph.n_nodes, name)
        check_length(y, len(rows), "y")
        is_own = graph is None or graph.checksum == model.graph_checksum
        chosen_by = 0
        if is_own:
            check_disjoint("the training nodes of the model", model.train_nodes, name, rows)
            known = model.validation_nodes
            chosen_by = 0 if known is None else len(np.intersect1d(known, rows))
        return cls(rows, model.task.encode(y, "y"), chosen_by)

    def caveat(self, promise: str) -> str | None:
        """Return, and give as a warning, that a promise holds roughly only, where these nodes chose."""
        if not self.chosen_by:
            return None
        told = (
            f"{self.chosen_by} of the {len(self.nodes)} calibration nodes are validation nodes, by which the "
            f"model was chosen, so that {promise} is not guaranteed exactly. Keep some of the validation "
            "nodes away from fit and calibrate on these."
        )
        warnings.warn(told, GBGNNWarning, stacklevel=3)
        return told
