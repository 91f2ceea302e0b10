"""Diffusion along the graph: values of nodes, and means of them over neighbours."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from gbgnn.graph import Graph
from gbgnn.propagation import Propagator, RandomWalk

Values = NDArray[np.float64]


def average_neighbours(graph: Graph, values: Values) -> Values:
    """Return the weighted mean of every column over the neighbours of each node; 0 without neighbours.

    Examples
    --------
    >>> path = Graph([[0, 1, 0], [1, 0, 1], [0, 1, 0]], [[0.0], [0.0], [0.0]])
    >>> average_neighbours(path, np.array([[1.0], [2.0], [5.0]])).ravel().tolist()
    [2.0, 3.0, 2.0]
    """
    P = Propagator(RandomWalk().build(graph.adjacency), dtype=torch.float64)
    return np.asarray(P(torch.as_tensor(np.ascontiguousarray(values, np.float64))))


def diffuse(graph: Graph, values: Values, share: float) -> Values:
    r"""Return :math:`(1 - \lambda) S + \lambda P S`, P the mean over neighbours and ``share`` the lambda.

    A node without neighbours keeps its own values.

    Examples
    --------
    >>> pair = Graph([[0, 1], [1, 0]], [[0.0], [0.0]])
    >>> diffuse(pair, np.array([[0.0], [1.0]]), 0.25).ravel().tolist()
    [0.25, 0.75]
    """
    if share == 0:
        return values
    has_neighbours = np.asarray(graph.adjacency.sum(axis=1)).ravel() > 0
    around = np.where(has_neighbours[:, None], average_neighbours(graph, values), values)
    return (1 - share) * values + share * around
