"""b: the small learners."""

from gbgnn.learners.base import Head, Heads, HeadSpace, Learner, ListedHeads
from gbgnn.learners.constrained import ConstrainedMLP
from gbgnn.learners.graph_head import GraphNetworkHead
from gbgnn.learners.graph_network import GraphNetwork
from gbgnn.learners.mlp import MLP
from gbgnn.learners.network import MLPHead
from gbgnn.learners.sklearn import SklearnHead, SklearnLearner
from gbgnn.learners.stages import Stages
from gbgnn.learners.tree_head import TreesHead
from gbgnn.learners.trees import BoostedTrees
from gbgnn.learners.wide import WideReLU
from gbgnn.rounds import WeakTask

__all__ = [
    "MLP",
    "BoostedTrees",
    "ConstrainedMLP",
    "GraphNetwork",
    "GraphNetworkHead",
    "Head",
    "HeadSpace",
    "Heads",
    "Learner",
    "ListedHeads",
    "MLPHead",
    "SklearnHead",
    "SklearnLearner",
    "Stages",
    "TreesHead",
    "WeakTask",
    "WideReLU",
]
