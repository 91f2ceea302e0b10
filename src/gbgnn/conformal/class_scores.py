"""Scores of classes: how strange it would be if a node were of a class, by the probabilities of a model."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def lac_scores(proba: Array, uniform: Array) -> Array:
    """Return one minus the probability: the smallest sets on average, small where the model is sure.

    Least ambiguous set-valued classifiers (Sadinle, Lei and Wasserman 2019). ``uniform`` is not looked at.
    """
    return 1 - proba


def aps_scores(proba: Array, uniform: Array) -> Array:
    """Return the probability of all classes at least as likely, less a random share of the class's own.

    Adaptive prediction sets (Romano, Sesia and Candès 2020): larger sets where a model is unsure, so that
    nodes of all kinds are covered about as often. ``uniform`` has that share for every node, in [0, 1); with
    zeros the score is the largest it can be.

    Examples
    --------
    >>> aps_scores(np.array([[0.25, 0.5, 0.25]]), np.zeros(1)).tolist()
    [[0.75, 0.5, 1.0]]
    >>> aps_scores(np.array([[0.25, 0.5, 0.25]]), np.array([0.5])).tolist()
    [[0.625, 0.25, 0.875]]
    """
    order = np.argsort(-proba, axis=1, kind="stable")
    total = np.take_along_axis(proba, order, axis=1).cumsum(axis=1)
    scores = np.empty_like(proba)
    np.put_along_axis(scores, order, total, axis=1)
    return scores - uniform[:, None] * proba


CLASS_SCORES: dict[str, Callable[[Array, Array], Array]] = {"lac": lac_scores, "aps": aps_scores}
