"""Calibrated: probabilities that mean what they say, by temperatures learned on held-out nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted

from gbgnn._checks import check_choice
from gbgnn.blend import as_scores
from gbgnn.errors import ParameterError
from gbgnn.explanations import Contributions, Explanation, ResponseCurves
from gbgnn.graph import Graph
from gbgnn.held_out import HeldOut
from gbgnn.predictor import Predictor, as_predictor, as_rows
from gbgnn.tasks import Link
from gbgnn.temperatures import COLUMNS, Array, Temperatures, describe_nodes


@dataclass(frozen=True, eq=False)
class CalibratedModel(Predictor):
    """A fitted model whose scores are divided by temperatures: it predicts as any other model does.

    Parameters
    ----------
    inner
        The model that was calibrated.
    method
        Of :data:`COLUMNS`.
    learned
        The temperatures, as a function of how nodes stand in the graph.
    """

    inner: Predictor
    method: str
    learned: Temperatures

    @property
    def task(self) -> Any:  # type: ignore[override]
        """What is predicted."""
        return self.inner.task

    @property
    def loss(self) -> Any:  # type: ignore[override]
        """That of probabilities: its link makes them of scores."""
        return self.task.default_loss

    @property
    def metric(self) -> Any:  # type: ignore[override]
        """That of the model inside."""
        return self.inner.metric

    @property
    def seed(self) -> int:  # type: ignore[override]
        """That of the model inside."""
        return self.inner.seed

    @property
    def settings(self) -> Mapping[str, Any]:  # type: ignore[override]
        """Those of the model inside."""
        return self.inner.settings

    @property
    def graph_checksum(self) -> str | None:
        """Checksum of the graph of the fit."""
        return self.inner.graph_checksum

    @property
    def facts(self) -> dict[str, Any]:
        """What training came to, and the temperatures."""
        own = {"method": self.method, "temperature": float(np.exp(self.learned.intercept))}
        weights = dict(zip(COLUMNS[self.method], self.learned.weights.tolist(), strict=True))
        return self.inner.facts | {"calibration": own | ({"weights": weights} if weights else {})}

    def describe(self) -> dict[str, Any]:
        """Return what the model inside says of itself, and how it was calibrated."""
        return self.inner.describe() | {"calibrated by": self.method}

    @property
    def history_rows(self) -> list[dict[str, Any]]:
        """Those of the model inside."""
        return self.inner.history_rows

    @property
    def train_nodes(self) -> NDArray[np.int64]:  # type: ignore[override]
        """Ids of the labelled nodes that trained."""
        return self.inner.train_nodes

    @property
    def validation_nodes(self) -> NDArray[np.int64] | None:  # type: ignore[override]
        """Ids of the nodes that chose the round."""
        return self.inner.validation_nodes

    @property
    def n_nodes(self) -> int:  # type: ignore[override]
        """Number of nodes of the fit's graph."""
        return self.inner.n_nodes

    @cached_property
    def temperatures(self) -> Array:
        """The temperature of every node of the fit's graph."""
        return self.find_temperatures()

    @cached_property
    def score_tensor(self) -> torch.Tensor:  # type: ignore[override]
        """Scores of all nodes of the fit's graph."""
        return self._scale(self.inner.score_tensor, self.inner.link(), self.temperatures)

    def find_temperatures(self, graph: Graph | None = None) -> Array:
        """Return the temperature of every node of a graph, or of that of the fit."""
        if not COLUMNS[self.method]:  # so that a model from a file needs no graph
            n_nodes = self.inner.n_nodes if graph is None else graph.n_nodes
            return self.learned(np.zeros((n_nodes, 0)))
        known = self.known_graph(graph)
        proba = find_proba(self.inner, graph)
        return self.learned(describe_nodes(self.method, proba, known))

    def find_scores(self, nodes: ArrayLike, graph: Graph | None = None) -> torch.Tensor:
        """Return the scores of ``nodes``, divided by their temperatures."""
        if graph is None:
            scores = self.score_tensor
        else:
            rows = np.arange(graph.n_nodes)
            found = self.inner.find_scores(rows, graph)
            scores = self._scale(found, self.inner.link(), self.find_temperatures(graph))
        return scores[as_rows(nodes, len(scores)).to(scores.device)]

    def stage(self, nodes: ArrayLike, graph: Graph | None = None) -> Iterator[tuple[int, torch.Tensor]]:
        """Yield (t, scores of ``nodes``) of every stage, by the temperatures of the last."""
        rows = np.asarray(nodes, np.int64)
        own = self.find_temperatures(graph)[rows]
        for t, scores in self.inner.stage(nodes, graph):
            yield t, self._scale(scores, self.inner.link(t), own)

    def link(self, t: int | None = None) -> Link:
        """Return that of the loss, whatever the stage."""
        return self.loss.link  # type: ignore[no-any-return]

    def known_graph(self, graph: Graph | None) -> Graph:
        """Return the graph that was given, checked, or that of the fit."""
        return self.inner.known_graph(graph)

    def explain(self, nodes: ArrayLike, *, graph: Graph | None = None) -> Explanation:
        """Return how nodes came to the scores of the model inside, before temperatures divide them."""
        return self.inner.explain(nodes, graph=graph)

    def contributions(self, nodes: ArrayLike, *, graph: Graph | None = None) -> Contributions:
        """Return those of the model inside, which sum to its scores, or probabilities."""
        return self.inner.contributions(nodes, graph=graph)

    def scale_shares(self, nodes: ArrayLike | None = None, *, graph: Graph | None = None) -> dict[str, float]:
        """Return those of the model inside."""
        return self.inner.scale_shares(nodes, graph=graph)

    def response_curves(self, *, graph: Graph | None = None, n_points: int = 201) -> ResponseCurves:
        """Return those of the model inside."""
        return self.inner.response_curves(graph=graph, n_points=n_points)

    def with_graph(self, graph: Graph) -> Self:
        """Return the model of a file with the graph of its fit at hand; raise for another graph."""
        return replace(self, inner=self.inner.with_graph(graph))

    def rescore(self, graph: Graph) -> torch.Tensor:
        """Return the scores with other features or edges, divided by the temperatures as they were."""
        return self._scale(self.inner.rescore(graph), self.inner.link(), self.temperatures)

    def column_importances(self, *, graph: Graph | None = None) -> dict[str, float]:
        """Return those of the model inside."""
        return self.inner.column_importances(graph=graph)

    def _scale(self, scores: torch.Tensor, link: Link, temperatures: Array) -> torch.Tensor:
        proba = self.task.proba(scores.double(), link)
        divisor = torch.as_tensor(temperatures, device=scores.device)[:, None]
        return (as_scores(self.task, proba) / divisor).to(scores.dtype)


