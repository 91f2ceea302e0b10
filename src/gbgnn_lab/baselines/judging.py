"""How good predictions are, by the figures that ``gbgnn fit`` has of a model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbgnn.cli.scores import measure_classes, measure_numbers
from gbgnn.datasets import Dataset

BY_PROBA = ("auc", "average_precision", "log_loss")
"""What needs probabilities."""
JUDGED = ("val", "test")
"""The parts of a split that are judged."""


def judge_numbers(y: NDArray[Any], predictions: NDArray[Any]) -> dict[str, float | None]:
    """Return R2, the mean absolute and the root of the mean squared error; R2 of a single node is None.

    Examples
    --------
    >>> judge_numbers(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 4.0]))
    {'r2': 0.5, 'mae': 0.333..., 'rmse': 0.577...}
    """
    return _without_size(measure_numbers(y, predictions))


def judge_classes(
    y: NDArray[Any], predictions: NDArray[Any], proba: NDArray[Any] | None, classes: NDArray[Any]
) -> dict[str, float | None]:
    """Return accuracy, macro-F1 and, by probabilities with a column per class, the figures of these.

    With more than two classes AUC and average precision are means over the classes, each against all others.
    They are None without probabilities, and where all of ``y`` is one class.

    Examples
    --------
    >>> proba = np.array([[0.8, 0.2], [0.4, 0.6], [0.3, 0.7]])
    >>> judge_classes(np.array([0, 0, 1]), np.array([0, 1, 1]), proba, np.array([0, 1]))
    {'accuracy': 0.66..., 'auc': 1.0, 'average_precision': 1.0, 'log_loss': 0.49..., 'macro_f1': 0.66...}
    """
    # Without probabilities the rest is judged as if the decisions were certain, which it does not look at.
    told = predictions[:, None] == classes if proba is None else proba
    found = _without_size(measure_classes(y, predictions, np.asarray(told, float), classes))
    return found if proba is not None else found | dict.fromkeys(BY_PROBA)


def judge_parts(
    data: Dataset,
    predictions: NDArray[Any],
    proba: NDArray[Any] | None = None,
    classes: NDArray[Any] | None = None,
) -> dict[str, float | None]:
    """Return how good predictions for all nodes are on validation and test nodes, as ``test_accuracy`` etc.

    No system is given test labels: they are read here, once it has predicted. A part without nodes has none
    of the figures. ``classes``, those of the data when None, are the columns of ``proba``.
    """
    found: dict[str, float | None] = {}
    for part in JUDGED:
        nodes = getattr(data, part)
        if not len(nodes):
            continue
        truth, told = data.y[nodes], predictions[nodes]
        if data.is_regression:
            judged = judge_numbers(truth, told)
        else:
            own = None if proba is None else proba[nodes]
            judged = judge_classes(truth, told, own, data.classes if classes is None else classes)
        found |= {f"{part}_{name}": value for name, value in judged.items()}
    return found


def _without_size(figures: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in figures.items() if name != "nodes"}
