r"""The one number of split conformal prediction: a quantile of the scores of held-out nodes.

A score says how strange an answer would be of a node. If n calibration nodes and another one are
exchangeable, the rank of its score among the n + 1 is uniform, so that with probability c or more it is at
most the :math:`\lceil (n + 1) c \rceil`-th smallest of the n.
"""

from __future__ import annotations

import math
import warnings

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gbgnn._checks import check_number
from gbgnn.errors import GBGNNWarning

_DIGITS = 9
"""Confidences are meant as decimals: 100 times 0.07, which is a little more than 7, must not become 8."""


def conformal_quantile(scores: ArrayLike, confidence: float) -> float:
    """Return what the score of another node is not above, with so much confidence; infinity of too few.

    Examples
    --------
    >>> [conformal_quantile(np.arange(1, n + 1), 0.9) for n in (8, 9, 19, 99)]
    [inf, 9.0, 18.0, 90.0]
    """
    known = np.asarray(scores, np.float64)
    rank = _rank(len(known), confidence)
    return math.inf if rank > len(known) else float(np.partition(known, rank - 1)[rank - 1])


def n_needed(confidence: float) -> int:
    """Return how many calibration nodes it takes for a finite quantile.

    Examples
    --------
    >>> n_needed(0.9), n_needed(0.95), n_needed(0.99)
    (9, 19, 99)
    """
    return math.ceil(round(confidence / (1 - confidence), _DIGITS))


def check_confidence(owner: str, confidence: float, n_nodes: int | None = None) -> None:
    """Raise unless it is between 0 and 1, and warn where there are too few calibration nodes for it."""
    check_number(owner, "confidence", confidence, 0, 1, open_low=True, open_high=True)
    if n_nodes is not None and _rank(n_nodes, confidence) > n_nodes:
        warnings.warn(
            f"{n_nodes} calibration nodes are too few for a confidence of {confidence:g}, which takes "
            f"{n_needed(confidence)}: nothing is ruled out.",
            GBGNNWarning,
            stacklevel=3,
        )


def as_vector(values: ArrayLike) -> NDArray[np.float64]:
    """Return the finite numbers of a file, one per calibration node."""
    found = np.asarray(values, np.float64)
    if found.ndim != 1 or not len(found) or not np.isfinite(found).all():
        raise ValueError("there must be a finite number for every calibration node")
    return found


def _rank(n_nodes: int, confidence: float) -> int:
    return max(1, math.ceil(round((n_nodes + 1) * confidence, _DIGITS)))
