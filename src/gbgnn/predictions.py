"""Predictions as frames: a row per node with its id, what is predicted, and the probability of each class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gbgnn._checks import check_choice
from gbgnn.errors import ParameterError, import_needed
from gbgnn.graph import Graph

Columns = dict[str, NDArray[Any]]

KINDS = ("pandas", "polars", "arrow")


def predictions_frame(
    model: Any,
    nodes: ArrayLike | None = None,
    *,
    graph: Graph | None = None,
    ids: ArrayLike | None = None,
    class_names: Mapping[str, str] | None = None,
    kind: str = "pandas",
) -> Any:
    """Return what a fitted model says of nodes, as a frame.

    Its columns are ``node`` (the user's id), then ``label`` and ``proba_CLASS`` for each class, or
    ``prediction`` of a regression; of several labels or numbers per node, ``label_0`` and so on.

    Parameters
    ----------
    model
        A fitted estimator, or its ``model_``.
    nodes
        Row numbers; None takes all nodes.
    graph
        Another graph than that of the fit, for inductive use.
    ids
        The id of every node of the graph. None takes those of ``graph``, or the row numbers of the graph of
        the fit, which a model does not keep.
    class_names
        What to call a class, by its label as text.
    kind
        ``"pandas"``, ``"polars"`` or ``"arrow"``.

    Examples
    --------
    >>> from gbgnn import MLP, GBGNNClassifier, datasets
    >>> data = datasets.karate()
    >>> model = GBGNNClassifier(n_rounds=2, learner=MLP(epochs=5, units=4), random_state=0)
    >>> model = model.fit(data.train, data.y[data.train], graph=data.graph)
    >>> predictions_frame(model, [0, 33], class_names={"0": "Mr. Hi", "1": "Officer"}).columns.tolist()
    ['node', 'label', 'proba_Mr. Hi', 'proba_Officer']
    """
    check_choice("predictions_frame", "kind", kind, KINDS)
    columns = predict_columns(model, nodes, graph=graph, ids=ids, class_names=class_names)
    if kind == "arrow":
        return import_needed("pyarrow", "a frame of Arrow's", "frames").table(columns)
    return import_needed(kind, f"a frame of {kind}", "frames").DataFrame(columns)


def predict_columns(
    model: Any,
    nodes: ArrayLike | None = None,
    *,
    graph: Graph | None = None,
    ids: ArrayLike | None = None,
    class_names: Mapping[str, str] | None = None,
) -> Columns:
    """Return the columns of such a frame as arrays; the model is applied once."""
    blocks = list(predict_column_blocks(model, nodes, graph=graph, ids=ids, class_names=class_names))
    return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}


def predict_column_blocks(
    model: Any,
    nodes: ArrayLike | None = None,
    *,
    graph: Graph | None = None,
    ids: ArrayLike | None = None,
    class_names: Mapping[str, str] | None = None,
) -> Iterator[Columns]:
    """Yield the columns of such a frame, some nodes at a time: for more of them than a frame could hold.

    Examples
    --------
    >>> from gbgnn import MLP, GBGNNClassifier, datasets
    >>> data = datasets.karate()
    >>> model = GBGNNClassifier(n_rounds=2, learner=MLP(epochs=5, units=4), random_state=0)
    >>> model = model.fit(data.train, data.y[data.train], graph=data.graph)
    >>> [len(block["node"]) for block in predict_column_blocks(model)]
    [34]
    """
    fitted = getattr(model, "model_", model)
    n_nodes = fitted.n_nodes if graph is None else graph.n_nodes
    known = np.asarray(ids) if ids is not None else np.arange(n_nodes) if graph is None else graph.node_ids
    if len(known) != n_nodes:
        raise ParameterError(f"ids has {len(known)} entries, but the graph has {n_nodes} nodes.")
    rows = np.arange(n_nodes) if nodes is None else np.asarray(nodes, np.int64)
    start = 0
    for found in fitted.predict_blocks(rows, graph=graph):
        stop = start + len(found["predict"])
        yield {"node": known[rows[start:stop]]} | _name_columns(fitted, found, class_names or {})
        start = stop


def _name_columns(fitted: Any, found: Mapping[str, NDArray[Any]], names: Mapping[str, str]) -> Columns:
    """Return predictions, and probabilities of classes that may have names, as columns."""
    predicted = found["predict"]
    if "predict_proba" not in found:
        return _numbered("prediction", predicted)
    if predicted.ndim == 2:
        return _numbered("label", predicted) | _numbered("proba", found["predict_proba"])
    titles = [names.get(str(label), str(label)) for label in fitted.classes]
    places = np.searchsorted(fitted.classes, predicted)
    probas = zip(titles, found["predict_proba"].T, strict=True)
    return {"label": np.array(titles)[places] if names else predicted} | {
        f"proba_{title}": column.copy() for title, column in probas
    }


def _numbered(name: str, values: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return values as a column, or as numbered ones where there are several per node."""
    if values.ndim == 1:
        return {name: values}
    return {f"{name}_{k}": column.copy() for k, column in enumerate(values.T)}
