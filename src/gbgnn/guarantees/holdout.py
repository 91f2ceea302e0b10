"""holdout_bound: how many of the other nodes are wrong at most, by those that were held out. Any model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, is_regressor
from sklearn.utils.validation import check_is_fitted

from gbgnn._checks import check_integer, check_number
from gbgnn.base_estimator import GBGNNEstimator
from gbgnn.errors import ParameterError
from gbgnn.graph import Graph
from gbgnn.labels import NodeSplit, as_nodes, check_disjoint, check_length, check_range
from gbgnn.predictor import Predictor
from gbgnn.theory.holdout import HoldoutBound

_OWNER = "holdout_bound"
LEVELS = (0.5, 0.7, 0.8, 0.9, 0.95, 0.99)
_ASSUMED = "it assumes that the nodes held out are a uniform draw from all that did not train"
_KNOWN = {
    True: "this split drew them so",
    False: "this split did not draw them so, hence the number is no theorem",
    None: "how they were drawn is not known",
}


def holdout_bound(
    model: Any,
    nodes: ArrayLike,
    y: ArrayLike,
    *,
    n_choices: int | None = None,
    confidence: float = 0.95,
    population: ArrayLike | None = None,
    levels: Sequence[float] = LEVELS,
    split: NodeSplit | None = None,
    graph: Graph | None = None,
) -> HoldoutBound:
    r"""Bound how many of the other nodes a model gets wrong, by nodes that were held out.

    Nothing is asked of the model or of how it was trained: any rule, learner, search and fine-tuning, any
    choice of the training nodes, other libraries. Only the h nodes held out must be a uniform draw from the R
    that did not train. With k errors among them, :math:`E^* = \max\{E : P(\mathrm{Hyp}(R, E, h) \le k) \ge
    1 - c\}` and the other R - h nodes have an error of at most :math:`(E^* - k) / (R - h)`
    (docs/theory.md).

    Parameters
    ----------
    model
        Whatever has ``predict(nodes)``, and ``predict_proba(nodes)`` where levels are wanted; or what some
        system predicted, an array with an entry for each node of the graph.
    nodes, y
        The nodes held out, and their labels.
    n_choices
        Among how many models this one was chosen by these nodes: rounds, epochs of fine-tuning, settings,
        multiplied. None is 1, which is right for nodes that nobody looked at; for validation nodes of the fit
        it must be said.
    confidence
        With which the statement holds, in (0, 1).
    population
        Nodes that could have been held out; those in ``nodes`` may be left out. None takes all nodes of the
        graph of the fit. Nodes that trained or validated are not among the others in any case; of a model of
        another library they are not known, and must be left out here.
    levels
        How sure a model may be said to be: a statement for each, of the nodes whose predicted class has at
        least this probability. They must be chosen before the labels are seen.
    split
        The split that ``nodes`` are a part of, which knows how it was drawn; the bound then says whether what
        it assumes is so.
    graph
        For predictions on another graph than that of the fit.

    Examples
    --------
    >>> from gbgnn import GBGNNClassifier, datasets
    >>> data = datasets.csbm(600, n_val=0, n_test=200, seed=0)
    >>> model = GBGNNClassifier(n_rounds=3, preset="fast", random_state=0)
    >>> model = model.fit(data.train, data.y[data.train], graph=data.graph)
    >>> bound = holdout_bound(model, data.test, data.y[data.test], split=data.split)
    >>> bound.n_held_out, bound.n_others, bound.assumption_holds, bound.is_vacuous
    (200, 360, True, False)
    """
    check_number(_OWNER, "confidence", confidence, 0, 1, open_low=True, open_high=True)
    check_integer(_OWNER, "n_choices", n_choices, 1, optional=True)
    for i, level in enumerate(levels):
        check_number(_OWNER, f"levels[{i}]", level, 0, 1)
    held = as_nodes(nodes)
    check_length(y, len(held), "y")
    if not len(held):
        raise ParameterError(f"{_OWNER} needs at least one held-out node; nodes is empty.")
    others = _find_others(model, held, population, n_choices, graph)
    said = _predict(model, np.concatenate([held, others]), graph)
    wrong = (said[: len(held)] != np.asarray(y)).reshape(len(held), -1).any(axis=1)
    known, n_choices = _is_drawn_so(split, held), n_choices or 1
    notes = [f"{_ASSUMED}; {_KNOWN[known]}"]
    if n_choices > 1:
        notes.append(f"they chose this model among {n_choices:,}, which is paid for")
    whole: dict[str, Any] = {"confidence": confidence, "n_choices": n_choices}
    return HoldoutBound.count(
        wrong,
        len(others),
        per_class=_by_class(wrong, said, **whole),
        per_level=_by_level(wrong, _how_sure(model, np.concatenate([held, others]), graph), levels, **whole),
        assumption_holds=known,
        notes=tuple(notes),
        **whole,
    )


def _find_others(
    model: Any,
    held: NDArray[np.int64],
    population: ArrayLike | None,
    n_choices: int | None,
    graph: Graph | None,
) -> NDArray[np.int64]:
    """Return the nodes that the statement is about: neither held out nor seen by the fit."""
    fitted = _fitted(model)
    if fitted is None:
        if population is None:
            raise ParameterError(
                f"{_OWNER} does not know which nodes {type(model).__name__} was trained on; give the others, "
                "population=nodes that neither trained nor were looked at."
            )
        return np.setdiff1d(as_nodes(population, "population"), held)
    n_nodes = fitted.n_nodes if graph is None else graph.n_nodes
    check_range(held, n_nodes)
    # Of another graph than that of the fit, no node was seen.
    is_own = graph is None or graph.checksum == fitted.graph_checksum
    trained, looked_at = (
        held[:0] if nodes is None or not is_own else nodes
        for nodes in (fitted.train_nodes, fitted.validation_nodes)
    )
    check_disjoint("the training nodes", trained, "nodes", held)
    shared = np.intersect1d(held, looked_at)
    if len(shared) and n_choices is None:
        raise ParameterError(
            f"{len(shared)} of the nodes validated the fit, so they chose the model: say among how many "
            f"(n_choices=, such as the number of rounds), or hold out nodes that the fit has not seen."
        )
    among = np.arange(n_nodes) if population is None else as_nodes(population, "population")
    check_range(among, n_nodes, "population")
    others = np.setdiff1d(among, np.concatenate([held, trained, looked_at]))
    if not len(others):
        raise ParameterError(
            f"every node is held out or was seen by the fit, so there are no others to bound the error of; "
            f"that of the {len(held):,} held out is known."
        )
    return others


def _fitted(model: Any) -> Predictor | None:
    """Return the fitted model of this library in what was given; None where there is none."""
    if isinstance(model, Predictor):
        return model
    if isinstance(model, GBGNNEstimator):
        check_is_fitted(model, "model_")
        fitted: Predictor = model.model_
        return fitted
    return None


def _predict(model: Any, nodes: NDArray[np.int64], graph: Graph | None) -> NDArray[Any]:
    fitted = _fitted(model)
    if fitted is None:
        is_of_numbers = isinstance(model, BaseEstimator) and is_regressor(model)
    else:
        is_of_numbers = fitted.task.class_names is None
    if is_of_numbers:
        raise ParameterError(
            f"{_OWNER} counts predictions that are wrong, and of numbers none is quite right; it is for "
            "classes and labels."
        )
    if fitted is not None:
        return np.asarray(fitted.predict(nodes, graph=graph))
    if hasattr(model, "predict"):
        return np.asarray(model.predict(nodes))
    predictions = np.asarray(model)
    check_range(nodes, len(predictions), "nodes or population")
    return predictions[nodes]


def _how_sure(model: Any, nodes: NDArray[np.int64], graph: Graph | None) -> NDArray[Any] | None:
    """Return the probability of what is predicted, None where there are no probabilities of classes."""
    fitted = _fitted(model)
    if fitted is not None:
        if not fitted.task.has_classes:
            return None
        proba = fitted.predict_proba(nodes, graph=graph)
    elif hasattr(model, "predict_proba"):
        proba = np.asarray(model.predict_proba(nodes))
    else:
        return None
    return np.asarray(proba.max(axis=1))


def _by_class(wrong: NDArray[np.bool_], said: NDArray[Any], **whole: Any) -> tuple[HoldoutBound, ...]:
    """Return a bound for the nodes that each class was predicted of, to hold together."""
    if said.ndim > 1:
        return ()
    classes = np.unique(said)
    n_held = len(wrong)
    return tuple(
        HoldoutBound.count(
            wrong[said[:n_held] == label],
            int(np.count_nonzero(said[n_held:] == label)),
            n_statements=len(classes),
            label=label.item(),
            **whole,
        )
        for label in classes
    )


def _by_level(
    wrong: NDArray[np.bool_], sure: NDArray[Any] | None, levels: Sequence[float], **whole: Any
) -> tuple[HoldoutBound, ...]:
    """Return a bound for the nodes of which the model is as sure as each level, to hold together."""
    if sure is None:
        return ()
    n_held = len(wrong)
    return tuple(
        HoldoutBound.count(
            wrong[sure[:n_held] >= level],
            int(np.count_nonzero(sure[n_held:] >= level)),
            n_statements=len(levels),
            level=float(level),
            **whole,
        )
        for level in levels
    )


def _is_drawn_so(split: NodeSplit | None, held: NDArray[np.int64]) -> bool | None:
    """Return whether a split drew a part of it uniformly from what does not train; None: not known."""
    if split is None:
        return None
    if not any(np.array_equal(np.sort(held), np.sort(part)) for part in (split.val, split.test)):
        raise ParameterError(
            f"the {len(held):,} held-out nodes are neither the validation nor the test nodes of {split!r}; "
            "leave split= out, or give the nodes of one of them."
        )
    return split.holds_out_uniformly
