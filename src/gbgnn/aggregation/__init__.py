"""g: how node representations are mixed along the graph before each round."""

from gbgnn.aggregation.alignment import KernelTargetAlignment
from gbgnn.aggregation.base import Aggregation, Hop, HopSpace
from gbgnn.aggregation.beside import Beside, BesideHop
from gbgnn.aggregation.learned import LearnedHop, LearnedHops
from gbgnn.aggregation.mixing import Linear, MixingHop, NonLinear
from gbgnn.aggregation.polynomial import IDENTITY, Adjacency, Identity, InputInjection, Lazy, PolynomialHop

__all__ = [
    "IDENTITY",
    "Adjacency",
    "Aggregation",
    "Beside",
    "BesideHop",
    "Hop",
    "HopSpace",
    "Identity",
    "InputInjection",
    "KernelTargetAlignment",
    "Lazy",
    "LearnedHop",
    "LearnedHops",
    "Linear",
    "MixingHop",
    "NonLinear",
    "PolynomialHop",
]
