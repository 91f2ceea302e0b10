"""b: the small learners."""

from gbgnn.learners.base import Head, HeadSpace, Learner
from gbgnn.learners.constrained import ConstrainedMLP
from gbgnn.learners.mlp import MLP
from gbgnn.learners.network import MLPHead
from gbgnn.learners.sklearn import SklearnHead, SklearnLearner
from gbgnn.learners.wide import WideReLU
from gbgnn.rounds import WeakTask

__all__ = [
    "MLP",
    "ConstrainedMLP",
    "Head",
    "HeadSpace",
    "Learner",
    "MLPHead",
    "SklearnHead",
    "SklearnLearner",
    "WeakTask",
    "WideReLU",
]
