"""Conformal prediction: sets of classes and intervals of numbers that hold the truth as often as they say."""

from gbgnn.conformal.class_scores import CLASS_SCORES, aps_scores, lac_scores
from gbgnn.conformal.intervals import PredictionIntervals
from gbgnn.conformal.quality import IntervalQuality, SetQuality
from gbgnn.conformal.quantile import conformal_quantile, n_needed
from gbgnn.conformal.sets import PredictionSets

__all__ = [
    "CLASS_SCORES",
    "IntervalQuality",
    "PredictionIntervals",
    "PredictionSets",
    "SetQuality",
    "aps_scores",
    "conformal_quantile",
    "lac_scores",
    "n_needed",
]
