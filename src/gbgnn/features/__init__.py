"""Columns made of a graph, for any estimator that takes a table."""

from gbgnn.features.transformer import GraphFeatures

__all__ = ["GraphFeatures"]
