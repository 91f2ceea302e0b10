"""b: the small learners."""

from gbgnn.learners.base import Head, Heads, HeadSpace, Learner, ListedHeads
from gbgnn.learners.constrained import ConstrainedMLP
from gbgnn.learners.mlp import MLP
from gbgnn.learners.network import MLPHead
from gbgnn.learners.sklearn import SklearnHead, SklearnLearner
from gbgnn.learners.trees import BoostedTrees, TreesHead
from gbgnn.learners.wide import WideReLU
from gbgnn.rounds import WeakTask

__all__ = [
    "MLP",
    "BoostedTrees",
    "ConstrainedMLP",
    "Head",
    "HeadSpace",
    "Heads",
    "Learner",
    "ListedHeads",
    "MLPHead",
    "SklearnHead",
    "SklearnLearner",
    "TreesHead",
    "WeakTask",
    "WideReLU",
]
