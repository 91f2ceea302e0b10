"""How good predictions are, by the measures that people ask for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, log_loss, mean_absolute_error, r2_score, roc_auc_score


def judge_numbers(y: NDArray[Any], predictions: NDArray[Any]) -> dict[str, float]:
    """Return R2 and the mean absolute error.

    Examples
    --------
    >>> judge_numbers(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 4.0]))
    {'r2': 0.5, 'mae': 0.333...}
    """
    return {"r2": float(r2_score(y, predictions)), "mae": float(mean_absolute_error(y, predictions))}


def judge_classes(
    y: NDArray[Any], predictions: NDArray[Any], proba: NDArray[Any] | None, classes: NDArray[Any]
) -> dict[str, float | None]:
    """Return accuracy and, by probabilities with a column per class, AUC, average precision and log loss.

    With more than two classes AUC and average precision are means over the classes, each against all others.
    They are None without probabilities, and where ``y`` lacks one of the classes or has another.

    Examples
    --------
    >>> proba = np.array([[0.8, 0.2], [0.4, 0.6], [0.3, 0.7]])
    >>> judge_classes(np.array([0, 0, 1]), np.array([0, 1, 1]), proba, np.array([0, 1]))
    {'accuracy': 0.666..., 'roc_auc': 1.0, 'average_precision': 1.0, 'log_loss': 0.498...}
    """
    result: dict[str, float | None] = {"accuracy": float(np.mean(y == predictions))}
    result |= dict.fromkeys(("roc_auc", "average_precision", "log_loss"))
    if proba is None or not np.array_equal(np.unique(y), np.unique(classes)):
        return result
    columns = range(1, 2) if len(classes) == 2 else range(len(classes))
    for name, score in (("roc_auc", roc_auc_score), ("average_precision", average_precision_score)):
        result[name] = float(np.mean([score(y == classes[k], proba[:, k]) for k in columns]))
    place = np.searchsorted(classes, y)
    result["log_loss"] = float(log_loss(place, proba, labels=np.arange(len(classes))))
    return result
