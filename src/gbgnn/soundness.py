"""Whether what a model file says is a model: asked once, when it is read, by looking and by trying."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from gbgnn.errors import GBGNNError, ModelFileError
from gbgnn.graph import Graph
from gbgnn.learners.sklearn import SklearnHead
from gbgnn.learners.tree_head import TreesHead
from gbgnn.model import FittedModel
from gbgnn.tables import NodeTable

_N_NODES = 12
_FEW_CELLS, _MOST_COLUMNS = 10**6, 10**6
_MEASURED = (
    "train_loss",
    "val_loss",
    "gradient_norm",
    "cosine",
    "gamma_total",
    "decrease",
    "guaranteed_decrease",
)


def check_sound(model: FittedModel) -> None:
    """Raise :class:`ModelFileError` unless scores, rounds and record fit and rounds can be applied.

    They are applied to a few nodes without any features: what does not fit in shape or type shows there, and
    not when somebody predicts.
    """
    scores, rounds = model.kept_scores, len(model.ensemble)
    if scores is not None:
        is_table = scores.ndim == 2 and scores.is_floating_point()
        is_table = is_table and scores.shape[1] == model.voting.n_outputs
        if not is_table or not bool(torch.isfinite(scores).all()):
            raise ModelFileError("its scores are no table of finite numbers with a column for each output.")
    train = model.train
    if train.rows.dtype != torch.int64 or train.rows.ndim != 1 or not len(train.rows):
        raise ModelFileError("its training nodes are no list of nodes.")
    if not 0 <= int(train.rows.min()) <= int(train.rows.max()) < model.n_nodes:
        raise ModelFileError("its training nodes are not among those that have scores.")
    if not len(train.rows) == len(train.targets) == len(train.weights):
        raise ModelFileError("its training nodes, targets and weights are not as many.")
    if not 1 <= model.best_round <= min(rounds, len(model.history)):
        raise ModelFileError(f"round {model.best_round}, which predicts, is not among its {rounds} rounds.")
    if not np.isfinite(np.array(model.ensemble.etas, dtype=float)).all():
        raise ModelFileError("not all its steps are finite.")
    for trained in model.ensemble:
        if trained.head is not None and not isinstance(trained.head, (TreesHead, SklearnHead)):
            weights = (each for each in trained.head.state().values() if each.is_floating_point())
            if not all(bool(torch.isfinite(each).all()) for each in weights):
                raise ModelFileError(f"the weights of round {trained.t} are not finite.")
    for row in model.history.rows:
        if not all(isinstance(row.get(name), (Real, type(None))) for name in _MEASURED):
            raise ModelFileError("its history holds what is no number.")
    with warnings.catch_warnings(action="ignore"):
        if scores is not None:
            _predict(model, np.arange(min(len(scores), _N_NODES)), None)
        if all(trained.head is not None for trained in model.ensemble[: model.best_round]):
            try:
                graph = _empty_graph(model)
            except GBGNNError:  # what a few nodes without anything cannot show
                return
            _predict(model, np.arange(graph.n_nodes), graph)


def _predict(model: FittedModel, nodes: np.ndarray[Any, Any], graph: Graph | None) -> None:
    try:
        found = model.predict_all(nodes, graph=graph)
    except ModelFileError:
        raise
    except GBGNNError:  # what it says of such a graph is its own affair
        return
    if any(len(values) != len(nodes) for values in found.values()):
        raise ModelFileError("it does not predict something for every node.")
    numbers = (values for values in found.values() if values.dtype.kind == "f")
    if not all(np.isfinite(values).all() for values in numbers):
        raise ModelFileError("its predictions are not finite.")


def _empty_graph(model: FittedModel) -> Graph:
    """Return a ring of nodes with the columns of the model's graph, and nothing in them."""
    recipe = model.inputs
    own = getattr(recipe.propagation, "matrix", None)  # P of the user's own, which is for so many nodes
    n = _N_NODES if own is None else own.shape[0]
    ring = sp.csr_array((np.ones(n), (np.arange(n) + 1) % n, np.arange(n + 1)), shape=(n, n))
    if recipe.encoder is not None:
        kinds = {each.name: each.kind for each in recipe.encoder.encoders_ if hasattr(each, "kind")}
        gaps: Mapping[str, Any] = {name: [None] * n for name in recipe.encoder.feature_names_in_}
        return Graph(ring.maximum(ring.T), NodeTable(gaps, kinds=kinds))
    if not 0 < model.n_features_in <= _MOST_COLUMNS:
        raise ModelFileError(f"it cannot have {model.n_features_in} columns of features.")
    columns: Any = sp.csr_array((n, model.n_features_in), dtype=np.float32)
    if n * model.n_features_in <= _FEW_CELLS:
        columns = columns.toarray()
    return Graph(ring.maximum(ring.T), columns, feature_names=recipe.column_names)
