"""OnTable: a fitted model as a function of the table of all nodes, for what scikit-learn does with tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import ClassifierTags, RegressorTags, Tags

from gbgnn.graph import Graph
from gbgnn.predictor import Predictor, as_predictor, as_rows


@dataclass(eq=False, repr=False)
class OnTable(BaseEstimator):
    """A fitted model whose input is the table of all nodes, and whose output is about some of them.

    An estimator of this library is asked about node ids, so that a tool that shuffles the rows of its input
    would shuffle which nodes are meant. This one is asked with features: edges stay, labelled nodes stay
    known, and a column that is shuffled is shuffled for neighbours, too.

    Parameters
    ----------
    model
        A fitted estimator of this library, or its ``model_``.
    graph
        The graph of the fit, whose edges stay.
    nodes
        The nodes that ``y`` is about; all where None.

    Examples
    --------
    >>> from sklearn.inspection import permutation_importance
    >>> from gbgnn import GBGNNClassifier, datasets
    >>> data = datasets.csbm(n_nodes=200, per_class=20, seed=0)
    >>> model = GBGNNClassifier(preset="fast", n_rounds=2, random_state=0)
    >>> model = model.fit(data.train, data.y[data.train], graph=data.graph)
    >>> on_table = OnTable(model, data.graph, data.test)
    >>> y = data.y[data.test]
    >>> lost = permutation_importance(on_table, data.graph.features, y, n_repeats=2, random_state=0)
    >>> lost.importances_mean.shape == (data.graph.n_features,)
    True
    """

    model: Any
    graph: Graph
    nodes: Any = None

    def fit(self, X: Any, y: Any = None) -> Self:
        """Return itself: the model is fitted, and stays as it is."""
        return self

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes of the model."""
        return self._predictor.classes

    def predict(self, X: Any) -> NDArray[Any]:
        """Return what is predicted of the nodes if the table of all nodes were X."""
        predictor, scores = self._predictor, self._rescore(X)
        return predictor.task.decode(predictor.task.decide(scores, predictor.link()).cpu().numpy())

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the probabilities of the nodes if the table of all nodes were X."""
        predictor = self._predictor
        return np.asarray(predictor.task.proba(self._rescore(X), predictor.link()).cpu())

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy for classes, the R2 for numbers, of the nodes."""
        judge = accuracy_score if self._predictor.task.has_proba else r2_score
        return float(judge(y, self.predict(X), sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        has_classes = self._predictor.task.has_proba
        tags.estimator_type = "classifier" if has_classes else "regressor"
        tags.classifier_tags = ClassifierTags() if has_classes else None
        tags.regressor_tags = None if has_classes else RegressorTags()
        return tags

    @property
    def _predictor(self) -> Predictor:
        return as_predictor(self.model)

    def _rescore(self, X: Any) -> Any:
        features, names = X, None
        if self.graph.table is None:  # a frame would be taken for a table with columns of its own kinds
            features, names = np.asarray(X), self.graph.feature_names if self.graph.is_named else None
        scores = self._predictor.rescore(Graph(self.graph.adjacency, features, feature_names=names))
        nodes = np.arange(len(scores)) if self.nodes is None else self.nodes
        return scores[as_rows(nodes, len(scores)).to(scores.device)]
