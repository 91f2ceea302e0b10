"""From the arguments of ``fit`` to a checked Problem."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import train_test_split
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import type_of_target

from gbgnn._checks import check_choice, check_number
from gbgnn._devices import as_device, as_dtype
from gbgnn.errors import GraphError, ParameterError
from gbgnn.graph import Graph, as_nodes, check_disjoint, check_range
from gbgnn.problem import NORMS, LabelledNodes, NodeInputs, Problem
from gbgnn.registry import as_part

Labels = tuple[ArrayLike, ArrayLike]
Nodes = tuple[NDArray[np.int64], NDArray[np.int64]]


class InputSettings(Protocol):
    """What a model says of its inputs, by the names of :class:`~gbgnn.GBGNNClassifier`."""

    propagation: Any
    feature_norm: str | None
    device: Any
    dtype: Any


class ProblemSettings(InputSettings, Protocol):
    """What a model says of what it is trained on."""

    class_weight: Any
    validation_fraction: float | None


def build_problem(
    model: ProblemSettings,
    nodes: ArrayLike,
    y: ArrayLike,
    graph: Graph,
    *,
    validation: Labels | None,
    sample_weight: ArrayLike | None = None,
    seed: int,
) -> tuple[Problem, NDArray[Any]]:
    """Check everything a user gave, and return what ``model`` is trained on and the class labels."""
    check_graph(graph)
    ids = as_nodes(nodes)
    check_range(ids, graph.n_nodes)
    classes, targets = encode_classes(y, len(ids))
    weights = check_weights(sample_weight, model.class_weight, classes[targets])
    held_out = None
    if validation is not None:
        if model.validation_fraction is not None:
            raise ParameterError("give either validation= or validation_fraction, not both.")
        held_out = given_validation(validation, ids, classes, graph)
    elif model.validation_fraction is not None:
        stays, leaves = split_validation(model.validation_fraction, targets, seed)
        held_out = ids[leaves], targets[leaves]
        ids, targets, weights = ids[stays], targets[stays], weights[stays]
    inputs = build_inputs(model, graph)
    device = inputs.features.device
    problem = Problem(
        inputs=inputs,
        train=LabelledNodes.build(ids, targets, weights, device),
        n_classes=len(classes),
        validation=None if held_out is None else LabelledNodes.build(*held_out, device=device),
    )
    return problem, classes


def build_inputs(model: InputSettings, graph: Graph) -> NodeInputs:
    """Return what ``model`` is given of a graph."""
    check_norm(model.feature_norm)
    return NodeInputs.from_graph(
        graph,
        as_part("propagation", model.propagation),
        as_device(model.device),
        as_dtype(model.dtype),
        model.feature_norm,
    )


def check_norm(feature_norm: str | None) -> None:
    """Raise for a length that is not known."""
    if feature_norm is not None:
        check_choice("GBGNNClassifier", "feature_norm", feature_norm, NORMS)


def check_graph(graph: Any, n_features: int | None = None) -> None:
    """Raise unless ``graph`` is a Graph, with as many features as a fitted model expects."""
    if not isinstance(graph, Graph):
        raise GraphError(
            f"graph must be a gbgnn.Graph; got {type(graph).__name__}. "
            "Build one with Graph(adjacency, features)."
        )
    if n_features is not None and graph.n_features != n_features:
        raise GraphError(
            f"graph has {graph.n_features} features per node, but the model was fitted with {n_features}."
        )


def encode_classes(y: ArrayLike, n_nodes: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the class labels and the index of each node's class."""
    labels = _as_labels(y, n_nodes, "y")
    if not n_nodes:
        raise GraphError("nodes is empty; training needs labelled nodes.")
    classes, targets = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise GraphError(
            f"y has one class only ({classes.tolist()[0]!r}); a classifier needs at least two to tell apart."
        )
    return classes, targets


def given_validation(
    validation: Labels, ids: NDArray[np.int64], classes: NDArray[Any], graph: Graph
) -> Nodes:
    """Return the validation nodes that the user gave, and the indices of their classes."""
    if not isinstance(validation, (tuple, list)) or len(validation) != 2:
        raise ParameterError(f"validation must be a pair (nodes, y); got {type(validation).__name__}.")
    rows = as_nodes(validation[0], "validation")
    if not len(rows):
        raise GraphError("validation is empty; leave it out, or give at least one node.")
    check_range(rows, graph.n_nodes, "validation")
    check_disjoint("the training nodes", ids, "validation", rows)
    labels = _as_labels(validation[1], len(rows), "the y of validation")
    unknown = np.setdiff1d(labels, classes)
    if len(unknown):
        raise GraphError(
            f"validation has class {unknown.tolist()[0]!r}, which no training node has "
            f"(known: {', '.join(map(str, classes[:10]))})."
        )
    return rows, np.searchsorted(classes, labels)


def split_validation(
    fraction: float, targets: NDArray[np.int64], seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return positions that train and positions set aside, stratified by class."""
    check_number("GBGNNClassifier", "validation_fraction", fraction, 0, 1, open_low=True, open_high=True)
    try:
        stays, leaves = train_test_split(
            np.arange(len(targets)), test_size=fraction, stratify=targets, random_state=seed % 2**32
        )
    except ValueError as error:
        raise ParameterError(
            f"validation_fraction={fraction} of {len(targets)} labelled nodes cannot be split by class: "
            f"{error}"
        ) from error
    return np.sort(stays), np.sort(leaves)


def check_weights(
    sample_weight: ArrayLike | None, class_weight: Any, labels: NDArray[Any]
) -> NDArray[np.float64]:
    """Return the weight of each labelled node: its own times that of its class."""
    given = np.ones(len(labels)) if sample_weight is None else sample_weight
    weights = np.asarray(given, dtype=np.float64)
    if weights.shape != (len(labels),):
        raise ParameterError(
            f"sample_weight has shape {weights.shape}, but there are {len(labels)} labelled nodes."
        )
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.sum() > 0:
        raise ParameterError("sample_weight must be finite, not negative, and not all zero.")
    if class_weight is None:
        return weights
    try:
        by_class: NDArray[np.float64] = compute_sample_weight(class_weight, labels)
    except ValueError as error:
        raise ParameterError(f"class_weight={class_weight!r} does not fit: {error}") from error
    return weights * by_class


def _as_labels(y: ArrayLike, n_nodes: int, name: str) -> NDArray[Any]:
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise GraphError(f"{name} must have one class per node, shape (n,); got shape {labels.shape}.")
    if len(labels) != n_nodes:
        raise GraphError(f"{name} has {len(labels)} labels for {n_nodes} nodes.")
    missing = [label is None or label != label for label in labels.tolist()]
    if any(missing):
        raise GraphError(
            f"{name} has {sum(missing)} missing labels (first: position {missing.index(True)}); "
            "train on the labelled nodes only."
        )
    if labels.dtype == object:
        labels = np.array(labels.tolist())  # strings in an object array become a string array
    if n_nodes and type_of_target(labels) not in ("binary", "multiclass"):
        raise GraphError(
            f"{name} must be classes; got continuous numbers such as {labels.tolist()[0]!r}. Bin them first."
        )
    return labels
