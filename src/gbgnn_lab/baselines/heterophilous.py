"""Networks for graphs whose neighbours need not be alike: GPRGNN, H2GCN and LINKX."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import nn

from gbgnn.propagation import AugmentedAdjacency
from gbgnn_lab.baselines.base import Group, count, dropout_rate, penalty, share, step
from gbgnn_lab.baselines.convolutional import Dense
from gbgnn_lab.baselines.data import SparseMatrix, TrainingData, dropout
from gbgnn_lab.baselines.perceptron import NormedPerceptron
from gbgnn_lab.baselines.propagating import Perceptron
from gbgnn_lab.baselines.searching import SearchedModel, prepare_columns


@dataclass(frozen=True, kw_only=True)
class GPRGNN(SearchedModel):
    """Generalised PageRank [Chien et al. 2021]: a perceptron, then a sum of powers with learned weights.

    The weights start as those of personalised PageRank, may become negative, and have no penalty.
    """

    predicts_numbers = True
    searched = MappingProxyType(
        {"restart": (0.1, 0.9), "output_dropout": (0.0, 0.5), "learning_rate": (0.01, 0.05)}
    )

    depth: int = count(10)  # the highest power (the paper's K)
    restart: float | None = share(None)  # of the PageRank at the start (alpha)
    units: int = count(64)  # width of the hidden layer
    output_dropout: float | None = dropout_rate(None)  # of the perceptron's outputs
    learning_rate: float | None = step(None)  # type: ignore[assignment]
    epochs: int = count(1000)
    patience: int | None = count(200, optional=True)

    def build(self, data: TrainingData) -> dict[str, Any]:
        """Return the perceptron, the weights of the powers, and what is mixed with what."""
        assert self.restart is not None  # one of the search
        first = [self.restart * (1 - self.restart) ** power for power in range(self.depth)]
        return {
            "perceptron": Perceptron([data.graph.n_features, self.units, data.n_outputs], self.dropout),
            "weights": nn.Parameter(torch.tensor([*first, (1 - self.restart) ** self.depth])),
            "P": data.mixing(AugmentedAdjacency()),
            "X": prepare_columns(data),
        }

    def forward(self, network: Any, data: TrainingData, rate: float) -> torch.Tensor:
        """Return the scores of all nodes."""
        assert self.output_dropout is not None  # one of the search
        first, *rest = network.weights
        H = dropout(network.perceptron(network.X), self.output_dropout if network.training else 0.0)
        scores: torch.Tensor = first * H
        for weight in rest:
            H = network.P @ H
            scores = scores + weight * H
        return scores

    def groups(self, network: Any) -> list[Group]:
        """Penalise the perceptron."""
        return [(list(network.perceptron.parameters()), self.weight_decay), ([network.weights], 0.0)]


@dataclass(frozen=True, kw_only=True)
class H2GCN(SearchedModel):
    """Ego, neighbours and theirs apart [Zhu et al. 2020]; a linear layer reads the rows of all rounds.

    In a round neighbours, and nodes two hops away, are each averaged and stand side by side, twice as wide as
    the round before.
    """

    predicts_numbers = True
    searched = MappingProxyType({"depth": (1, 2), "dropout": (0.0, 0.5), "weight_decay": (1e-5, 5e-4)})

    depth: int | None = count(None, optional=True)  # rounds, each two hops (the paper's K)
    units: int = count(64)  # width of the embedding
    dropout: float | None = dropout_rate(None)  # type: ignore[assignment]  # of what the last layer reads
    weight_decay: float | None = penalty(None)  # type: ignore[assignment]
    epochs: int = count(1000)
    patience: int | None = count(100, optional=True)

    def build(self, data: TrainingData) -> dict[str, Any]:
        """Return the two layers, and what is mixed with what."""
        assert self.depth is not None  # one of the search
        width = self.units * (2 ** (self.depth + 1) - 1)
        return {
            "enter": Dense(data.graph.n_features, self.units, bias=False),
            "leave": Dense(width, data.n_outputs),
            "hops": data.hops,
            "X": prepare_columns(data),
        }

    def forward(self, network: Any, data: TrainingData, rate: float) -> torch.Tensor:
        """Return the scores of all nodes."""
        assert self.depth is not None  # one of the search
        kept = [network.enter(network.X).relu()]
        for _ in range(self.depth):
            kept.append(torch.cat([hop @ kept[-1] for hop in network.hops], dim=1))
        scores: torch.Tensor = network.leave(dropout(torch.cat(kept, dim=1), rate))
        return scores


@dataclass(frozen=True, kw_only=True)
class LINKX(SearchedModel):
    """Perceptrons of a node's row of the adjacency and of its features, added and mixed [Lim et al. 2021]."""

    predicts_numbers = True
    searched = MappingProxyType(
        {"layers": (1, 2), "dropout": (0.0, 0.5), "learning_rate": (0.002, 0.01)},
    )

    units: int = count(128)  # width
    adjacency_layers: int = count(1)  # of the perceptron that reads edges
    feature_layers: int = count(1)  # of the one that reads features
    layers: int | None = count(None, optional=True)  # of the one that reads both
    dropout: float | None = dropout_rate(None)  # type: ignore[assignment]  # within the last
    learning_rate: float | None = step(None)  # type: ignore[assignment]
    weight_decay: float = penalty(0.0)
    epochs: int = count(500)
    patience: int | None = count(100, optional=True)

    def build(self, data: TrainingData) -> dict[str, Any]:
        """Return the perceptrons, and what they read."""
        assert self.layers is not None  # one of the search
        assert self.dropout is not None  # another
        inside, own = (False, True), self.units
        of_edges = [data.graph.n_nodes, *[own] * self.adjacency_layers]
        of_features = [data.graph.n_features, *[own] * self.feature_layers]
        of_both = [*[own] * self.layers, data.n_outputs]
        return {
            "edges": NormedPerceptron(of_edges, (0.0, 0.0), inside),
            "features": NormedPerceptron(of_features, (0.0, 0.0), inside),
            "join": Dense(2 * own, own),
            "both": NormedPerceptron(of_both, (0.0, self.dropout), inside),
            "A": SparseMatrix.from_scipy(data.graph.adjacency, data.device),
            "X": prepare_columns(data),
        }

    def forward(self, network: Any, data: TrainingData, rate: float) -> torch.Tensor:
        """Return the scores of all nodes."""
        edges, features = network.edges(network.A), network.features(network.X)
        joined = network.join(torch.cat([edges, features], dim=1))
        scores: torch.Tensor = network.both((joined + edges + features).relu())
        return scores
