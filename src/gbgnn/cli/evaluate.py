"""``gbgnn evaluate``: how well a model does on labelled nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from gbgnn.cli import screen
from gbgnn.cli.options import AsJson, DataDir, DataOption, Normalize, SavedPath, Split, SplitSeed, argument
from gbgnn.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gbgnn.datasets import Dataset
    from gbgnn.estimators import GBGNNClassifier
    from gbgnn.graph import Graph

Scores = dict[str, dict[str, Any]]


def evaluate(
    saved_path: SavedPath,
    dataset: Annotated[
        str | None,
        argument("A known name, a folder or a file. Default: the data of the fit.", "DATASET_OR_FOLDER"),
    ] = None,
    data_dir: DataDir = None,
    split: Split = None,
    split_seed: SplitSeed = None,
    normalize: Normalize = None,
    data_option: DataOption = None,
    as_json: AsJson = False,
) -> None:
    """Print accuracy, cross entropy and macro-F1 of the training, validation and test nodes."""
    from gbgnn.cli.data_source import open_saved
    from gbgnn.persistence import load

    saved = open_saved(saved_path)
    if dataset is None and "data" not in saved.config:
        raise DataError(f"{saved_path} is a bare model file, which does not know its data; name a data set.")
    data = saved.source(
        dataset=dataset,
        data_dir=data_dir,
        split=split,
        split_seed=split_seed,
        normalize=normalize,
        options=data_option,
    ).load()
    model = load(saved.model_path)
    is_own = saved.graph_checksum == data.graph.checksum
    scores = score_splits(model, data, graph=None if is_own else data.graph)
    if as_json:
        screen.emit_json({"model": str(saved.model_path), "dataset": data.name, "splits": scores})
    else:
        show_scores(scores)


def score_splits(model: GBGNNClassifier, data: Dataset, graph: Graph | None = None) -> Scores:
    """Return nodes, accuracy, cross entropy and macro-F1 of every part of the split that has nodes."""
    import numpy as np

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
    from sklearn.metrics import accuracy_score, f1_score

    return {
        "nodes": len(truth),
        "accuracy": float(accuracy_score(truth, labels)),
        "loss": cross_entropy(truth, proba, classes),
        "macro_f1": float(f1_score(truth, labels, average="macro", zero_division=0.0)),
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
    forms = {"split": "", "nodes": ",", "accuracy": ".4f", "loss": ".4f", "macro_f1": ".4f"}
    records = [{"split": name, **row} for name, row in scores.items()]
    screen.show_records(records, forms, heads={"macro_f1": "macro-F1"}, left=("split",))