@dataclass(eq=False, repr=False)
class Calibrated(ClassifierMixin, BaseEstimator):
    """A fitted classifier with calibrated probabilities.

    Parameters
    ----------
    model
        A fitted :class:`~gbgnn.GBGNNClassifier`, or its ``model_``, for one class per node.
    method
        ``"temperature"``: one temperature for all nodes. ``"graph"``: one for each, by how far its neighbours
        agree, how much surer it is than they are, and its degree.

    Attributes
    ----------
    model_
        The calibrated model, a :class:`CalibratedModel`, which goes wherever a fitted model goes.
    temperatures_
        The temperature of every node of the fit's graph.
    classes_
        The classes, in the order of the columns of probabilities.

    Examples
    --------
    >>> from gbgnn import GBGNNClassifier, datasets
    >>> from gbgnn.reliability import Reliability
    >>> data = datasets.csbm(n_nodes=300, per_class=10, seed=0)
    >>> model = GBGNNClassifier(n_rounds=3, preset="fast", random_state=0)
    >>> model = model.fit(data.train, data.y[data.train], graph=data.graph)
    >>> calibrated = Calibrated(model).fit(data.val, data.y[data.val])
    >>> before, after = (Reliability.of(m, data.test, data.y[data.test]) for m in (model, calibrated))
    >>> after.ece < before.ece
    True
    >>> bool((calibrated.predict(data.test) == model.predict(data.test)).all())
    True
    """

    model: Any
    _: KW_ONLY
    method: str = "temperature"

    def fit(self, nodes: ArrayLike, y: ArrayLike, *, graph: Graph | None = None) -> Self:
        """Learn the temperatures.

        Parameters
        ----------
        nodes
            Ids of labelled nodes that did not train the model: validation nodes.
        y
            Their classes.
        graph
            The graph, where it is another than that of the fit, or the model comes from a file.
        """
        check_choice("Calibrated", "method", self.method, COLUMNS)
        inner = as_predictor(self.model)
        check_one_class("Calibrated", inner)
        held_out = HeldOut.check(inner, nodes, y, graph)
        proba = find_proba(inner, graph)
        known = inner.known_graph(graph) if COLUMNS[self.method] else None
        columns = describe_nodes(self.method, proba, known)
        learned = Temperatures.fit(proba, columns, held_out.nodes, held_out.targets)
        self.model_ = CalibratedModel(inner, self.method, learned)
        return self

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes."""
        return self._fitted().classes

    @property
    def temperatures_(self) -> Array:
        """The temperature of every node of the fit's graph."""
        return self._fitted().temperatures

    def predict(self, nodes: ArrayLike, *, graph: Graph | None = None) -> NDArray[Any]:
        """Return the class of each node, that of the model inside."""
        return self._fitted().predict(nodes, graph=graph)

    def predict_proba(self, nodes: ArrayLike, *, graph: Graph | None = None) -> NDArray[Any]:
        """Return calibrated probabilities, columns in the order of ``classes_``."""
        return self._fitted().predict_proba(nodes, graph=graph)

    def score(
        self,
        nodes: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        graph: Graph | None = None,
    ) -> float:
        """Return the accuracy, that of the model inside."""
        return float(accuracy_score(y, self.predict(nodes, graph=graph), sample_weight=sample_weight))

    def record(self) -> dict[str, Any]:
        """Return the settings and what was learned, for a file."""
        return {"method": self.method, "learned": self._fitted().learned.record()}

    @classmethod
    def from_record(cls, model: Any, record: Mapping[str, Any]) -> Self:
        """Build it again, around a model."""
        calibrated = cls(model, method=record["method"])
        check_one_class("Calibrated", as_predictor(model))
        learned = Temperatures.from_record(record["method"], record["learned"])
        calibrated.model_ = CalibratedModel(as_predictor(model), record["method"], learned)
        return calibrated

    def _fitted(self) -> CalibratedModel:
        check_is_fitted(self, "model_")
        return self.model_


def check_one_class(owner: str, model: Predictor) -> None:
    """Raise unless every node has one class."""
    if not model.task.has_classes:
        what = "several labels per node" if model.task.has_proba else "numbers"
        hint = "" if model.task.has_proba else "; PredictionIntervals makes intervals of numbers"
        raise ParameterError(f"{owner} is for one class per node; this model predicts {what}{hint}.")


def find_proba(model: Predictor, graph: Graph | None = None) -> Array:
    """Return the probabilities of all nodes of a graph, or of that of the fit, in double precision."""
    if graph is None:
        scores = model.score_tensor
    else:
        scores = model.find_scores(np.arange(model.known_graph(graph).n_nodes), graph)
    return np.asarray(model.task.proba(scores.double(), model.link()).cpu())
