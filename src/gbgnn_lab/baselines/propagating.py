"""Mixing apart from learning: SGC mixes first, APPNP last, and the MLP, for control, not at all."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import torch
from torch import nn

from gbgnn.propagation import AugmentedAdjacency
from gbgnn_lab.baselines.base import BaselineModel, NetworkModel, Outcome, n_parameters
from gbgnn_lab.baselines.layers import Dense
from gbgnn_lab.baselines.matrices import DenseMatrix, Matrix, dropout
from gbgnn_lab.baselines.task import Task
from gbgnn_lab.baselines.training import Group, Schedule, first_layer_decays, train


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


class FeatureNetwork(nn.Module):
    """A perceptron on the features of all nodes."""

    def __init__(self, perceptron: Perceptron, X: Matrix) -> None:
        super().__init__()
        self.perceptron, self.X = perceptron, X

    def forward(self) -> torch.Tensor:
        """Return the scores of all nodes."""
        scores: torch.Tensor = self.perceptron(self.X)
        return scores


class PageRankNetwork(nn.Module):
    """A perceptron on the features of all nodes, its outputs mixed by personalised PageRank."""

    def __init__(self, perceptron: Perceptron, settings: APPNP, task: Task) -> None:
        super().__init__()
        self.perceptron, self.X = perceptron, task.features
        self.P = task.mixing(AugmentedAdjacency())
        self.depth, self.restart, self.edge_dropout = settings.depth, settings.restart, settings.edge_dropout

    def forward(self) -> torch.Tensor:
        """Return the scores of all nodes, by power iteration."""
        share = self.edge_dropout if self.training else 0.0
        start: torch.Tensor = self.perceptron(self.X)
        H = start
        for _ in range(self.depth):
            H = torch.lerp(self.P.dropped(share) @ H, start, self.restart)
        return H


@dataclass(frozen=True, kw_only=True)
class MLP(NetworkModel):
    """A perceptron with one hidden layer that never sees an edge: what the features alone are worth.

    Parameters
    ----------
    units, dropout
        Width of the hidden layer; share silenced before every layer.
    weight_decay
        L2 penalty on the first layer; the other has none.

    Examples
    --------
    >>> MLP()
    MLP(learning_rate=0.01, weight_decay=0.0005, epochs=200, patience=None, units=16, dropout=0.5)
    """

    units: int = 16
    dropout: float = 0.5

    def network(self, task: Task) -> nn.Module:
        """Return the perceptron on the features."""
        perceptron = Perceptron([task.features.n_columns, self.units, task.n_classes], self.dropout)
        return FeatureNetwork(perceptron, task.features)

    def groups(self, network: nn.Module) -> list[Group]:
        """Penalise the first layer only."""
        assert isinstance(network, FeatureNetwork)
        return first_layer_decays(network.perceptron.layers, self.weight_decay)


@dataclass(frozen=True, kw_only=True)
class APPNP(NetworkModel):
    """Predict, then propagate: a perceptron whose outputs are mixed by personalised PageRank.

    Parameters
    ----------
    depth
        Steps of the power iteration, each one hop.
    restart
        Share of the perceptron's own output in every step (the paper's alpha).
    units, dropout
        Width of the hidden layer; share silenced before every layer.
    edge_dropout
        Share of edges silenced, anew in every step.
    weight_decay
        L2 penalty on the first layer; the other has none.

    Examples
    --------
    >>> APPNP()
    APPNP(learning_rate=0.01, weight_decay=0.005, epochs=10000, patience=100, depth=10, restart=0.1,
    units=64, dropout=0.5, edge_dropout=0.5)
    """

    depth: int = 10
    restart: float = 0.1
    units: int = 64
    dropout: float = 0.5
    edge_dropout: float = 0.5
    weight_decay: float = 5e-3
    epochs: int = 10_000
    patience: int | None = 100

    def network(self, task: Task) -> nn.Module:
        """Return the network."""
        widths = [task.features.n_columns, self.units, task.n_classes]
        perceptron = Perceptron(widths, self.dropout, bias=False)
        return PageRankNetwork(perceptron, self, task)

    def groups(self, network: nn.Module) -> list[Group]:
        """Penalise the first layer only."""
        assert isinstance(network, PageRankNetwork)
        return first_layer_decays(network.perceptron.layers, self.weight_decay)


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

    depth: int = 2
    learning_rate: float = 0.2
    weight_decay: float = 5e-6
    epochs: int = 100
    patience: int | None = None

    def fit(self, task: Task) -> Outcome:
        """Mix, then train on the labelled rows alone."""
        inputs = task.inputs(AugmentedAdjacency())
        X = inputs.features.dense()
        for _ in range(self.depth):
            X = inputs.P(X)
        schedule = Schedule(self.learning_rate, self.epochs, self.patience)
        return fit_rows(Perceptron([X.shape[1], task.n_classes], 0.0), X, task, schedule, self.weight_decay)


def fit_rows(
    network: Perceptron, X: torch.Tensor, task: Task, schedule: Schedule, weight_decay: float
) -> Outcome:
    """Train a perceptron on the training rows of ``X`` alone, and return scores of all rows."""
    network.to(task.device)
    groups = [Group(list(network.parameters()), weight_decay)]
    epoch = train(network, partial(rows_outputs, network, X), groups, task, schedule)
    network.eval()
    with torch.no_grad():
        return Outcome(network(DenseMatrix(X)), epoch, n_parameters(network))


def rows_outputs(network: Perceptron, X: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Return the outputs for some rows of ``X``."""
    outputs: torch.Tensor = network(DenseMatrix(X[rows]))
    return outputs
