"""NodePredictor: what a fitted model answers, whatever it was fitted by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted

from gbgnn.boosting import BoostingRule, Ensemble, apply
from gbgnn.errors import ParameterError
from gbgnn.finetuning import SoftVote
from gbgnn.fitting import build_inputs, check_graph
from gbgnn.graph import Graph, as_nodes, check_range
from gbgnn.losses import Loss
from gbgnn.registry import as_part
from gbgnn.theory import Certificate


class NodePredictor(ClassifierMixin, BaseEstimator):
    """Predictions by node id, from the fitted attributes and parameters of a classifier.

    A node of the graph of the fit is looked up in ``scores_``; for another graph, and for the model stopped
    at each round, the rounds of ``ensemble_`` are applied.
    """

    @property
    def certificate_(self) -> Certificate:
        """What every round promised of the training loss, and what it kept."""
        check_is_fitted(self, "scores_")
        smoothness, n_labelled = self._loss().smoothness, len(self.train_nodes_)
        return Certificate.from_history(self.history_.rows, smoothness, n_labelled)

    def predict(self, nodes: ArrayLike, *, graph: Graph | None = None) -> NDArray[Any]:
        """Return the class of each node; ``graph`` other than that of the fit for inductive use."""
        scores = self._scores(nodes, graph)
        labels: NDArray[Any] = self.classes_[self._loss().predict(scores).numpy()]
        return labels

    def predict_proba(self, nodes: ArrayLike, *, graph: Graph | None = None) -> NDArray[Any]:
        """Return class probabilities, shape (n, K), columns in the order of ``classes_``."""
        return self._proba(self._scores(nodes, graph), self.best_round_)

    def decision_function(self, nodes: ArrayLike, *, graph: Graph | None = None) -> NDArray[Any]:
        """Return the scores, shape (n, K); for two classes one number, positive for the second."""
        scores = self._scores(nodes, graph).numpy()
        if len(self.classes_) > 2:
            return scores
        return scores[:, -1] if scores.shape[1] == 1 else scores[:, 1] - scores[:, 0]

    def score(
        self,
        nodes: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        graph: Graph | None = None,
    ) -> float:
        """Return the accuracy on ``nodes``."""
        return float(accuracy_score(y, self.predict(nodes, graph=graph), sample_weight=sample_weight))

    def staged_predict(self, nodes: ArrayLike, *, graph: Graph | None = None) -> Iterator[NDArray[Any]]:
        """Yield the classes after each round, of the model stopped there."""
        for _, scores in self._staged_scores(nodes, graph):
            yield self.classes_[self._loss().predict(scores).numpy()]

    def staged_predict_proba(self, nodes: ArrayLike, *, graph: Graph | None = None) -> Iterator[NDArray[Any]]:
        """Yield the class probabilities after each round."""
        for t, scores in self._staged_scores(nodes, graph):
            yield self._proba(scores, t)

    def staged_score(
        self,
        nodes: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        graph: Graph | None = None,
    ) -> Iterator[float]:
        """Yield the accuracy after each round."""
        for labels in self.staged_predict(nodes, graph=graph):
            yield float(accuracy_score(y, labels, sample_weight=sample_weight))

    def _rule(self) -> BoostingRule:
        rule: BoostingRule = as_part("rule", self.rule)
        if self.learning_rate is None:
            return rule
        changed: BoostingRule = clone(rule).set_params(learning_rate=self.learning_rate)
        return changed

    def _voting_rule(self) -> BoostingRule:
        """Return the rule by which the fitted learners vote: fine-tuning softens a choice of one class."""
        rule = self._rule()
        return SoftVote(rule=rule) if self.is_soft_ else rule

    def _loss(self) -> Loss:
        return self._rule().loss_for(len(self.classes_))

    def _proba(self, scores: torch.Tensor, t: int) -> NDArray[Any]:
        total_eta = sum(self.etas_[:t])
        proba: NDArray[Any] = self._rule().proba(scores, total_eta, len(self.classes_)).numpy()
        return proba

    def _scores(self, nodes: ArrayLike, graph: Graph | None) -> torch.Tensor:
        """Return the scores of ``nodes`` at the chosen round."""
        check_is_fitted(self, "scores_")
        if graph is None:
            rows = as_nodes(nodes, unique=False)
            check_range(rows, len(self.scores_))
            return torch.from_numpy(self.scores_[rows])
        *_, (_, scores) = self._staged_scores(nodes, graph, self.ensemble_[: self.best_round_])
        return scores

    def _staged_scores(
        self, nodes: ArrayLike, graph: Graph | None, ensemble: Ensemble | None = None
    ) -> Iterator[tuple[int, torch.Tensor]]:
        """Yield (t, scores of ``nodes``) of the model stopped at each round, applied anew."""
        check_is_fitted(self, "scores_")
        graph = self.graph_ if graph is None else graph
        if graph is None:
            raise ParameterError(
                "this model was loaded from a file, which does not hold its graph; pass graph=."
            )
        check_graph(graph, self.n_features_in_)
        rows = as_nodes(nodes, unique=False)
        check_range(rows, graph.n_nodes)
        inputs = build_inputs(self, graph)
        ensemble = self.ensemble_ if ensemble is None else ensemble
        for t, scores in apply(ensemble, inputs, self._voting_rule(), len(self.classes_)):
            yield t, scores[torch.as_tensor(rows, device=scores.device)].cpu()
