"""Residual graph networks: GCN, GraphSAGE and GAT as they are built today, with a small search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import torch
from torch import nn

from gbgnn.errors import ParameterError
from gbgnn.propagation import AugmentedAdjacency, Propagation, RandomWalk
from gbgnn_lab.baselines.attention import AttentionConvolution, HeadedEdges, add_self_loops
from gbgnn_lab.baselines.base import count, dropout_rate, penalty, step
from gbgnn_lab.baselines.convolutional import Dense, GraphConvolution, MeanConvolution
from gbgnn_lab.baselines.data import TrainingData, dropout
from gbgnn_lab.baselines.searching import SearchedModel, prepare_columns


class ResidualBlock(nn.Module):
    """``H + dropout(relu(convolution(norm(H))))``."""

    def __init__(self, n_units: int, convolution: nn.Module) -> None:
        super().__init__()
        self.norm, self.convolution = nn.LayerNorm(n_units), convolution

    def forward(self, mixing: Any, H: torch.Tensor, rate: float) -> torch.Tensor:
        """Return the rows, with what neighbours say added."""
        told: torch.Tensor = self.convolution(mixing, self.norm(H)).relu()
        added: torch.Tensor = dropout(told, rate)
        return H + added


@dataclass(frozen=True, kw_only=True)
class ResidualModel(SearchedModel):
    """A linear layer, residual blocks of one hop each, layer norm and a linear layer."""

    predicts_numbers = True
    searched = MappingProxyType({"depth": (2, 5), "dropout": (0.2, 0.5), "learning_rate": (0.003, 0.01)})
    propagation: ClassVar[Propagation] = AugmentedAdjacency()
    """What the blocks mix with."""
    convolution: ClassVar[Callable[..., nn.Module]]
    """From the numbers of columns to a layer, called with what mixes and the rows to mix."""

    depth: int | None = count(None, optional=True)  # blocks, each one hop
    units: int = count(64)  # width
    dropout: float | None = dropout_rate(None)  # type: ignore[assignment]
    learning_rate: float | None = step(None)  # type: ignore[assignment]
    weight_decay: float = penalty(0.0)
    epochs: int = count(1000)
    patience: int | None = count(100, optional=True)

    def build(self, data: TrainingData) -> dict[str, Any]:
        """Return the layers, and what they mix."""
        assert self.depth is not None  # one of the search
        blocks = [
            ResidualBlock(self.units, self.convolution(self.units, self.units)) for _ in range(self.depth)
        ]
        return {
            "enter": Dense(data.graph.n_features, self.units),
            "blocks": nn.ModuleList(blocks),
            "norm": nn.LayerNorm(self.units),
            "leave": Dense(self.units, data.n_outputs),
            "mixing": self.mixing(data),
            "X": prepare_columns(data),
        }

    def mixing(self, data: TrainingData) -> Any:
        """Return what the convolutions are called with."""
        return data.mixing(self.propagation)

    def forward(self, network: Any, data: TrainingData, rate: float) -> torch.Tensor:
        """Return the scores of all nodes."""
        H: torch.Tensor = dropout(network.enter(network.X).relu(), rate)
        for block in network.blocks:
            H = block(network.mixing, H, rate)
        scores: torch.Tensor = network.leave(network.norm(H))
        return scores


@dataclass(frozen=True, kw_only=True)
class ResidualGCN(ResidualModel):
    """Residual blocks of graph convolutions."""

    convolution = GraphConvolution


@dataclass(frozen=True, kw_only=True)
class ResidualSAGE(ResidualModel):
    """Residual blocks in which a node stands beside the mean of its neighbours."""

    propagation = RandomWalk()
    convolution = MeanConvolution


@dataclass(frozen=True, kw_only=True)
class ResidualGAT(ResidualModel):
    """Residual blocks in which a node weighs its neighbours by attention; edge weights are not used."""

    heads: int = count(4)  # side by side, ``units`` in all

    def convolution(self, n_in: int, n_out: int) -> nn.Module:
        """Return a layer of attention."""
        return AttentionConvolution(n_in, n_out, self.heads)

    def mixing(self, data: TrainingData) -> HeadedEdges:
        """Return the edges of every head, a node's own among them."""
        n_nodes = data.graph.n_nodes
        return HeadedEdges.build(add_self_loops(data.edges, n_nodes), n_nodes, self.heads)

    def check(self) -> None:
        """Raise when a setting is out of range, or the heads do not share the units."""
        super().check()
        if self.units % self.heads:
            raise ParameterError(
                f"ResidualGAT.units must be a multiple of heads; got {self.units} units, {self.heads} heads."
            )
