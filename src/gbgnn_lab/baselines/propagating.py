"""Mixing apart from learning: SGC mixes first, APPNP last, and the MLP, for control, not at all."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from gbgnn.propagation import AugmentedAdjacency
from gbgnn_lab.baselines.base import (
    BaselineFit,
    BaselineModel,
    NetworkModel,
    count,
    count_parameters,
    dropout_rate,
    penalty,
    share,
    step,
)
from gbgnn_lab.baselines.data import TrainingData
from gbgnn_lab.baselines.layers import Dense
from gbgnn_lab.baselines.matrices import DenseMatrix, Matrix, dropout
from gbgnn_lab.baselines.training import Group, train


class Perceptron(nn.Module):
    """Linear layers, ReLU between them, dropout before each."""

    def __init__(self, widths: list[int], dropout: float, *, bias: bool = True) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Dense(*pair, bias=bias) for pair in pairwise(widths))
        self.dropout = dropout

    def forward(self, X: Matrix) -> torch.Tensor:
        """Return the outputs of the rows ``X``."""
        share = self.dropout if self.training else 0.0
        first, *rest = self.layers
        H: torch.Tensor = first(X.dropped(share))
        for layer in rest:
            H = layer(dropout(H.relu(), share))
        return H


@dataclass(frozen=True, kw_only=True)
class MLP(NetworkModel):
    """A perceptron with one hidden layer that never sees an edge: what the features alone are worth.

    Parameters
    ----------
    units
        Width of the hidden layer.

    Examples
    --------
    >>> MLP()
    MLP(learning_rate=0.01, weight_decay=0.0005, epochs=200, patience=None, dropout=0.5, units=16)
    """

    penalized = "perceptron.layers"

    units: int = count(16)

    def build(self, data: TrainingData) -> dict[str, Any]:
        """Return the perceptron."""
        return {"perceptron": Perceptron([data.features.n_columns, self.units, data.n_classes], self.dropout)}

    def forward(self, network: Any, data: TrainingData, rate: float) -> torch.Tensor:
        """Return the scores of all nodes."""
        scores: torch.Tensor = network.perceptron(data.features)
        return scores


@dataclass(frozen=True, kw_only=True)
class APPNP(NetworkModel):
    """Predict, then propagate: a perceptron whose outputs are mixed by personalised PageRank.

    Parameters
    ----------
    depth
        Steps of the power iteration, each one hop.
    restart
        Share of the perceptron's own output in every step (the paper's alpha).
    units
        Width of the hidden layer.
    edge_dropout
        Share of edges dropped in training, anew in every step.

    Examples
    --------
    >>> APPNP()
    APPNP(learning_rate=0.01, weight_decay=0.005, epochs=10000, patience=100, dropout=0.5, depth=10,
    restart=0.1, units=64, edge_dropout=0.5)
    """

    penalized = "perceptron.layers"

    depth: int = count(10)
    restart: float = share(0.1)
    units: int = count(64)
    edge_dropout: float = dropout_rate(0.5)
    weight_decay: float = penalty(5e-3)
    epochs: int = count(10_000)
    patience: int | None = count(100, optional=True)

    def build(self, data: TrainingData) -> dict[str, Any]:
        """Return the perceptron, and what mixes."""
        widths = [data.features.n_columns, self.units, data.n_classes]
        return {
            "perceptron": Perceptron(widths, self.dropout, bias=False),
            "P": data.mixing(AugmentedAdjacency()),
        }

    def forward(self, network: Any, data: TrainingData, rate: float) -> torch.Tensor:
        """Return the scores of all nodes, by power iteration."""
        edge_rate = self.edge_dropout if network.training else 0.0
        start: torch.Tensor = network.perceptron(data.features)
        H = start
        for _ in range(self.depth):
            H = torch.lerp(network.P.dropped(edge_rate) @ H, start, self.restart)
        return H


@dataclass(frozen=True, kw_only=True)
class SGC(BaselineModel):
    """Simplified graph convolution: logistic regression on the features, mixed ``depth`` times beforehand.

    Parameters
    ----------
    depth
        Hops.
    learning_rate, weight_decay, epochs, patience
        As for :class:`~gbgnn_lab.baselines.base.NetworkModel`.

    Examples
    --------
    >>> SGC()
    SGC(depth=2, learning_rate=0.2, weight_decay=5e-06, epochs=100, patience=None)
    """

    depth: int = count(2)
    learning_rate: float = step(0.2)
    weight_decay: float = penalty(5e-6)
    epochs: int = count(100)
    patience: int | None = count(None, optional=True)

    def fit(self, data: TrainingData) -> BaselineFit:
        """Mix, then train on the labelled rows alone."""
        inputs = data.inputs(AugmentedAdjacency())
        X = inputs.features.dense()
        for _ in range(self.depth):
            X = inputs.P(X)
        network = Perceptron([X.shape[1], data.n_classes], 0.0)
        return fit_rows(
            network,
            X,
            data,
            self.weight_decay,
            learning_rate=self.learning_rate,
            epochs=self.epochs,
            patience=self.patience,
        )


def fit_rows(
    network: Perceptron, X: torch.Tensor, data: TrainingData, weight_decay: float, **how: Any
) -> BaselineFit:
    """Train a perceptron on the training rows of ``X`` alone, and return scores of all rows."""
    network.to(data.device)
    groups: list[Group] = [(list(network.parameters()), weight_decay)]
    epoch = train(network, partial(score_rows, network, X), groups, data, **how)
    network.eval()
    with torch.no_grad():
        return BaselineFit(network(DenseMatrix(X)), epoch, count_parameters(network))


def score_rows(network: Perceptron, X: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Return the outputs for some rows of ``X``."""
    outputs: torch.Tensor = network(DenseMatrix(X[rows]))
    return outputs
