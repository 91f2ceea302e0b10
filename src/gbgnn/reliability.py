"""Reliability: whether of the nodes that a classifier is 80 % sure of, 80 % are right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gbgnn._checks import check_choice, check_integer
from gbgnn.errors import GraphError
from gbgnn.graph import Graph

STRATEGIES = ("uniform", "quantile")


@dataclass(frozen=True, eq=False)
class Reliability:
    """How often a classifier is right, in bins of how sure it is of the class that it predicts.

    Parameters
    ----------
    lower, upper
        Where every bin begins and ends; a confidence on an edge is in the bin below.
    counts
        How many nodes are in it.
    confidence, accuracy
        Their mean confidence, and the share of them that are right; NaN in an empty bin.

    Examples
    --------
    >>> found = Reliability.measure([0.9, 0.9, 0.6, 0.6], [True, True, True, False], n_bins=2)
    >>> found.accuracy.tolist(), found.confidence.tolist(), round(found.ece, 3)
    ([nan, 0.75], [nan, 0.75], 0.0)
    >>> round(Reliability.measure([0.9, 0.9, 0.6, 0.6], [True, True, True, False], n_bins=10).ece, 3)
    0.1
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    counts: NDArray[np.int64]
    confidence: NDArray[np.float64]
    accuracy: NDArray[np.float64]

    @classmethod
    def measure(
        cls, confidence: ArrayLike, is_right: ArrayLike, *, n_bins: int = 15, strategy: str = "uniform"
    ) -> Self:
        """Sort nodes into bins.

        Parameters
        ----------
        confidence
            The probability of the predicted class, one per node.
        is_right
            Whether that is the class of the node.
        n_bins
            How many bins there are; of equal confidences ``"quantile"`` makes fewer.
        strategy
            ``"uniform"``: bins of one width, as is usual for the ECE. ``"quantile"``: of as many nodes.
        """
        check_integer("Reliability", "n_bins", n_bins, 1)
        check_choice("Reliability", "strategy", strategy, STRATEGIES)
        sure, right = np.asarray(confidence, np.float64), np.asarray(is_right, bool)
        if sure.ndim != 1 or sure.shape != right.shape or not len(sure):
            raise GraphError(
                "reliability needs a confidence and an answer for each of some nodes; got shapes "
                f"{sure.shape} and {right.shape}."
            )
        edges = np.linspace(0, 1, n_bins + 1)
        if strategy == "quantile":
            edges = np.unique(np.quantile(sure, edges[1:-1]))
            edges = np.concatenate([[0.0], edges[(edges > 0) & (edges < 1)], [1.0]])
        places = np.searchsorted(edges[1:-1], sure, side="left")
        sizes = np.bincount(places, minlength=len(edges) - 1)
        with np.errstate(invalid="ignore"):
            means = [np.bincount(places, each, len(sizes)) / sizes for each in (sure, right)]
        return cls(edges[:-1], edges[1:], sizes, *means)

    @classmethod
    def of(
        cls,
        model: Any,
        nodes: ArrayLike,
        y: ArrayLike,
        *,
        graph: Graph | None = None,
        n_bins: int = 15,
        strategy: str = "uniform",
    ) -> Self:
        """Measure a classifier, any with ``predict_proba`` and ``classes_``, on nodes whose class is known.

        A class that training never saw counts as wrong.
        """
        given = {} if graph is None else {"graph": graph}
        proba = np.asarray(model.predict_proba(nodes, **given))
        is_right = np.asarray(model.classes_)[proba.argmax(axis=1)] == np.asarray(y)
        return cls.measure(proba.max(axis=1), is_right, n_bins=n_bins, strategy=strategy)

    @property
    def n_nodes(self) -> int:
        """How many nodes were looked at."""
        return int(self.counts.sum())

    @property
    def ece(self) -> float:
        """The expected calibration error: the mean gap between confidence and accuracy over all nodes."""
        return float(np.nansum(self.counts * self._gaps) / self.n_nodes)

    @property
    def mce(self) -> float:
        """The largest gap of a bin, however few nodes are in it."""
        return float(np.nanmax(self._gaps))

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for every bin, for JSON; what an empty bin does not have is None."""
        names = ("lower", "upper", "counts", "confidence", "accuracy")
        columns = [getattr(self, name).tolist() for name in names]
        return [
            {name: None if value != value else value for name, value in zip(names, bin_, strict=True)}
            for bin_ in zip(*columns, strict=True)
        ]

    @property
    def _gaps(self) -> NDArray[np.float64]:
        return np.abs(self.confidence - self.accuracy)
