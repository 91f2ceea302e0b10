"""Stacks of graph convolutions, each layer one hop: GCN, GraphSAGE, JK-Net, GCNII; and TAGCN.

Layers are products: weights first, where rows are sparse or long, then mixing. PyTorch Geometric has them
too, and the tests hold these to its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, TypeVar

import torch
from torch import nn

from gbgnn.propagation import AugmentedAdjacency, NormalizedAdjacency, Propagation, RandomWalk
from gbgnn_lab.baselines.base import Group, NetworkModel, count, dropout_rate, penalty, share, step
from gbgnn_lab.baselines.data import SparseMatrix, TrainingData, dropout

T = TypeVar("T")


class Dense(nn.Module):
    """``H W + b``, for rows in memory or a fixed matrix; uniform Glorot weights, zero bias."""

    def __init__(self, n_in: int, n_out: int, *, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_in, n_out))
        self.bias = nn.Parameter(torch.zeros(n_out)) if bias else None
        nn.init.xavier_uniform_(self.weight)

    def forward(self, H: torch.Tensor | SparseMatrix) -> torch.Tensor:
        """Return ``H W + b``."""
        product = H @ self.weight
        return product if self.bias is None else product + self.bias


class GraphConvolution(nn.Module):
    """GCN's layer ``P H W + b`` [Kipf and Welling 2017]."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.dense = Dense(n_in, n_out, bias=False)
        self.bias = nn.Parameter(torch.zeros(n_out))

    def forward(self, P: SparseMatrix, H: torch.Tensor | SparseMatrix) -> torch.Tensor:
        """Return ``P H W + b``."""
        mixed: torch.Tensor = P @ self.dense(H) + self.bias
        return mixed


class PolynomialConvolution(nn.Module):
    """TAGCN's layer ``sum_k S^k H W_k + b``, k up to ``degree`` [Du et al. 2017]."""

    def __init__(self, n_in: int, n_out: int, degree: int) -> None:
        super().__init__()
        self.terms = nn.ModuleList(Dense(n_in, n_out, bias=False) for _ in range(degree + 1))
        self.bias = nn.Parameter(torch.zeros(n_out))

    def forward(self, S: SparseMatrix, H: torch.Tensor | SparseMatrix) -> torch.Tensor:
        """Return the sum by Horner's rule, so that only outputs are mixed."""
        *lower, highest = self.terms
        total: torch.Tensor = highest(H)
        for term in reversed(lower):
            total = S @ total + term(H)
        return total + self.bias


