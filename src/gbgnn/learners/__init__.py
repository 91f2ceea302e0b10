"""b: the small learners, trained on the labelled rows only."""

from gbgnn.learners.base import Head, HeadSpace, Learner, WeakTask
from gbgnn.learners.mlp import MLP, MLPHead
from gbgnn.learners.sklearn import SklearnHead, SklearnLearner

__all__ = [
    "MLP",
    "Head",
    "HeadSpace",
    "Learner",
    "MLPHead",
    "SklearnHead",
    "SklearnLearner",
    "WeakTask",
]
