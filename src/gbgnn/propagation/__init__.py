"""P: how it is built from a graph, and how representations are multiplied by it."""

from gbgnn.propagation.propagator import Propagator
from gbgnn.propagation.recipes import (
    AugmentedAdjacency,
    GivenMatrix,
    NormalizedAdjacency,
    NormalizedLaplacian,
    Propagation,
    RandomWalk,
)

__all__ = [
    "AugmentedAdjacency",
    "GivenMatrix",
    "NormalizedAdjacency",
    "NormalizedLaplacian",
    "Propagation",
    "Propagator",
    "RandomWalk",
]
