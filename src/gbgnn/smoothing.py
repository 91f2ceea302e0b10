"""smoothing_profile with P by name, as everywhere else."""

from __future__ import annotations

from typing import Any

from gbgnn.graph import Graph
from gbgnn.registry import as_part
from gbgnn.theory import smoothing
from gbgnn.theory.smoothing import SmoothingProfile


def smoothing_profile(
    graph: Graph,
    features: Any = None,
    rounds: int = 32,
    *,
    propagation: Any = "augmented",
    rank_limit: int = 2000,
) -> SmoothingProfile:
    """Follow the features over ``rounds`` hops; see :func:`gbgnn.theory.smoothing.smoothing_profile`.

    Parameters
    ----------
    graph, features, rounds, rank_limit
        As there.
    propagation
        P, as in :class:`~gbgnn.GBGNNClassifier`: a name such as ``"random_walk"``, an object or a matrix.

    Examples
    --------
    >>> from gbgnn import datasets
    >>> smoothing_profile(datasets.karate().graph, rounds=16, propagation="normalized").n_components
    1
    """
    recipe = as_part("propagation", propagation)
    return smoothing.smoothing_profile(graph, features, rounds, propagation=recipe, rank_limit=rank_limit)
