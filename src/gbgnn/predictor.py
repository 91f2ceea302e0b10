"""Predictor: what is common to all that predicts, one fitted model or an average of several."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import NotFittedError

from gbgnn._html import list_some, show_facts
from gbgnn._threads import map_threads, one_thread
from gbgnn.errors import AbsentError
from gbgnn.explanations import (
    Attributions,
    Contributions,
    Explanation,
    NeighbourContributions,
    ResponseCurves,
)
from gbgnn.graph import Graph
from gbgnn.labels import as_nodes, check_range
from gbgnn.losses import Loss
from gbgnn.metrics import Metric, Predicted
from gbgnn.tasks import Link, Task

_ROWS = 1 << 14


class Predictor(ABC):
    """Scores of nodes, looked up or of another graph, and all that is made of them.

    A subclass says how scores are found, which stages there are, and by which link scores become predictions.
    """

    task: Task
    loss: Loss
    metric: Metric
    score_tensor: torch.Tensor
    n_nodes: int
    seed: int
    settings: Mapping[str, Any]
    train_nodes: NDArray[np.int64]
    validation_nodes: NDArray[np.int64] | None

    @property
    @abstractmethod
    def graph_checksum(self) -> str | None:
        """Checksum of the graph of the fit; None where a file does not tell."""

    @property
    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """What training came to, for a record."""

    @property
    @abstractmethod
    def history_rows(self) -> list[dict[str, Any]]:
        """What was measured of every round, a row each."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return what a person wants to know first: by names in words, for a notebook."""

    @abstractmethod
    def find_scores(self, nodes: ArrayLike, graph: Graph | None = None) -> torch.Tensor:
        """Return the scores of ``nodes``: looked up, or of another graph."""

    @abstractmethod
    def rescore(self, graph: Graph) -> torch.Tensor:
        """Return the scores of all nodes of the fit's graph with other features or edges.

        Unlike in another graph, labelled nodes are known to be what they are.
        """

    @abstractmethod
    def stage(self, nodes: ArrayLike, graph: Graph | None = None) -> Iterator[tuple[int, torch.Tensor]]:
        """Yield (t, scores of ``nodes``) of every stage, numbered from 1."""

    @abstractmethod
    def link(self, t: int | None = None) -> Link:
        """Return what makes predictions of scores at a stage, or at the one that predicts."""

    @abstractmethod
    def known_graph(self, graph: Graph | None) -> Graph:
        """Return the graph that was given, checked, or that of the fit; say so where there is none."""

    @abstractmethod
    def column_importances(self, *, graph: Graph | None = None) -> dict[str, float]:
        """Return shares of the columns that learners see, by names in words, largest first."""

    @abstractmethod
    def explain(self, nodes: ArrayLike, *, graph: Graph | None = None) -> Explanation:
        """Return how ``nodes`` came to their scores, or to what an average says of them."""

    def contributions(self, nodes: ArrayLike, *, graph: Graph | None = None) -> Contributions:
        """Return what every round or member, and every distance, added to the predictions of ``nodes``."""
        return self.explain(nodes, graph=graph).contributions

    def attributions(self, nodes: ArrayLike, *, graph: Graph | None = None) -> Attributions:
        """Return what each of the user's columns added to the scores of ``nodes``."""
        return self.explain(nodes, graph=graph).attributions

    def neighbour_contributions(
        self, nodes: ArrayLike, *, graph: Graph | None = None
    ) -> list[NeighbourContributions]:
        """Return for each of ``nodes`` what every node that it hears of added to its scores."""
        return self.explain(nodes, graph=graph).neighbours

    @abstractmethod
    def scale_shares(self, nodes: ArrayLike | None = None, *, graph: Graph | None = None) -> dict[str, float]:
        """Return how much of all that was added to scores came from each distance; the sum is one."""

    @abstractmethod
    def response_curves(self, *, graph: Graph | None = None, n_points: int = 201) -> ResponseCurves:
        """Return by what rounds multiply the eigenvectors of P."""

    @abstractmethod
    def with_graph(self, graph: Graph) -> Self:
        """Return the model of a file with the graph of its fit at hand; raise for another graph."""

    @property
    def classes(self) -> NDArray[Any]:
        """The classes or labels, in the order of the columns of probabilities."""
        names = self.task.class_names
        if names is None:
            raise AbsentError(f"{type(self.task).__name__} has no classes.")
        return names

    @cached_property
    def scores(self) -> NDArray[Any]:
        """Scores of all nodes of the fit's graph, shape (N, K); copied from the device when asked for."""
        return np.asarray(self.score_tensor.cpu())

    def predict(
        self, nodes: ArrayLike, *, graph: Graph | None = None, quantiles: ArrayLike | None = None
    ) -> NDArray[Any]:
        """Return what is predicted of each node; ``graph`` other than that of the fit for inductive use.

        With ``quantiles``, levels that were fitted, these quantiles instead, the last axis over them.
        """
        scores = self.find_scores(nodes, graph)
        if quantiles is None:
            return self._decode(scores)
        decided = self.task.decide(scores, self.link())
        return self.task.decode_quantiles(decided.cpu().numpy(), quantiles)

    def predict_proba(self, nodes: ArrayLike, *, graph: Graph | None = None) -> NDArray[Any]:
        """Return probabilities, a column per class or label."""
        return self._proba(self.find_scores(nodes, graph))

    def decision_function(self, nodes: ArrayLike, *, graph: Graph | None = None) -> NDArray[Any]:
        """Return the scores, shape (n, K); for two classes one number, positive for the second."""
        return np.asarray(self.task.margins(self.find_scores(nodes, graph)).cpu())

    def predict_all(self, nodes: ArrayLike, *, graph: Graph | None = None) -> dict[str, NDArray[Any]]:
        """Return predictions and, where there are any, probabilities, the model applied once."""
        return self._predicted(self.find_scores(nodes, graph))

    def predict_blocks(
        self, nodes: ArrayLike, *, graph: Graph | None = None
    ) -> Iterator[dict[str, NDArray[Any]]]:
        """Yield what :meth:`predict_all` returns, some nodes at a time; of all there are scores alone."""
        for scores in self.find_scores(nodes, graph).split(4 * _ROWS):
            yield self._predicted(scores)

    def _predicted(self, scores: torch.Tensor) -> dict[str, NDArray[Any]]:
        result = {"predict": self._decode(scores)}
        if self.task.has_proba:
            result["predict_proba"] = self._proba(scores)
        return result

    def evaluate(self, nodes: ArrayLike, y: ArrayLike, *, graph: Graph | None = None) -> float:
        """Return how good the predictions are, by the metric of the fit."""
        scores = self.find_scores(nodes, graph)
        targets = torch.as_tensor(self.task.encode(y), device=scores.device)
        return self.metric.score(Predicted(self.task, scores, targets, self.link()))

    def staged_predict(self, nodes: ArrayLike, *, graph: Graph | None = None) -> Iterator[NDArray[Any]]:
        """Yield the predictions of each stage: of a model stopped at each round, or of the first members."""
        for t, scores in self.stage(nodes, graph):
            yield self._decode(scores, t)

    def staged_predict_proba(self, nodes: ArrayLike, *, graph: Graph | None = None) -> Iterator[NDArray[Any]]:
        """Yield the probabilities of each stage."""
        for t, scores in self.stage(nodes, graph):
            yield self._proba(scores, t)

    def _repr_html_(self) -> str:
        names = self.task.class_names
        classes = None if names is None else list_some([str(name) for name in names.tolist()])
        facts = {"task": type(self.task).__name__, "classes": classes, **self.describe(), "seed": self.seed}
        return show_facts(type(self).__name__, facts)

    def _decode(self, scores: torch.Tensor, t: int | None = None) -> NDArray[Any]:
        return self.task.decode(self.task.decide(scores, self.link(t)).cpu().numpy())

    def _proba(self, scores: torch.Tensor, t: int | None = None) -> NDArray[Any]:
        link, pieces = self.link(t), [scores]
        if scores.device.type == "cpu":
            pieces = list(
                scores.split(_ROWS)
            )  # the same whatever the number of threads, and so is the result
        with one_thread():
            found = map_threads(lambda rows: self.task.proba(rows, link), pieces, 16 * scores.numel())
        return np.asarray(torch.cat(found).cpu())


def as_predictor(model: Any) -> Predictor:
    """Return what predicts in a fitted estimator; a predictor is one itself."""
    fitted = getattr(model, "model_", model)
    if isinstance(fitted, Predictor):
        return fitted
    raise NotFittedError(
        f"a fitted model of gbgnn is needed; got {type(model).__name__}, which is not fitted, or none of "
        "gbgnn's."
    )


def as_rows(nodes: ArrayLike, n_nodes: int) -> torch.Tensor:
    """Return node ids as a tensor, checked."""
    rows = as_nodes(nodes, unique=False)
    check_range(rows, n_nodes)
    return torch.from_numpy(rows)
