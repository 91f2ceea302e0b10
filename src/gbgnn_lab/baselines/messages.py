"""Layers that weigh every edge, from PyTorch Geometric: GAT and MoNet."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from gbgnn.errors import MissingDependencyError
from gbgnn_lab.baselines.base import NetworkModel, count, dropout_rate, step
from gbgnn_lab.baselines.data import TrainingData
from gbgnn_lab.baselines.matrices import dropout


def import_geometric(what: str) -> Any:
    """Return ``torch_geometric.nn``, or say how to install it."""
    try:
        with warnings.catch_warnings():
            # It still compiles parts of itself by torch.jit when imported, which torch deprecates.
            warnings.simplefilter("ignore", DeprecationWarning)
            import torch_geometric.nn
    except ImportError as error:
        raise MissingDependencyError(f"the baseline {what}", "torch_geometric", "lab") from error
    return torch_geometric.nn


@dataclass(frozen=True, kw_only=True)
class GAT(NetworkModel):
    """Graph attention network, ELU between layers. Edge weights are not used: the layer makes its own.

    Parameters
    ----------
    depth
        Layers, each one hop.
    units, heads
        Width of a head, and heads, side by side, of a hidden layer.
    output_heads
        Heads, averaged, of the last layer.
    dropout
        Share of features and of attention dropped in every layer.

    Examples
    --------
    >>> GAT()
    GAT(learning_rate=0.005, weight_decay=0.0005, epochs=1000, patience=100, dropout=0.6, depth=2, units=8,
    heads=8, output_heads=1)
    """

    depth: int = count(2)
    units: int = count(8)
    heads: int = count(8)
    output_heads: int = count(1)
    dropout: float = dropout_rate(0.6)
    learning_rate: float = step(0.005)
    epochs: int = count(1000)
    patience: int | None = count(100, optional=True)

    def build(self, data: TrainingData) -> dict[str, Any]:
        """Return the layers."""
        convolution = partial(import_geometric("gat").GATConv, dropout=self.dropout)
        widths = [data.features.n_columns, *[self.heads * self.units] * (self.depth - 1)]
        last = convolution(widths[-1], data.n_classes, heads=self.output_heads, concat=False)
        hidden = [convolution(n_in, self.units, self.heads) for n_in in widths[:-1]]
        return {"layers": nn.ModuleList([*hidden, last])}

    def forward(self, network: Any, data: TrainingData, rate: float) -> torch.Tensor:
        """Return the scores of all nodes."""
        first, *rest = network.layers
        H: torch.Tensor = first(data.features.dropped(rate).tensor, data.edges)
        for layer in rest:
            H = layer(dropout(functional.elu(H), rate), data.edges)
        return H


@dataclass(frozen=True, kw_only=True)
class MoNet(NetworkModel):
    """Mixture model network, ReLU between layers; an edge's coordinates are learned from its ends' degrees.

    Parameters
    ----------
    depth, units
        Layers, each one hop; width of a hidden one.
    kernels, coordinates
        Gaussians in a layer, and the dimension they live in.

    Examples
    --------
    >>> MoNet()
    MoNet(learning_rate=0.01, weight_decay=0.0005, epochs=200, patience=None, dropout=0.5, depth=2, units=16,
    kernels=3, coordinates=2)
    """

    depth: int = count(2)
    units: int = count(16)
    kernels: int = count(3)
    coordinates: int = count(2)

    def build(self, data: TrainingData) -> dict[str, Any]:
        """Return the layers, the maps from degrees to coordinates, and the degrees."""
        convolution = import_geometric("monet").GMMConv
        widths = pairwise([data.features.n_columns, *[self.units] * (self.depth - 1), data.n_classes])
        return {
            "layers": nn.ModuleList(convolution(*pair, self.coordinates, self.kernels) for pair in widths),
            "maps": nn.ModuleList(nn.Linear(2, self.coordinates) for _ in range(self.depth)),
            "degrees": _inverse_root_degrees(data),
        }

    def forward(self, network: Any, data: TrainingData, rate: float) -> torch.Tensor:
        """Return the scores of all nodes."""
        places = [coordinates(network.degrees).tanh() for coordinates in network.maps]
        first, *rest = network.layers
        H: torch.Tensor = first(data.features.dropped(rate).tensor, data.edges, places[0])
        for layer, place in zip(rest, places[1:], strict=True):
            H = layer(dropout(H.relu(), rate), data.edges, place)
        return H


def _inverse_root_degrees(data: TrainingData) -> torch.Tensor:
    """Return for every edge the inverse square roots of the in-degrees of its two ends."""
    _, targets = data.edges
    degrees = torch.bincount(targets, minlength=data.n_nodes).clamp_min(1)
    return degrees.to(torch.float32).rsqrt()[data.edges].t().contiguous()
