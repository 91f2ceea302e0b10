"""Gradient boosting for graphs: deep multi-scale graph neural networks with guarantees."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gbgnn._version import __version__

if TYPE_CHECKING:
    from gbgnn import datasets
    from gbgnn.aggregation import (
        Adjacency,
        Beside,
        Identity,
        InputInjection,
        KernelTargetAlignment,
        Lazy,
        LearnedHops,
        Linear,
        NonLinear,
    )
    from gbgnn.blend import BlendedModel
    from gbgnn.boosting import FunctionalGradient, Samme, SammeR, StopReason
    from gbgnn.calibration import Calibrated
    from gbgnn.callbacks import Callback, Checkpoint, EarlyStopping
    from gbgnn.conformal import PredictionIntervals, PredictionSets
    from gbgnn.estimators import GBGNNClassifier, GBGNNRegressor
    from gbgnn.features import GraphFeatures, Neighbourhood
    from gbgnn.finetuning import FineTuner
    from gbgnn.graph import Graph
    from gbgnn.guarantees import cluster_bound, depth_bound, generalisation_bound, holdout_bound
    from gbgnn.labels import NodeSplit
    from gbgnn.learners import (
        MLP,
        BestOf,
        BoostedTrees,
        ConsistentNetwork,
        ConstrainedMLP,
        ConvolutionNetwork,
        CrossFitted,
        GraphNetwork,
        PropagatedResiduals,
        SklearnLearner,
        Stages,
        Turns,
        WideReLU,
    )
    from gbgnn.losses import (
        AbsoluteError,
        Huber,
        Poisson,
        Quantile,
        SigmoidCrossEntropy,
        SoftmaxCrossEntropy,
        SquaredError,
    )
    from gbgnn.model import FittedModel
    from gbgnn.on_table import OnTable
    from gbgnn.persistence import load, save
    from gbgnn.propagation import (
        AugmentedAdjacency,
        GivenMatrix,
        NormalizedAdjacency,
        NormalizedLaplacian,
        RandomWalk,
    )
    from gbgnn.smoothing import smoothing_profile
    from gbgnn.tables import NodeTable, TableEncoder
    from gbgnn.tasks import Classification, MultiLabel, Regression
    from gbgnn.theory import weak_learning

__all__ = [
    "MLP",
    "AbsoluteError",
    "Adjacency",
    "AugmentedAdjacency",
    "Beside",
    "BestOf",
    "BlendedModel",
    "BoostedTrees",
    "Calibrated",
    "Callback",
    "Checkpoint",
    "Classification",
    "ConsistentNetwork",
    "ConstrainedMLP",
    "ConvolutionNetwork",
    "CrossFitted",
    "EarlyStopping",
    "FineTuner",
    "FittedModel",
    "FunctionalGradient",
    "GBGNNClassifier",
    "GBGNNRegressor",
    "GivenMatrix",
    "Graph",
    "GraphFeatures",
    "GraphNetwork",
    "Huber",
    "Identity",
    "InputInjection",
    "KernelTargetAlignment",
    "Lazy",
    "LearnedHops",
    "Linear",
    "MultiLabel",
    "Neighbourhood",
    "NodeSplit",
    "NodeTable",
    "NonLinear",
    "NormalizedAdjacency",
    "NormalizedLaplacian",
    "OnTable",
    "Poisson",
    "PredictionIntervals",
    "PredictionSets",
    "PropagatedResiduals",
    "Quantile",
    "RandomWalk",
    "Regression",
    "Samme",
    "SammeR",
    "SigmoidCrossEntropy",
    "SklearnLearner",
    "SoftmaxCrossEntropy",
    "SquaredError",
    "Stages",
    "StopReason",
    "TableEncoder",
    "Turns",
    "WideReLU",
    "__version__",
    "cluster_bound",
    "datasets",
    "depth_bound",
    "generalisation_bound",
    "holdout_bound",
    "load",
    "predictions_frame",
    "save",
    "smoothing_profile",
    "weak_learning",
]

_HOMES = {
    "gbgnn.blend": ("BlendedModel",),
    "gbgnn.aggregation": (
        *("Adjacency", "Identity", "InputInjection", "KernelTargetAlignment", "Lazy"),
        *("Linear", "NonLinear", "Beside", "LearnedHops"),
    ),
    "gbgnn.boosting": ("FunctionalGradient", "Samme", "SammeR", "StopReason"),
    "gbgnn.calibration": ("Calibrated",),
    "gbgnn.callbacks": ("Callback", "Checkpoint", "EarlyStopping"),
    "gbgnn.conformal": ("PredictionIntervals", "PredictionSets"),
    "gbgnn.features": ("GraphFeatures", "Neighbourhood"),
    "gbgnn.estimators": ("GBGNNClassifier", "GBGNNRegressor"),
    "gbgnn.finetuning": ("FineTuner",),
    "gbgnn.graph": ("Graph",),
    "gbgnn.labels": ("NodeSplit",),
    "gbgnn.guarantees": ("cluster_bound", "depth_bound", "generalisation_bound", "holdout_bound"),
    "gbgnn.losses": (
        *("AbsoluteError", "Huber", "Poisson", "Quantile"),
        *("SigmoidCrossEntropy", "SoftmaxCrossEntropy", "SquaredError"),
    ),
    "gbgnn.model": ("FittedModel",),
    "gbgnn.on_table": ("OnTable",),
    "gbgnn.tasks": ("Classification", "MultiLabel", "Regression"),
    "gbgnn.learners": (
        *("MLP", "BestOf", "BoostedTrees", "ConsistentNetwork", "ConstrainedMLP", "ConvolutionNetwork"),
        *(
            "CrossFitted",
            "GraphNetwork",
            "PropagatedResiduals",
            "SklearnLearner",
            "Stages",
            "Turns",
            "WideReLU",
        ),
    ),
    "gbgnn.persistence": ("load", "save"),
    "gbgnn.predictions": ("predictions_frame",),
    "gbgnn.propagation": (
        *("AugmentedAdjacency", "NormalizedAdjacency", "RandomWalk", "NormalizedLaplacian"),
        "GivenMatrix",
    ),
    "gbgnn.smoothing": ("smoothing_profile",),
    "gbgnn.tables": ("NodeTable", "TableEncoder"),
    "gbgnn.theory": ("weak_learning",),
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: torch takes seconds, which ``gbgnn --help`` spares."""
    if name == "datasets":
        return import_module("gbgnn.datasets")
    for home, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(home), name)
            return value
    raise AttributeError(f"module 'gbgnn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
