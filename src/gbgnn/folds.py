"""Who trains and who judges, where models are chosen by validation nodes: as was given, or folds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gbgnn.errors import ParameterError
from gbgnn.fitting import Labels, given_validation, split_validation
from gbgnn.graph import Graph
from gbgnn.tasks import Task

N_FOLDS, FRACTION, MANY_LABELS = 5, 0.2, 2_000
"""Without validation nodes, candidates are judged on folds of the labelled nodes; of many, on a share."""


@dataclass(frozen=True, eq=False)
class Fold:
    """Labelled nodes that train, and those by which the models trained on them are judged."""

    nodes: NDArray[np.int64]
    y: NDArray[Any]
    sample_weight: NDArray[np.float64]
    validation: tuple[NDArray[np.int64], NDArray[Any]]


def split_folds(
    estimator: Any,
    task: Task,
    nodes: NDArray[np.int64],
    y: ArrayLike,
    graph: Graph,
    weights: NDArray[np.float64],
    validation: Labels | None,
    seed: int,
) -> list[Fold]:
    """Return who trains and who judges: as was given, or folds of the labelled nodes, of many a share."""
    targets = task.encode(y)
    known = task.decode(targets)
    if validation is not None:
        if estimator.validation_fraction is not None:
            raise ParameterError("give either validation= or validation_fraction, not both.")
        rows, held_out = given_validation(validation, nodes, task, graph)
        return [Fold(nodes, known, weights, (rows, task.decode(held_out)))]
    fraction = estimator.validation_fraction
    if fraction is not None or len(targets) >= MANY_LABELS:
        leaves = [split_validation(FRACTION if fraction is None else fraction, task, targets, seed)[1]]
    else:
        leaves = draw_folds(task.strata(targets), len(targets), seed)
    stays = [np.setdiff1d(np.arange(len(targets)), own) for own in leaves]
    return [
        Fold(nodes[a], known[a], weights[a], (nodes[b], known[b])) for a, b in zip(stays, leaves, strict=True)
    ]


def draw_folds(strata: NDArray[Any] | None, n_labels: int, seed: int) -> list[NDArray[np.int64]]:
    """Return positions that are set aside together, every stratum spread evenly; its only node never is.

    Examples
    --------
    >>> [fold.tolist() for fold in draw_folds(np.array([0, 0, 1, 1, 2]), 5, seed=0)]
    [[0], [1], [2], [3]]
    """
    order = np.random.default_rng(seed).permutation(n_labels)
    if strata is not None:
        _, kinds, counts = np.unique(strata, return_inverse=True, return_counts=True)
        order = order[counts[kinds[order]] > 1]
        order = order[np.argsort(kinds[order], kind="stable")]
    n_folds = min(N_FOLDS, len(order))
    if n_folds < 2:
        raise ParameterError(
            'preset="best" judges models by labelled nodes that it sets aside, and there are too few for '
            "that; pass validation=(nodes, y), or take another preset."
        )
    return [np.sort(order[i::n_folds]) for i in range(n_folds)]
