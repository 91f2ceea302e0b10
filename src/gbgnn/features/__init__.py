"""Columns made of a graph, for any estimator that takes a table."""

from gbgnn.features.neighbour_targets import NeighbourTargets
from gbgnn.features.neighbourhood import LabelledRows, Neighbourhood, NodeColumns, OwnColumns
from gbgnn.features.transformer import GraphFeatures

__all__ = ["GraphFeatures", "LabelledRows", "NeighbourTargets", "Neighbourhood", "NodeColumns", "OwnColumns"]
