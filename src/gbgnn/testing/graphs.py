"""Small graphs with names."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gbgnn.graph import Graph
from gbgnn.problem import LabelledNodes, NodeInputs, Problem
from gbgnn.propagation import AugmentedAdjacency


def path4() -> Graph:
    """Return the path 0 - 1 - 2 - 3 with features 1, 2, 4, 8: small enough to work by hand."""
    adjacency = np.diag(np.ones(3), 1) + np.diag(np.ones(3), -1)
    return Graph(adjacency, [[1.0], [2.0], [4.0], [8.0]])


def two_blocks(
    n_nodes: int = 40, n_classes: int = 2, seed: int = 0, n_features: int = 5
) -> tuple[Graph, NDArray[np.int64]]:
    """Return a noisy block graph with class-dependent features, and the classes.

    Examples
    --------
    >>> graph, y = two_blocks(12, n_classes=3)
    >>> graph.n_nodes, y.tolist()[:4]
    (12, [0, 1, 2, 0])
    """
    random = np.random.default_rng(seed)
    # Drawn first, so that graphs of several sizes share their class centres.
    centres = random.normal(size=(n_classes, n_features))
    y = np.arange(n_nodes) % n_classes
    chance = np.where(y[:, None] == y, 0.4, 0.05)
    upper = np.triu(random.random((n_nodes, n_nodes)) < chance, 1)
    features = centres[y] + random.normal(size=(n_nodes, n_features))
    return Graph((upper | upper.T).astype(float), features), y


def problem_of(
    graph: Graph,
    y: NDArray[Any],
    train: NDArray[np.int64],
    val: NDArray[np.int64] | None = None,
    dtype: torch.dtype = torch.float64,
) -> Problem:
    """Return the problem of telling apart the classes ``y`` (0 to K-1) from those of the nodes ``train``."""
    return Problem(
        inputs=NodeInputs.from_graph(graph, AugmentedAdjacency(), dtype=dtype),
        train=LabelledNodes.build(train, y[train]),
        n_classes=int(y.max()) + 1,
        validation=None if val is None else LabelledNodes.build(val, y[val]),
    )
