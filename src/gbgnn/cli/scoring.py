"""How well a model does on each part of a split."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, f1_score

from gbgnn.cli import screen
from gbgnn.datasets import Dataset
from gbgnn.estimators import GBGNNClassifier
from gbgnn.graph import Graph

Scores = dict[str, dict[str, Any]]


def score_splits(model: GBGNNClassifier, data: Dataset, graph: Graph | None = None) -> Scores:
    """Return nodes, accuracy, cross entropy and macro-F1 of every part of the split that has nodes."""
    parts = {name: getattr(data, name) for name in ("train", "val", "test") if len(getattr(data, name))}
    nodes = np.concatenate(list(parts.values()))
    found = model.model_.predict_all(nodes, graph=graph)
    labels, proba = found["predict"], found["predict_proba"]
    ends = np.cumsum([len(part) for part in parts.values()])[:-1]
    pieces = zip(parts.items(), np.split(labels, ends), np.split(proba, ends), strict=True)
    return {name: measure(data.y[rows], y, p, model.classes_) for (name, rows), y, p in pieces}


def measure(
    truth: NDArray[Any], labels: NDArray[Any], proba: NDArray[Any], classes: NDArray[Any]
) -> dict[str, Any]:
    """Return the figures of one set of nodes; a class that training never saw counts as wrong."""
    return {
        "nodes": len(truth),
        "accuracy": float(accuracy_score(truth, labels)),
        "loss": cross_entropy(truth, proba, classes),
        "macro_f1": float(f1_score(truth, labels, average="macro", zero_division=0.0)),
    }


def cross_entropy(truth: NDArray[Any], proba: NDArray[Any], classes: NDArray[Any]) -> float:
    """Return the mean of -log p of the true class, p kept above the rounding of its type.

    Examples
    --------
    >>> loss = cross_entropy(np.array([3, 5]), np.array([[0.5, 0.5], [0.0, 1.0]]), np.array([3, 5]))
    >>> round(loss, 4)
    0.3466
    """
    columns = np.searchsorted(classes, truth).clip(max=len(classes) - 1)
    known = classes[columns] == truth
    own = np.where(known, proba[np.arange(len(truth)), columns], 0).astype(np.float64)
    return float(-np.log(own.clip(min=np.finfo(proba.dtype).eps)).mean()) + 0.0


def show_scores(scores: Scores) -> None:
    """Print the figures as a table."""
    rows = [
        (
            name,
            screen.number(row["nodes"], ","),
            screen.number(row["accuracy"]),
            screen.number(row["loss"]),
            screen.number(row["macro_f1"]),
        )
        for name, row in scores.items()
    ]
    columns = ("split", "nodes", "accuracy", "loss", "macro-F1")
    screen.show_table(columns, rows, left=("split",))
