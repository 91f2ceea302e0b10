"""Residual graph networks: GCN, GraphSAGE and GAT as they are built today, with a small search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.preprocessing import QuantileTransformer, StandardScaler
from torch import nn

from gbgnn.errors import ParameterError
from gbgnn.propagation import AugmentedAdjacency, Propagation, RandomWalk
from gbgnn_lab.baselines.base import BaselineFit, NetworkModel, count, dropout_rate, penalty, step
from gbgnn_lab.baselines.convolutional import Dense, GraphConvolution, MeanConvolution
from gbgnn_lab.baselines.data import SparseMatrix, TrainingData, dropout
from gbgnn_lab.baselines.messages import import_geometric

DROPOUTS = (0.0, 0.2, 0.5)
LEARNING_RATES = (0.003, 0.01)
_MOST_QUANTILES = 1000


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
class ResidualModel(NetworkModel):
    """A linear layer, residual blocks of one hop each, layer norm and a linear layer.

    Dense columns go in as normal quantiles, so that no unit and no outlier matters. What is None is chosen by
    validation, from :data:`DROPOUTS` and :data:`LEARNING_RATES`; without validation nodes, the first rate and
    the second share are taken.
    """

    predicts_numbers = True
    propagation: ClassVar[Propagation] = AugmentedAdjacency()
    """What the blocks mix with."""
    convolution: ClassVar[Callable[..., nn.Module]]
    """From the numbers of columns to a layer, called with what mixes and the rows to mix."""

    depth: int = count(2)  # blocks, each one hop
    units: int = count(64)  # width
    dropout: float | None = dropout_rate(None)  # type: ignore[assignment]
    learning_rate: float | None = step(None)  # type: ignore[assignment]
    weight_decay: float = penalty(0.0)
    epochs: int = count(500)
    patience: int | None = count(40, optional=True)

    def build(self, data: TrainingData) -> dict[str, Any]:
        """Return the layers, and what they mix."""
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

    def fit(self, data: TrainingData) -> BaselineFit:
        """Train the network with each of the settings that are left open, and keep the best."""
        dropouts = DROPOUTS if self.dropout is None else (self.dropout,)
        rates = LEARNING_RATES if self.learning_rate is None else (self.learning_rate,)
        if data.validation is None:
            dropouts, rates = dropouts[1:2] or dropouts, rates[:1]
        fits: list[tuple[tuple[int, float], int, BaselineFit]] = []
        for share, rate in product(dropouts, rates):
            fitted = NetworkModel.fit(replace(self, dropout=share, learning_rate=rate), data)
            fits.append((_rank(fitted, data), -len(fits), fitted))
        return max(fits)[-1]


def _rank(fitted: BaselineFit, data: TrainingData) -> tuple[int, float]:
    """Return how good scores are for the validation nodes; the larger, the better."""
    if data.validation is None:
        return (0, 0.0)
    hits, loss = data.judge(fitted.scores[data.validation.rows], data.validation)
    return hits, -loss


def prepare_columns(data: TrainingData) -> torch.Tensor | SparseMatrix:
    """Return dense columns as normal quantiles of standard deviation one, gaps as the mean; others as is."""
    X: Any = data.graph.features
    if not isinstance(X, np.ndarray):
        return data.features
    n_quantiles = min(_MOST_QUANTILES, len(X))
    quantiles = QuantileTransformer(n_quantiles=n_quantiles, output_distribution="normal", random_state=0)
    normal = StandardScaler().fit_transform(quantiles.fit_transform(X))
    return torch.tensor(np.nan_to_num(normal), dtype=torch.float32, device=data.device)


@dataclass(frozen=True, kw_only=True)
class ResidualGCN(ResidualModel):
    """Residual blocks of graph convolutions."""

    convolution = GraphConvolution


@dataclass(frozen=True, kw_only=True)
class ResidualSAGE(ResidualModel):
    """Residual blocks in which a node stands beside the mean of its neighbours."""

    propagation = RandomWalk()
    convolution = MeanConvolution


class Attention(nn.Module):
    """PyTorch Geometric's graph attention, heads side by side."""

    def __init__(self, n_in: int, n_out: int, n_heads: int) -> None:
        super().__init__()
        self.layer = import_geometric("residual_gat").GATConv(n_in, n_out // n_heads, n_heads)

    def forward(self, edges: torch.Tensor, H: torch.Tensor) -> torch.Tensor:
        """Return what the neighbours say, each as loud as attention has it."""
        told: torch.Tensor = self.layer(H, edges)
        return told


@dataclass(frozen=True, kw_only=True)
class ResidualGAT(ResidualModel):
    """Residual blocks in which a node weighs its neighbours by attention; edge weights are not used."""

    heads: int = count(4)  # side by side, ``units`` in all

    def convolution(self, n_in: int, n_out: int) -> nn.Module:
        """Return a layer of attention."""
        return Attention(n_in, n_out, self.heads)

    def mixing(self, data: TrainingData) -> torch.Tensor:
        """Return the edges."""
        return data.edges

    def check(self) -> None:
        """Raise when a setting is out of range, or the heads do not share the units."""
        super().check()
        if self.units % self.heads:
            raise ParameterError(
                f"ResidualGAT.units must be a multiple of heads; got {self.units} units, {self.heads} heads."
            )
