r"""Statistics of the neighbours' columns, hop by hop.

What a node hears of hop k are the ends of walks of k steps that start there, each as likely as a random walk
makes it: with :math:`P = D^{-1} A`, the mean of a column is :math:`P^k x`, a mean of means. A walk may come
back, so that from the second hop on a node of an undirected graph hears itself too. Where values are missing,
the mean is over the ends that have one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import repeat
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from gbgnn.propagation import Csr, Propagator, RandomWalk, powers
from gbgnn.propagation.neighbours import maxima

STATISTICS = ("mean", "std", "min", "max", "missing")
# A variance below this share of the mean square is a difference of equal numbers, up to rounding.
_ROUNDING = 1e-13

Floats = NDArray[np.floating[Any]]


class Neighbours:
    """The neighbours of all nodes in one direction, and statistics of their columns.

    ``adjacency[i, j]`` is how much node ``i`` hears from node ``j``; no weight is negative.

    Examples
    --------
    >>> path = Neighbours(sp.csr_array([[0.0, 1, 0], [1, 0, 1], [0, 1, 0]]))
    >>> first, second = path.statistics(np.array([[1.0], [2.0], [np.nan]]), 2, ("mean", "missing"))
    >>> first["mean"].ravel().tolist(), second["mean"].ravel().tolist()
    ([2.0, 1.0, 2.0], [1.0, 2.0, 1.0])
    >>> first["missing"].ravel().tolist()
    [0.0, 0.5, 0.0]
    """

    def __init__(self, adjacency: sp.csr_array) -> None:
        edges = Csr.from_scipy(adjacency)
        self._edges, self._walk = edges, Propagator(RandomWalk().build(edges), dtype=torch.float64)

    def statistics(self, X: Floats, hops: int, wanted: Iterable[str]) -> Iterator[dict[str, Floats]]:
        """Yield for each hop the statistics of all nodes, each an array like X; NaN in X is missing.

        A node that no walk of so many steps leads away from has NaN, and so has one that hears no value,
        except that all of what it hears is missing then. All hold at least what was wanted.
        """
        chosen = set(wanted)
        nothing: Iterator[dict[str, Floats]] = repeat({}, hops)
        averages = self._averages(X, hops, chosen) if chosen & {"mean", "std", "missing"} else nothing
        extremes = self._extremes(X, hops) if chosen & {"min", "max"} else nothing
        for one, other in zip(averages, extremes, strict=True):
            yield one | other

    def _averages(self, X: Floats, hops: int, chosen: set[str]) -> Iterator[dict[str, Floats]]:
        """Yield mean, standard deviation and share of missing, as far as chosen.

        Columns are centred before they are squared, as the difference of squares costs digits otherwise.
        """
        n_nodes, n_columns = X.shape
        n_squares = n_columns if "std" in chosen else 0
        gaps = np.flatnonzero(np.isnan(X.sum(axis=0, dtype=np.float64)))
        is_known = ~np.isnan(X[:, gaps])
        # Side by side: centred columns, their squares, who has a value where not all have one, and a one.
        Z = np.ones((n_nodes, n_columns + n_squares + len(gaps) + 1))
        shifted = Z[:, :n_columns]
        shifted[:] = X
        shifted[:, gaps] = np.where(is_known, X[:, gaps], 0.0)
        n_known = np.full(n_columns, n_nodes)
        n_known[gaps] = is_known.sum(axis=0)
        centre = shifted.sum(axis=0) / np.maximum(n_known, 1)
        shifted -= centre
        shifted[:, gaps] *= is_known
        np.square(shifted[:, :n_squares], out=Z[:, n_columns : n_columns + n_squares])
        Z[:, n_columns + n_squares : -1] = is_known
        ends = np.cumsum([n_columns, n_squares, len(gaps)])
        for mixed in powers(self._walk, torch.from_numpy(Z), range(1, hops + 1)):
            sums, squares, known, reached = np.split(mixed.numpy(), ends, axis=1)
            divide = partial(_divide, gaps=gaps, known=known, reached=reached)
            found: dict[str, Floats] = {}
            if "missing" in chosen:
                found["missing"] = divide(np.zeros_like(sums))
                found["missing"][:, gaps] = np.maximum(1 - _quotient(known, reached), 0)
            if chosen & {"mean", "std"}:
                mean = divide(sums)
                if n_squares:
                    square = divide(squares)
                    variance = square - mean**2
                    variance[variance < _ROUNDING * square] = 0
                    found["std"] = np.sqrt(variance)
                mean += centre
                found["mean"] = mean
            yield found

    def _extremes(self, X: Floats, hops: int) -> Iterator[dict[str, Floats]]:
        """Yield the smallest and the largest value, by products in which the maximum stands for the sum."""
        n_columns = X.shape[1]
        Z = torch.from_numpy(np.hstack([X, -X]))
        Z[Z.isnan()] = -torch.inf
        for _ in range(hops):
            Z = maxima(self._edges, Z)
            found = np.where(torch.isinf(Z), np.nan, Z)
            yield {"min": -found[:, n_columns:], "max": found[:, :n_columns]}


def _divide(sums: Floats, *, gaps: NDArray[np.int64], known: Floats, reached: Floats) -> NDArray[np.float64]:
    """Return sums as means: by the weight of the ends with a value in columns with gaps, else of all ends."""
    result = _quotient(sums, reached)
    result[:, gaps] = _quotient(sums[:, gaps], known)
    return result


def _quotient(sums: Floats, weights: Floats) -> NDArray[np.float64]:
    """Return the quotients, NaN where the weight is zero."""
    result = np.full(sums.shape, np.nan)
    np.divide(sums, weights, out=result, where=weights > 0)
    return result