class MeanConvolution(nn.Module):
    """GraphSAGE's layer with the mean aggregator, ``H W + M H V + b`` [Hamilton et al. 2017]."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.own = Dense(n_in, n_out)
        self.neighbours = Dense(n_in, n_out, bias=False)

    def forward(self, M: SparseMatrix, H: torch.Tensor | SparseMatrix) -> torch.Tensor:
        """Return the sum of what a node and the mean of its neighbours say."""
        total: torch.Tensor = self.own(H) + M @ self.neighbours(H)
        return total


class ResidualConvolution(nn.Module):
    """GCNII's layer [Chen et al. 2020]: mix, add a share of the start, then a map near the identity.

    ``restart`` is the paper's alpha, ``strength`` its beta of this layer.
    """

    def __init__(self, n_units: int, restart: float, strength: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_units, n_units))
        nn.init.xavier_uniform_(self.weight)
        self.restart, self.strength = restart, strength

    def forward(self, P: SparseMatrix, H: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
        """Return ``(1 - beta) Z + beta Z W`` with ``Z = (1 - alpha) P H + alpha H_0``."""
        Z = torch.lerp(P @ H, start, self.restart)
        return torch.addmm(Z, Z, self.weight, beta=1 - self.strength, alpha=self.strength)


def run_layers(
    layers: Iterable[T],
    X: torch.Tensor | SparseMatrix,
    rate: float,
    call: Callable[[T, Any], torch.Tensor],
    activate: Callable[[torch.Tensor], torch.Tensor] = torch.relu,
) -> torch.Tensor:
    """Return ``X`` after layers that are run by ``call``, dropout before each, ``activate`` between them."""
    first, *rest = layers
    H = call(first, dropout(X, rate))
    for layer in rest:
        H = call(layer, dropout(activate(H), rate))
    return H


@dataclass(frozen=True, kw_only=True)
class StackModel(NetworkModel):
    """Layers of one kind one after the other, ReLU between them, dropout before each."""

    propagation: ClassVar[Propagation]
    """What the layers mix with."""
    layer: ClassVar[Callable[..., nn.Module]]
    """From the numbers of columns to a layer, called with the matrix that mixes and the rows to mix."""

    depth: int = count(2)  # layers, each one hop
    units: int = count(16)  # width of a hidden layer

    def build(self, data: TrainingData) -> dict[str, Any]:
        """Return the layers, and what mixes."""
        widths = [data.graph.n_features, *[self.units] * (self.depth - 1), data.n_outputs]
        layers = nn.ModuleList(self.layer(*pair) for pair in pairwise(widths))
        return {"layers": layers, "P": data.mixing(self.propagation)}

    def forward(self, network: Any, data: TrainingData, rate: float) -> torch.Tensor:
        """Return the scores of all nodes."""
        return run_layers(network.layers, data.features, rate, lambda layer, H: layer(network.P, H))


@dataclass(frozen=True, kw_only=True)
class GCN(StackModel):
    """Graph convolutional network: ``depth`` layers ``relu(P H W + b)``, the last without ReLU."""

    penalized = "layers"
    propagation = AugmentedAdjacency()
    layer = GraphConvolution


@dataclass(frozen=True, kw_only=True)
class TAGCN(StackModel):
    """Topology adaptive network: every layer a polynomial in the normalised adjacency without self loops."""

    propagation = NormalizedAdjacency()

    degree: int = count(2)  # highest power in a layer (the paper's K), which reaches so many hops

    def layer(self, n_in: int, n_out: int) -> nn.Module:
        """Return a polynomial."""
        return PolynomialConvolution(n_in, n_out, self.degree)


@dataclass(frozen=True, kw_only=True)
class GraphSAGE(StackModel):
    """GraphSAGE with the mean aggregator, on the whole graph instead of on sampled neighbours."""

    propagation = RandomWalk()
    layer = MeanConvolution


@dataclass(frozen=True, kw_only=True)
class JKNet(NetworkModel):
    """Jumping knowledge network, concatenating: a linear layer reads the outputs of all GCN layers."""

    depth: int = count(2)  # layers, each one hop
    units: int = count(32)  # their width
    learning_rate: float = step(0.005)
    epochs: int = count(500)

    def build(self, data: TrainingData) -> dict[str, Any]:
        """Return the layers, the linear one, and what mixes."""
        widths = pairwise([data.graph.n_features, *[self.units] * self.depth])
        return {
            "layers": nn.ModuleList(GraphConvolution(*pair) for pair in widths),
            "head": Dense(self.units * self.depth, data.n_outputs),
            "P": data.mixing(AugmentedAdjacency()),
        }

    def forward(self, network: Any, data: TrainingData, rate: float) -> torch.Tensor:
        """Return the scores of all nodes."""
        H, kept = data.features, []
        for layer in network.layers:
            H = layer(network.P, dropout(H, rate)).relu()
            kept.append(H)
        scores: torch.Tensor = network.head(dropout(torch.cat(kept, dim=1), rate))
        return scores


@dataclass(frozen=True, kw_only=True)
class GCNII(NetworkModel):
    """GCN with initial residual and identity mapping: built to be deep."""

    depth: int = count(64)  # hops between two linear layers
    units: int = count(64)  # width
    dropout: float = dropout_rate(0.6)
    restart: float = share(0.1)  # of the first representation in every hop (the paper's alpha)
    identity: float = step(0.5)  # how far the maps are from the identity (the paper's lambda)
    epochs: int = count(1500)
    patience: int | None = count(100, optional=True)
    mixing_weight_decay: float = penalty(0.01)  # on the hops; weight_decay is for the two linear layers

    def build(self, data: TrainingData) -> dict[str, Any]:
        """Return the linear layers, the hops between them, and what mixes."""
        strengths = [math.log(self.identity / hop + 1) for hop in range(1, self.depth + 1)]
        return {
            "enter": Dense(data.graph.n_features, self.units),
            "layers": nn.ModuleList(ResidualConvolution(self.units, self.restart, s) for s in strengths),
            "leave": Dense(self.units, data.n_outputs),
            "P": data.mixing(AugmentedAdjacency()),
        }

    def forward(self, network: Any, data: TrainingData, rate: float) -> torch.Tensor:
        """Return the scores of all nodes."""
        start = network.enter(dropout(data.features, rate)).relu()
        H = start
        for layer in network.layers:
            H = layer(network.P, dropout(H, rate), start).relu()
        scores: torch.Tensor = network.leave(dropout(H, rate))
        return scores

    def groups(self, network: Any) -> list[Group]:
        """Penalise hops and linear layers apart."""
        linear = [*network.enter.parameters(), *network.leave.parameters()]
        return [(list(network.layers.parameters()), self.mixing_weight_decay), (linear, self.weight_decay)]
