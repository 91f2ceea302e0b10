"""PredictionIntervals: for every node an interval of numbers that holds the true one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from gbgnn.conformal.quality import IntervalQuality, measure_by_degree
from gbgnn.conformal.quantile import as_vector, check_confidence, conformal_quantile
from gbgnn.errors import ParameterError
from gbgnn.graph import Graph
from gbgnn.held_out import HeldOut
from gbgnn.labels import as_nodes
from gbgnn.predictor import Predictor, as_predictor

Array = NDArray[np.float64]


@dataclass(eq=False, repr=False)
class PredictionIntervals(BaseEstimator):
    """Intervals that hold the true number with a given confidence, by split conformal prediction.

    Of a model of quantiles, the two of its levels that enclose ``confidence`` best are moved apart, or
    together, by as much as the calibration nodes ask for (Romano, Patterson and Candès 2019): such intervals
    are wide where numbers vary. Of any other regressor an interval is its prediction give or take what
    residuals of the calibration nodes were, of one width everywhere.

    Parameters
    ----------
    model
        A fitted :class:`~gbgnn.GBGNNRegressor`, or its ``model_``, of one number per node.
    confidence
        How often an interval is to hold the true number, in (0, 1).

    Attributes
    ----------
    calibration_bounds_, calibration_truth_
        What the model says of the calibration nodes, shape (n, levels), and their numbers.
    caveat_
        Why the confidence is not guaranteed exactly, a sentence; None where it is.

    Examples
    --------
    >>> from gbgnn import GBGNNRegressor, datasets
    >>> data = datasets.csbm(n_nodes=400, per_class=100, seed=0)
    >>> y = data.graph.features[:, 0] + data.y
    >>> model = GBGNNRegressor(loss="quantile", quantile=[0.05, 0.95], n_rounds=3, random_state=0)
    >>> model = model.fit(data.train, y[data.train], graph=data.graph)
    >>> intervals = PredictionIntervals(model).fit(data.val, y[data.val])
    >>> intervals.predict_interval(data.test).shape == (len(data.test), 2)
    True
    """

    model: Any
    _: KW_ONLY
    confidence: float = 0.9

    def fit(self, nodes: ArrayLike, y: ArrayLike, *, graph: Graph | None = None) -> Self:
        """Look at the calibration nodes.

        Parameters
        ----------
        nodes
            Ids of nodes that the model has not been trained on, and best has not been chosen by either.
        y
            Their numbers.
        graph
            The graph, where it is another than that of the fit, or the model comes from a file.
        """
        model = self.model_
        _check_one_number(model)
        held_out = HeldOut.check(model, nodes, y, graph)
        check_confidence("PredictionIntervals", self.confidence, len(held_out.nodes))
        self.calibration_bounds_ = _find_bounds(model, held_out.nodes, graph)
        self.calibration_truth_ = np.asarray(y, np.float64).ravel()
        self.caveat_ = held_out.caveat(f"a confidence of {self.confidence:g}")
        return self

    @property
    def model_(self) -> Predictor:
        """The fitted model."""
        return as_predictor(self.model)

    def predict_interval(
        self, nodes: ArrayLike, *, graph: Graph | None = None, confidence: float | None = None
    ) -> Array:
        """Return the lower and the upper end of each node's interval, shape (n, 2); infinite of too few.

        Another ``confidence`` than that of the settings asks nothing new of the calibration nodes.
        """
        check_is_fitted(self, "calibration_truth_")
        level, model = self._level(confidence), self.model_
        pair = _choose_pair(model.task.levels, level)
        lower, upper = self.calibration_bounds_[:, pair].T
        scores = np.maximum(lower - self.calibration_truth_, self.calibration_truth_ - upper)
        margin = conformal_quantile(scores, level)
        lower, upper = _find_bounds(model, nodes, graph)[:, pair].T
        # Moved together by more than they are apart, they meet in the middle.
        middle = (lower + upper) / 2
        return np.column_stack([np.minimum(lower - margin, middle), np.maximum(upper + margin, middle)])

    def predict(self, nodes: ArrayLike, *, graph: Graph | None = None) -> Array:
        """Return the number that the model predicts of each node."""
        return self.model_.predict(nodes, graph=graph)

    def evaluate(
        self, nodes: ArrayLike, y: ArrayLike, *, graph: Graph | None = None, confidence: float | None = None
    ) -> IntervalQuality:
        """Return how good the intervals of nodes are whose number is known."""
        found = self.predict_interval(nodes, graph=graph, confidence=confidence)
        return IntervalQuality.measure(found, np.asarray(y, np.float64), self._level(confidence))

    def evaluate_by_degree(
        self, nodes: ArrayLike, y: ArrayLike, *, graph: Graph | None = None, confidence: float | None = None
    ) -> list[dict[str, Any]]:
        """Return the same for nodes of each degree: a dictionary with ``from``, ``to`` and ``quality``."""
        known = self.model_.known_graph(graph)
        found = self.predict_interval(nodes, graph=graph, confidence=confidence)
        truth, level = np.asarray(y, np.float64), self._level(confidence)
        return measure_by_degree(
            known, as_nodes(nodes), lambda own: IntervalQuality.measure(found[own], truth[own], level)
        )

    def record(self) -> dict[str, Any]:
        """Return the settings and what was learned, for a file."""
        check_is_fitted(self, "calibration_truth_")
        learned = {"bounds": self.calibration_bounds_.T.tolist(), "truth": self.calibration_truth_.tolist()}
        return {"confidence": self.confidence, "caveat_": self.caveat_, **learned}

    @classmethod
    def from_record(cls, model: Any, record: Mapping[str, Any]) -> Self:
        """Build the intervals again, around a model."""
        intervals = cls(model, confidence=record["confidence"])
        check_confidence("PredictionIntervals", intervals.confidence)
        _check_one_number(as_predictor(model))
        intervals.calibration_truth_ = as_vector(record["truth"])
        intervals.calibration_bounds_ = np.column_stack([as_vector(each) for each in record["bounds"]])
        levels = as_predictor(model).task.levels
        expected = len(intervals.calibration_truth_), 1 if levels is None else len(levels)
        if intervals.calibration_bounds_.shape != expected:
            raise ValueError(f"the bounds of the calibration nodes must have shape {expected}")
        intervals.caveat_ = record["caveat_"]
        return intervals

    def _level(self, confidence: float | None) -> float:
        if confidence is None:
            return self.confidence
        check_confidence("PredictionIntervals", confidence, len(self.calibration_truth_))
        return confidence


def _check_one_number(model: Predictor) -> None:
    """Raise unless every node has one number."""
    if model.task.class_names is not None:
        raise ParameterError(
            "PredictionIntervals is for numbers; this model predicts classes or labels. PredictionSets makes "
            "sets of classes."
        )
    n_levels = 1 if model.task.levels is None else len(model.task.levels)
    if model.task.n_columns != n_levels:
        raise ParameterError(
            f"PredictionIntervals is for one number per node; this model predicts "
            f"{model.task.n_columns // n_levels}. Fit one model for each."
        )


def _find_bounds(model: Predictor, nodes: ArrayLike, graph: Graph | None) -> Array:
    """Return the quantiles of nodes, or in one column what is predicted of them."""
    rows = as_nodes(nodes, unique=False)
    levels = model.task.levels
    found = model.predict(rows, graph=graph, quantiles=levels)
    return np.asarray(found, np.float64).reshape(len(rows), -1)


def _choose_pair(levels: Array | None, confidence: float) -> list[int]:
    """Return which two of the fitted levels lie nearest to those that leave out as much on either side.

    Examples
    --------
    >>> _choose_pair(np.array([0.025, 0.05, 0.5, 0.95, 0.975]), 0.9), _choose_pair(None, 0.9)
    ([1, 3], [0, 0])
    """
    if levels is None:
        return [0, 0]
    tails = ((1 - confidence) / 2, (1 + confidence) / 2)
    return [int(np.argmin(np.abs(levels - tail))) for tail in tails]
