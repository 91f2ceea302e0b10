"""PredictionSets: for every node the classes that it may well be of, so that the true one is among them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from gbgnn._checks import check_choice, check_number
from gbgnn._random import root_seed
from gbgnn.calibration import check_one_class, find_proba
from gbgnn.conformal.class_scores import CLASS_SCORES
from gbgnn.conformal.quality import SetQuality, measure_by_degree
from gbgnn.conformal.quantile import as_vector, check_confidence, conformal_quantile
from gbgnn.diffusion import diffuse
from gbgnn.graph import Graph
from gbgnn.held_out import HeldOut
from gbgnn.labels import as_nodes
from gbgnn.predictor import Predictor, as_predictor, as_rows

Mask = NDArray[np.bool_]


@dataclass(eq=False, repr=False)
class PredictionSets(BaseEstimator):
    r"""Sets of classes that hold the true one with a given confidence, by split conformal prediction.

    Held-out nodes with labels say how strange the true class looks to a model; a class is in the set of a
    node if it does not look stranger than nearly all of these. If those nodes and the others were drawn
    alike, a set holds the class of its node with probability ``confidence`` at least, whatever the model; a
    bad model has large sets. The strangeness of classes may be averaged over neighbours (diffusion-adaptive
    prediction sets, Zargarbashi, Antonelli and Bojchevski 2023), :math:`(1 - \lambda) S + \lambda P S`.

    Parameters
    ----------
    model
        A fitted classifier, its ``model_``, or a :class:`~gbgnn.Calibrated` one.
    confidence
        How often a set is to hold the true class, in (0, 1).
    score
        ``"lac"``: the smallest sets on average. ``"aps"``: larger sets where the model is unsure, so that
        nodes of all kinds are covered about as often.
    diffusion
        The :math:`\lambda` in [0, 1], how much neighbours count; 0 looks at no neighbours. With ``"aps"``
        0.5 makes much smaller sets where neighbours are alike.
    allow_empty
        Whether a set may be empty, where nothing looks usual. Otherwise the least strange class is in it, and
        sets may hold the truth a little more often than they say.
    random_state
        Seed of the random shares of ``"aps"``.

    Attributes
    ----------
    calibration_scores_
        The scores of the true classes of the calibration nodes, in ascending order.
    caveat_
        Why the confidence is not guaranteed exactly, a sentence; None where it is.
    classes_
        The classes, in the order of the columns of sets.

    Examples
    --------
    >>> from gbgnn import GBGNNClassifier, datasets
    >>> data = datasets.csbm(n_nodes=400, per_class=10, seed=0)
    >>> model = GBGNNClassifier(n_rounds=3, preset="fast", random_state=0)
    >>> model = model.fit(data.train, data.y[data.train], graph=data.graph)
    >>> sets = PredictionSets(model, confidence=0.95).fit(data.val, data.y[data.val])
    >>> sets.predict_set(data.test[:2]).shape
    (2, 2)
    >>> sets.evaluate(data.test, data.y[data.test]).coverage > 0.9
    True
    """

    model: Any
    _: KW_ONLY
    confidence: float = 0.9
    score: str = "lac"
    diffusion: float = 0.0
    allow_empty: bool = False
    random_state: Any = 0

    def fit(self, nodes: ArrayLike, y: ArrayLike, *, graph: Graph | None = None) -> Self:
        """Look at the calibration nodes.

        Parameters
        ----------
        nodes
            Ids of nodes that the model has not been trained on, and best has not been chosen by either.
        y
            Their classes.
        graph
            The graph, where it is another than that of the fit, or the model comes from a file.
        """
        model = self.model_
        check_one_class("PredictionSets", model)
        self._check_settings()
        held_out = HeldOut.check(model, nodes, y, graph)
        check_confidence("PredictionSets", self.confidence, len(held_out.nodes))
        self.seed_ = root_seed(self.random_state)
        scores = self._find_scores(model, graph)[held_out.nodes, held_out.targets]
        self.calibration_scores_ = np.sort(scores)
        self.caveat_ = held_out.caveat(f"a confidence of {self.confidence:g}")
        return self

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes."""
        return self.model_.classes

    @property
    def model_(self) -> Predictor:
        """The fitted model."""
        return as_predictor(self.model)

    def predict_set(
        self, nodes: ArrayLike, *, graph: Graph | None = None, confidence: float | None = None
    ) -> Mask:
        """Return which classes are in the set of each node, shape (n, K), columns as in ``classes_``.

        Another ``confidence`` than that of the settings asks nothing new of the calibration nodes.
        """
        check_is_fitted(self, "calibration_scores_")
        level = self._level(confidence)
        scores = self._find_scores(self.model_, graph)
        own = scores[as_rows(nodes, len(scores)).numpy()]
        sets: Mask = own <= conformal_quantile(self.calibration_scores_, level)
        if not self.allow_empty:
            sets[np.arange(len(own)), own.argmin(axis=1)] = True
        return sets

    def predict(self, nodes: ArrayLike, *, graph: Graph | None = None) -> NDArray[Any]:
        """Return the class that the model predicts of each node."""
        return self.model_.predict(nodes, graph=graph)

    def evaluate(
        self, nodes: ArrayLike, y: ArrayLike, *, graph: Graph | None = None, confidence: float | None = None
    ) -> SetQuality:
        """Return how good the sets of nodes are whose class is known."""
        sets = self.predict_set(nodes, graph=graph, confidence=confidence)
        return SetQuality.measure(sets, self._encode(y), self._level(confidence))

    def evaluate_by_degree(
        self, nodes: ArrayLike, y: ArrayLike, *, graph: Graph | None = None, confidence: float | None = None
    ) -> list[dict[str, Any]]:
        """Return the same for nodes of each degree: a dictionary with ``from``, ``to`` and ``quality``."""
        known = self.model_.known_graph(graph)
        sets, targets = self.predict_set(nodes, graph=graph, confidence=confidence), self._encode(y)
        level = self._level(confidence)
        return measure_by_degree(
            known, as_nodes(nodes), lambda own: SetQuality.measure(sets[own], targets[own], level)
        )

    def record(self) -> dict[str, Any]:
        """Return the settings and what was learned, for a file."""
        check_is_fitted(self, "calibration_scores_")
        names = ("confidence", "score", "diffusion", "allow_empty", "seed_", "caveat_")
        return {name: getattr(self, name) for name in names} | {"scores": self.calibration_scores_.tolist()}

    @classmethod
    def from_record(cls, model: Any, record: Mapping[str, Any]) -> Self:
        """Build the sets again, around a model."""
        names = ("confidence", "score", "diffusion", "allow_empty")
        sets = cls(model, **{name: record[name] for name in names}, random_state=int(record["seed_"]))
        sets._check_settings()
        check_one_class("PredictionSets", sets.model_)
        sets.seed_, sets.caveat_ = int(record["seed_"]), record["caveat_"]
        sets.calibration_scores_ = np.sort(as_vector(record["scores"]))
        return sets

    def _check_settings(self) -> None:
        check_choice("PredictionSets", "score", self.score, CLASS_SCORES)
        check_number("PredictionSets", "diffusion", self.diffusion, 0, 1)
        check_confidence("PredictionSets", self.confidence)

    def _find_scores(self, model: Predictor, graph: Graph | None) -> NDArray[np.float64]:
        """Return the score of every class for all nodes."""
        proba = find_proba(model, graph)
        uniform = np.random.default_rng(self.seed_).random(len(proba))
        scores = CLASS_SCORES[self.score](proba, uniform)
        return diffuse(model.known_graph(graph), scores, self.diffusion) if self.diffusion else scores

    def _encode(self, y: ArrayLike) -> NDArray[np.int64]:
        return self.model_.task.encode(y)

    def _level(self, confidence: float | None) -> float:
        if confidence is None:
            return self.confidence
        check_confidence("PredictionSets", confidence, len(self.calibration_scores_))
        return confidence
