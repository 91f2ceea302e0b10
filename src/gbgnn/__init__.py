"""Gradient boosting for graphs: deep multi-scale graph neural networks with guarantees."""

from gbgnn import datasets
from gbgnn._version import __version__
from gbgnn.aggregation import (
    Adjacency,
    Identity,
    InputInjection,
    KernelTargetAlignment,
    Lazy,
)
from gbgnn.boosting import (
    Callback,
    Checkpoint,
    EarlyStopping,
    FunctionalGradient,
    Samme,
    SammeR,
    StopReason,
)
from gbgnn.estimators import GBGNNClassifier
from gbgnn.graph import Graph, NodeSplit
from gbgnn.learners import MLP, SklearnLearner
from gbgnn.persistence import load
from gbgnn.propagation import (
    AugmentedAdjacency,
    GivenMatrix,
    NormalizedAdjacency,
    NormalizedLaplacian,
    RandomWalk,
)

__all__ = [
    "MLP",
    "Adjacency",
    "AugmentedAdjacency",
    "Callback",
    "Checkpoint",
    "EarlyStopping",
    "FunctionalGradient",
    "GBGNNClassifier",
    "GivenMatrix",
    "Graph",
    "Identity",
    "InputInjection",
    "KernelTargetAlignment",
    "Lazy",
    "NodeSplit",
    "NormalizedAdjacency",
    "NormalizedLaplacian",
    "RandomWalk",
    "Samme",
    "SammeR",
    "SklearnLearner",
    "StopReason",
    "__version__",
    "datasets",
    "load",
]
