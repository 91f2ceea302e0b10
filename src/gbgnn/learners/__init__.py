"""b: the small learners."""

from gbgnn.learners.base import Head, Heads, HeadSpace, Learner, ListedHeads
from gbgnn.learners.consistency import ConsistentNetwork
from gbgnn.learners.constrained import ConstrainedMLP
from gbgnn.learners.convolutions import ConvolutionNetwork
from gbgnn.learners.cross_fitted import CrossFitted, CrossFittedHead
from gbgnn.learners.graph_head import GraphNetworkHead
from gbgnn.learners.graph_network import GraphNetwork
from gbgnn.learners.hop_head import HopHead
from gbgnn.learners.mlp import MLP
from gbgnn.learners.network import MLPHead
from gbgnn.learners.residuals import PropagatedResiduals, ResidualsHead
from gbgnn.learners.sklearn import SklearnHead, SklearnLearner
from gbgnn.learners.stages import BestOf, Stages, Turns
from gbgnn.learners.tree_head import TreesHead
from gbgnn.learners.trees import BoostedTrees
from gbgnn.learners.wide import WideReLU
from gbgnn.rounds import WeakTask

__all__ = [
    "MLP",
    "BestOf",
    "BoostedTrees",
    "ConsistentNetwork",
    "ConstrainedMLP",
    "ConvolutionNetwork",
    "CrossFitted",
    "CrossFittedHead",
    "GraphNetwork",
    "GraphNetworkHead",
    "Head",
    "HeadSpace",
    "Heads",
    "HopHead",
    "Learner",
    "ListedHeads",
    "MLPHead",
    "PropagatedResiduals",
    "ResidualsHead",
    "SklearnHead",
    "SklearnLearner",
    "Stages",
    "TreesHead",
    "Turns",
    "WeakTask",
    "WideReLU",
]
