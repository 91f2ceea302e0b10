"""Stacks of graph convolutions, each layer one hop: GCN, GraphSAGE, JK-Net, GCNII; and TAGCN."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import nn

from gbgnn.propagation import AugmentedAdjacency, NormalizedAdjacency, RandomWalk
from gbgnn_lab.baselines.base import NetworkModel, count, dropout_rate, penalty, share, step
from gbgnn_lab.baselines.data import TrainingData
from gbgnn_lab.baselines.layers import (
    Dense,
    GraphConvolution,
    MeanConvolution,
    PolynomialConvolution,
    ResidualConvolution,
    identity_strength,
)
from gbgnn_lab.baselines.matrices import Matrix, SparseMatrix, dropout
from gbgnn_lab.baselines.training import Group


class Stack(nn.Module):
    """Layers one after the other, ReLU between them, dropout before each."""

    def __init__(self, layers: Sequence[nn.Module], mixing: SparseMatrix, X: Matrix, dropout: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.mixing, self.X, self.dropout = mixing, X, dropout

    def forward(self) -> torch.Tensor:
        """Return the scores of all nodes."""
        share = self.dropout if self.training else 0.0
        first, *rest = self.layers
        H: torch.Tensor = first(self.mixing, self.X.dropped(share))
        for layer in rest:
            H = layer(self.mixing, dropout(H.relu(), share))
        return H


def _widths(data: TrainingData, depth: int, units: int) -> list[tuple[int, int]]:
    """Return the numbers of inputs and outputs of each layer."""
    return list(pairwise([data.features.n_columns, *[units] * (depth - 1), data.n_classes]))


@dataclass(frozen=True, kw_only=True)
class GCN(NetworkModel):
    """Graph convolutional network: ``depth`` layers ``relu(P H W + b)``, the last without ReLU.

    Parameters
    ----------
    depth
        Layers, each one hop.
    units
        Width of a hidden layer.
    dropout
        Share silenced before every layer.
    weight_decay
        L2 penalty on the first layer; the others have none.

    Examples
    --------
    >>> GCN()
    GCN(learning_rate=0.01, weight_decay=0.0005, epochs=200, patience=None, depth=2, units=16,
    dropout=0.5)
    """

    penalized = "layers"

    depth: int = count(2)
    units: int = count(16)
    dropout: float = dropout_rate(0.5)

    def network(self, data: TrainingData) -> nn.Module:
        """Return the stack."""
        layers = [GraphConvolution(*widths) for widths in _widths(data, self.depth, self.units)]
        return Stack(layers, data.mixing(AugmentedAdjacency()), data.features, self.dropout)


@dataclass(frozen=True, kw_only=True)
class TAGCN(NetworkModel):
    """Topology adaptive network: every layer a polynomial in the normalised adjacency without self loops.

    Parameters
    ----------
    depth
        Layers; each reaches ``degree`` hops.
    degree
        Highest power in a layer (the paper's K).
    units, dropout
        Width of a hidden layer; share silenced before every layer.

    Examples
    --------
    >>> TAGCN()
    TAGCN(learning_rate=0.01, weight_decay=0.0005, epochs=200, patience=None, depth=2, degree=2, units=16,
    dropout=0.5)
    """

    depth: int = count(2)
    degree: int = count(2)
    units: int = count(16)
    dropout: float = dropout_rate(0.5)

    def network(self, data: TrainingData) -> nn.Module:
        """Return the stack."""
        widths = _widths(data, self.depth, self.units)
        layers = [PolynomialConvolution(*pair, self.degree) for pair in widths]
        return Stack(layers, data.mixing(NormalizedAdjacency()), data.features, self.dropout)


@dataclass(frozen=True, kw_only=True)
class GraphSAGE(NetworkModel):
    """GraphSAGE with the mean aggregator, on the whole graph instead of on sampled neighbours.

    Parameters
    ----------
    depth, units, dropout
        Layers, each one hop; width of a hidden one; share silenced before every layer.

    Examples
    --------
    >>> GraphSAGE()
    GraphSAGE(learning_rate=0.01, weight_decay=0.0005, epochs=200, patience=None, depth=2, units=16,
    dropout=0.5)
    """

    depth: int = count(2)
    units: int = count(16)
    dropout: float = dropout_rate(0.5)

    def network(self, data: TrainingData) -> nn.Module:
        """Return the stack."""
        layers = [MeanConvolution(*widths) for widths in _widths(data, self.depth, self.units)]
        return Stack(layers, data.mixing(RandomWalk()), data.features, self.dropout)


class JumpingNetwork(nn.Module):
    """GCN layers whose outputs are all put side by side before the last, linear layer."""

    def __init__(self, settings: JKNet, data: TrainingData) -> None:
        super().__init__()
        units = settings.units
        widths = pairwise([data.features.n_columns, *[units] * settings.depth])
        self.layers = nn.ModuleList(GraphConvolution(*pair) for pair in widths)
        self.head = Dense(units * settings.depth, data.n_classes)
        self.P = data.mixing(AugmentedAdjacency())
        self.X, self.dropout = data.features, settings.dropout

    def forward(self) -> torch.Tensor:
        """Return the scores of all nodes."""
        share = self.dropout if self.training else 0.0
        first, *rest = self.layers
        kept: list[torch.Tensor] = [first(self.P, self.X.dropped(share)).relu()]
        for layer in rest:
            kept.append(layer(self.P, dropout(kept[-1], share)).relu())
        scores: torch.Tensor = self.head(dropout(torch.cat(kept, dim=1), share))
        return scores


@dataclass(frozen=True, kw_only=True)
class JKNet(NetworkModel):
    """Jumping knowledge network, concatenating: a linear layer reads the outputs of all GCN layers.

    Parameters
    ----------
    depth, units, dropout
        Layers, each one hop; their width; share silenced before every layer.

    Examples
    --------
    >>> JKNet()
    JKNet(learning_rate=0.005, weight_decay=0.0005, epochs=500, patience=None, depth=2, units=32,
    dropout=0.5)
    """

    depth: int = count(2)
    units: int = count(32)
    dropout: float = dropout_rate(0.5)
    learning_rate: float = step(0.005)
    epochs: int = count(500)

    def network(self, data: TrainingData) -> nn.Module:
        """Return the network."""
        return JumpingNetwork(self, data)


class ResidualNetwork(nn.Module):
    """A linear layer, hops that keep a share of its output, and a linear layer."""

    def __init__(self, settings: GCNII, data: TrainingData) -> None:
        super().__init__()
        self.enter = Dense(data.features.n_columns, settings.units)
        strengths = [identity_strength(settings.identity, i + 1) for i in range(settings.depth)]
        self.layers = nn.ModuleList(
            ResidualConvolution(settings.units, settings.restart, strength) for strength in strengths
        )
        self.leave = Dense(settings.units, data.n_classes)
        self.P = data.mixing(AugmentedAdjacency())
        self.X, self.dropout = data.features, settings.dropout

    def forward(self) -> torch.Tensor:
        """Return the scores of all nodes."""
        share = self.dropout if self.training else 0.0
        start = self.enter(self.X.dropped(share)).relu()
        H = start
        for layer in self.layers:
            H = layer(self.P, dropout(H, share), start).relu()
        scores: torch.Tensor = self.leave(dropout(H, share))
        return scores


@dataclass(frozen=True, kw_only=True)
class GCNII(NetworkModel):
    """GCN with initial residual and identity mapping: built to be deep.

    Parameters
    ----------
    depth, units, dropout
        Hops; width; share silenced before every layer.
    restart
        Share of the first representation in every hop (the paper's alpha).
    identity
        How far the maps are from the identity (the paper's lambda).
    weight_decay, mixing_weight_decay
        L2 penalty on the two linear layers, and on the hops.

    Examples
    --------
    >>> GCNII()
    GCNII(learning_rate=0.01, weight_decay=0.0005, epochs=1500, patience=100, depth=64, units=64,
    dropout=0.6, restart=0.1, identity=0.5, mixing_weight_decay=0.01)
    """

    depth: int = count(64)
    units: int = count(64)
    dropout: float = dropout_rate(0.6)
    restart: float = share(0.1)
    identity: float = step(0.5)
    epochs: int = count(1500)
    patience: int | None = count(100, optional=True)
    mixing_weight_decay: float = penalty(0.01)

    def network(self, data: TrainingData) -> nn.Module:
        """Return the network."""
        return ResidualNetwork(self, data)

    def groups(self, network: nn.Module) -> list[Group]:
        """Penalise hops and linear layers apart."""
        assert isinstance(network, ResidualNetwork)
        linear = [*network.enter.parameters(), *network.leave.parameters()]
        return [
            (list(network.layers.parameters()), self.mixing_weight_decay),
            (linear, self.weight_decay),
        ]
