"""How good sets and intervals are: how often they hold the truth, how small they are, and for which nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from gbgnn.errors import GraphError
from gbgnn.graph import Graph
from gbgnn.labels import check_length

Mask = NDArray[np.bool_]
Q = TypeVar("Q")


@dataclass(frozen=True)
class SetQuality:
    """What sets of classes are worth on nodes whose class is known.

    Parameters
    ----------
    confidence
        What was promised.
    n_nodes
        On how many nodes it was measured.
    coverage
        The share of nodes whose class is in their set.
    mean_size
        How many classes a set has on average.
    singleton_share
        The share of sets with one class only.
    singleton_accuracy
        How many of these are right; None where there are none.
    sizes
        How many sets there are of size 0, 1, ..., K.
    """

    confidence: float
    n_nodes: int
    coverage: float
    mean_size: float
    singleton_share: float
    singleton_accuracy: float | None
    sizes: tuple[int, ...]

    @classmethod
    def measure(cls, sets: Mask, targets: NDArray[np.int64], confidence: float) -> Self:
        """Return the quality of some sets, a row for every node, with the columns of their classes.

        Examples
        --------
        >>> sets = np.array([[True, False], [True, True], [True, False], [True, True]])
        >>> found = SetQuality.measure(sets, np.array([0, 1, 1, 0]), 0.8)
        >>> found.coverage, found.mean_size, found.singleton_share, found.singleton_accuracy, found.sizes
        (0.75, 1.5, 0.5, 0.5, (0, 2, 2))
        """
        check_judged(targets, len(sets))
        is_covered, sizes = sets[np.arange(len(sets)), targets], sets.sum(axis=1)
        is_single = sizes == 1
        return cls(
            confidence=confidence,
            n_nodes=len(sets),
            coverage=float(is_covered.mean()),
            mean_size=float(sizes.mean()),
            singleton_share=float(is_single.mean()),
            singleton_accuracy=float(is_covered[is_single].mean()) if is_single.any() else None,
            sizes=tuple(np.bincount(sizes, minlength=sets.shape[1] + 1).tolist()),
        )


@dataclass(frozen=True)
class IntervalQuality:
    """What intervals are worth on nodes whose number is known; widths are infinite where an interval is."""

    confidence: float
    n_nodes: int
    coverage: float
    mean_width: float
    median_width: float

    @classmethod
    def measure(cls, intervals: NDArray[np.float64], truth: NDArray[np.float64], confidence: float) -> Self:
        """Return the quality of some intervals, a row (lower, upper) for every node."""
        check_judged(truth, len(intervals))
        lower, upper = intervals.T
        return cls(
            confidence=confidence,
            n_nodes=len(truth),
            coverage=float(np.mean((lower <= truth) & (truth <= upper))),
            mean_width=float(np.mean(upper - lower)),
            median_width=float(np.median(upper - lower)),
        )


def check_judged(truth: NDArray[Any], n_nodes: int) -> None:
    """Raise unless there is a truth for each of some nodes."""
    check_length(truth, n_nodes, "y")
    if not n_nodes or np.ndim(truth) != 1:
        raise GraphError(
            f"quality is measured on nodes with one truth each; got {n_nodes} nodes and y of shape "
            f"{np.shape(truth)}."
        )


def measure_by_degree(
    graph: Graph, nodes: NDArray[np.int64], measure: Callable[[Mask], Q]
) -> list[dict[str, Any]]:
    """Return what ``measure`` says of the nodes of each group of degrees: ``from``, ``to``, ``quality``.

    Groups are of 0, 1, 2, 3 to 4, 5 to 8, ... neighbours; those without nodes are left out.
    """
    degrees = np.diff(graph.adjacency.indptr)[nodes]
    groups = np.where(degrees < 2, degrees, np.ceil(np.log2(np.maximum(degrees, 1))) + 1).astype(int)
    found = []
    for group in np.unique(groups).tolist():
        is_in = groups == group
        low, high = (group, group) if group < 2 else (2 ** (group - 2) + 1, 2 ** (group - 1))
        found.append({"from": low, "to": high, "quality": measure(is_in)})
    return found
