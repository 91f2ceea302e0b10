"""Layers that weigh every edge, from PyTorch Geometric: GAT and MoNet."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from gbgnn.errors import MissingDependencyError
from gbgnn_lab.baselines.base import NetworkModel, count, dropout_rate, step
from gbgnn_lab.baselines.data import TrainingData
from gbgnn_lab.baselines.matrices import dropout


def geometric(what: str) -> Any:
    """Return ``torch_geometric.nn``, or say how to install it."""
    try:
        with warnings.catch_warnings():
            # It still compiles parts of itself by torch.jit when imported, which torch deprecates.
            warnings.simplefilter("ignore", DeprecationWarning)
            import torch_geometric.nn
    except ImportError as error:
        raise MissingDependencyError(f"the baseline {what}", "torch_geometric", "lab") from error
    return torch_geometric.nn


class AttentionNetwork(nn.Module):
    """Attention layers with ELU between them."""

    def __init__(self, settings: GAT, data: TrainingData) -> None:
        super().__init__()
        convolution = geometric("gat").GATConv
        width = settings.heads * settings.units
        hidden = pairwise([data.features.n_columns, *[width] * (settings.depth - 1)])
        n_last = width if settings.depth > 1 else data.features.n_columns
        options = {"dropout": settings.dropout}
        last = convolution(n_last, data.n_classes, heads=settings.output_heads, concat=False, **options)
        self.layers = nn.ModuleList(
            [*(convolution(n_in, settings.units, settings.heads, **options) for n_in, _ in hidden), last]
        )
        self.edges, self.X, self.dropout = data.edges, data.features, settings.dropout

    def forward(self) -> torch.Tensor:
        """Return the scores of all nodes."""
        share = self.dropout if self.training else 0.0
        first, *rest = self.layers
        H: torch.Tensor = first(self.X.dropped(share).tensor, self.edges)
        for layer in rest:
            H = layer(dropout(functional.elu(H), share), self.edges)
        return H


@dataclass(frozen=True, kw_only=True)
class GAT(NetworkModel):
    """Graph attention network. Edge weights are not used: the layer makes its own.

    Parameters
    ----------
    depth
        Layers, each one hop.
    units, heads
        Width of a head, and heads, side by side, of a hidden layer.
    output_heads
        Heads, averaged, of the last layer.
    dropout
        Share of features and of attention silenced in every layer.

    Examples
    --------
    >>> GAT()
    GAT(learning_rate=0.005, weight_decay=0.0005, epochs=1000, patience=100, depth=2, units=8, heads=8,
    output_heads=1, dropout=0.6)
    """

    depth: int = count(2)
    units: int = count(8)
    heads: int = count(8)
    output_heads: int = count(1)
    dropout: float = dropout_rate(0.6)
    learning_rate: float = step(0.005)
    epochs: int = count(1000)
    patience: int | None = count(100, optional=True)

    def network(self, data: TrainingData) -> nn.Module:
        """Return the network."""
        return AttentionNetwork(self, data)


class MixtureNetwork(nn.Module):
    """Gaussian mixture layers over learned coordinates of every edge, ReLU between them."""

    def __init__(self, settings: MoNet, data: TrainingData) -> None:
        super().__init__()
        convolution = geometric("monet").GMMConv
        widths = pairwise([data.features.n_columns, *[settings.units] * (settings.depth - 1), data.n_classes])
        n_coordinates = settings.coordinates
        self.layers = nn.ModuleList(convolution(*pair, n_coordinates, settings.kernels) for pair in widths)
        self.maps = nn.ModuleList(nn.Linear(2, n_coordinates) for _ in self.layers)
        self.edges, self.X, self.dropout = data.edges, data.features, settings.dropout
        self.degrees = _inverse_root_degrees(data)

    def forward(self) -> torch.Tensor:
        """Return the scores of all nodes."""
        share = self.dropout if self.training else 0.0
        places = [coordinates(self.degrees).tanh() for coordinates in self.maps]
        first, *rest = self.layers
        H: torch.Tensor = first(self.X.dropped(share).tensor, self.edges, places[0])
        for layer, place in zip(rest, places[1:], strict=True):
            H = layer(dropout(H.relu(), share), self.edges, place)
        return H


@dataclass(frozen=True, kw_only=True)
class MoNet(NetworkModel):
    """Mixture model network; an edge's coordinates are learned from the degrees of its ends.

    Parameters
    ----------
    depth, units, dropout
        Layers, each one hop; width of a hidden one; share silenced before every layer.
    kernels, coordinates
        Gaussians in a layer, and the dimension they live in.

    Examples
    --------
    >>> MoNet()
    MoNet(learning_rate=0.01, weight_decay=0.0005, epochs=200, patience=None, depth=2, units=16,
    kernels=3, coordinates=2, dropout=0.5)
    """

    depth: int = count(2)
    units: int = count(16)
    kernels: int = count(3)
    coordinates: int = count(2)
    dropout: float = dropout_rate(0.5)

    def network(self, data: TrainingData) -> nn.Module:
        """Return the network."""
        return MixtureNetwork(self, data)


def _inverse_root_degrees(data: TrainingData) -> torch.Tensor:
    """Return for every edge the inverse square roots of the numbers of nodes that its two ends hear."""
    _, hearing = data.edges
    degrees = torch.bincount(hearing, minlength=data.n_nodes).clamp_min(1)
    return degrees.to(torch.float32).rsqrt()[data.edges].t().contiguous()
