r"""Temperatures: how sure a model may be of every node, learned on held-out nodes.

Scores are divided by a temperature before probabilities are made of them: above one a model is less sure,
below one surer. The class that is predicted stays the same. There is one temperature for all nodes, or, along
the graph, one for each: :math:`\log T_i = a + \sum_j w_j x_{ij}`, where x says how a node stands among its
neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from gbgnn.blend import SMALLEST
from gbgnn.diffusion import average_neighbours
from gbgnn.graph import Graph

Array = NDArray[np.float64]

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "temperature": (),
    "graph": ("agreement", "confidence beside neighbours", "degree"),
}
"""What the temperature of a node depends on, by method."""

LIMIT = 20.0
"""No temperature is larger, and none smaller than the inverse: nodes that are all right would ask for 0."""


@dataclass(frozen=True, eq=False)
class Temperatures:
    """How sure a model may be of every node: what was learned on the held-out nodes.

    ``weights`` are those of the columns of a method, which are brought to mean 0 and variance 1 by ``centre``
    and ``scale``; without columns all nodes have one temperature, exp(``intercept``).
    """

    intercept: float
    weights: Array
    centre: Array
    scale: Array

    @classmethod
    def fit(cls, proba: Array, columns: Array, nodes: NDArray[np.int64], targets: NDArray[np.int64]) -> Self:
        """Minimise the log loss of some nodes, whose classes are ``targets``.

        ``proba`` and ``columns`` are those of all nodes. A normal prior draws every weight towards 0, that is
        towards one temperature for all, the more the fewer nodes there are.
        """
        centre, scale = columns.mean(axis=0), columns.std(axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        logs, x = np.log(np.maximum(proba[nodes], SMALLEST)), (columns[nodes] - centre) / scale

        def objective(params: Array) -> tuple[float, Array]:
            scores = logs / np.exp(params[0] + x @ params[1:])[:, None]
            own = scores[np.arange(len(targets)), targets]
            loss = np.sum(logsumexp(scores, axis=1) - own) + np.sum(params[1:] ** 2) / 2
            slope = own - np.sum(softmax(scores, axis=1) * scores, axis=1)
            gradient = np.concatenate([[slope.sum()], x.T @ slope + params[1:]])
            return float(loss) / len(own), gradient / len(own)  # the mean, so that no step is too long

        bounds = [(-np.log(LIMIT), np.log(LIMIT))] + [(None, None)] * columns.shape[1]
        start, exact = np.zeros(1 + x.shape[1]), {"gtol": 1e-8, "ftol": 1e-14}
        found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=exact)
        return cls(float(found.x[0]), found.x[1:], centre, scale)

    def record(self) -> dict[str, Any]:
        """Return what was learned, for a file."""
        return {name: np.asarray(value).tolist() for name, value in vars(self).items()}

    @classmethod
    def from_record(cls, method: str, record: Mapping[str, Any]) -> Self:
        """Build the temperatures of a method again; raise where the record is not that of one."""
        arrays = [np.asarray(record[name], np.float64) for name in ("weights", "centre", "scale")]
        if any(each.shape != (len(COLUMNS[method]),) or not np.isfinite(each).all() for each in arrays):
            raise ValueError(f"the temperatures of {method!r} have other columns")
        if not np.isfinite(float(record["intercept"])):
            raise ValueError("the intercept of the temperatures is no finite number")
        return cls(float(record["intercept"]), *arrays)

    def __call__(self, columns: Array) -> Array:
        """Return the temperature of every node."""
        wanted = self.intercept + (columns - self.centre) / self.scale @ self.weights
        return np.asarray(np.clip(np.exp(wanted), 1 / LIMIT, LIMIT))


def describe_nodes(method: str, proba: Array, graph: Graph | None) -> Array:
    """Return what the temperatures of a method depend on, a row for every node; no label is looked at.

    Along the graph: the probability that neighbours give on average to the class which is predicted of a
    node; how much surer it is than they are; the logarithm of its degree.
    """
    if not COLUMNS[method]:
        return np.zeros((len(proba), 0))
    assert graph is not None
    confidence, degree = proba.max(axis=1), np.asarray(graph.adjacency.sum(axis=1)).ravel()
    around = average_neighbours(graph, np.column_stack([proba, confidence]))
    agreement = around[np.arange(len(proba)), proba.argmax(axis=1)]
    return np.column_stack([agreement, confidence - around[:, -1], np.log1p(degree)])
