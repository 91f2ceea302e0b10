"""How right a model is on every part of a split: what ``gbgnn fit``, ``tune`` and ``evaluate`` print."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gbgnn.cli import screen

if TYPE_CHECKING:
    from numpy.typing import NDArray

    import gbgnn
    from gbgnn.datasets import Dataset

Scores = dict[str, dict[str, Any]]
HEADS = {
    "macro_f1": "macro-F1",
    "auc": "AUC",
    "average_precision": "avg. precision",
    "log_loss": "log loss",
    "ece": "ECE",
    "r2": "R2",
    "mae": "MAE",
    "rmse": "RMSE",
}
"""What figures are called in a table."""


def score_splits(model: gbgnn.GBGNNClassifier, data: Dataset, graph: gbgnn.Graph | None = None) -> Scores:
    """Return the figures of every part of the split that has nodes.

    ``graph`` is that of the data where the model was fitted on another one. Of inductive data, every part is
    predicted on what is there by then.
    """
    import numpy as np

    parts = [name for name in ("train", "val", "test") if len(getattr(data, name))]
    if data.is_inductive:
        found = {}
        for name in parts:
            there = data.snapshot(name)
            rows = getattr(there, name)
            found[name] = model.model_.predict_all(rows, graph=there.graph)
    else:
        rows = [getattr(data, name) for name in parts]
        once = model.model_.predict_all(np.concatenate(rows), graph=graph)  # the model is applied once
        ends = np.cumsum([len(part) for part in rows])[:-1]
        cut = {key: np.split(values, ends) for key, values in once.items()}
        found = {name: {key: cut[key][i] for key in cut} for i, name in enumerate(parts)}
    return {name: measure(data.y[getattr(data, name)], found[name], model) for name in parts}


def measure(
    truth: NDArray[Any], found: dict[str, NDArray[Any]], model: gbgnn.GBGNNClassifier
) -> dict[str, Any]:
    """Return the figures of one set of nodes, by what the model predicts."""
    if "predict_proba" in found:
        from gbgnn.reliability import Reliability

        proba = found["predict_proba"]
        ece = Reliability.measure(proba.max(axis=1), found["predict"] == truth).ece
        return measure_classes(truth, found["predict"], proba, model.classes_) | {"ece": ece}
    return measure_numbers(truth, found["predict"])


def measure_classes(
    truth: NDArray[Any], labels: NDArray[Any], proba: NDArray[Any], classes: NDArray[Any]
) -> dict[str, Any]:
    """Return the figures of a classifier; a class that training never saw counts as wrong.

    AUC and average precision are those of the second of two classes; of several, the mean over classes, each
    against the rest. A class that all nodes have, or none, says nothing; they are None where every class does
    so.
    """
    import numpy as np
    from sklearn.metrics import accuracy_score, average_precision_score, f1_score, roc_auc_score

    columns = [1] if len(classes) == 2 else range(len(classes))
    ranked = [(truth == classes[k], proba[:, k]) for k in columns]
    ranked = [(hits, p) for hits, p in ranked if hits.any() and not hits.all()]
    areas = [roc_auc_score(hits, p) for hits, p in ranked]
    precisions = [average_precision_score(hits, p) for hits, p in ranked]
    return {
        "nodes": len(truth),
        "accuracy": float(accuracy_score(truth, labels)),
        "auc": float(np.mean(areas)) if areas else None,
        "average_precision": float(np.mean(precisions)) if precisions else None,
        "log_loss": cross_entropy(truth, proba, classes),
        "macro_f1": float(f1_score(truth, labels, average="macro", zero_division=0.0)),
    }


def measure_numbers(truth: NDArray[Any], predicted: NDArray[Any]) -> dict[str, Any]:
    """Return the figures of a regressor; R2 of a single node is None."""
    import numpy as np
    from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

    return {
        "nodes": len(truth),
        "r2": float(r2_score(truth, predicted)) if len(np.atleast_1d(truth)) > 1 else None,
        "mae": float(mean_absolute_error(truth, predicted)),
        "rmse": float(root_mean_squared_error(truth, predicted)),
    }


def cross_entropy(truth: NDArray[Any], proba: NDArray[Any], classes: NDArray[Any]) -> float:
    """Return the mean of -log p of the true class, p kept above the rounding of its type."""
    import numpy as np

    columns = np.searchsorted(classes, truth).clip(max=len(classes) - 1)
    known = classes[columns] == truth
    own = np.where(known, proba[np.arange(len(truth)), columns], 0).astype(np.float64)
    return float(-np.log(own.clip(min=np.finfo(proba.dtype).eps)).mean()) + 0.0


def show_scores(scores: Scores) -> None:
    """Print the figures as a table."""
    records = [{"split": name, **row} for name, row in scores.items()]
    columns = list(records[0])
    screen.show_records(
        records, columns, heads=HEADS, left=("split",), drop=("macro-F1", "avg. precision", "ECE")
    )
