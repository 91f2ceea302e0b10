"""Models made of PyTorch Geometric's parts: GAT and MoNet, which weigh every edge, and DGI."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from gbgnn._optimizers import Stepper
from gbgnn.errors import MissingDependencyError
from gbgnn.propagation import AugmentedAdjacency
from gbgnn_lab.baselines.base import (
    BaselineFit,
    BaselineModel,
    Best,
    NetworkModel,
    count,
    count_parameters,
    descend,
    dropout_rate,
    step,
)
from gbgnn_lab.baselines.convolutional import GraphConvolution
from gbgnn_lab.baselines.data import SparseMatrix, TrainingData, dropout
from gbgnn_lab.baselines.propagating import SGC


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


def drop_features(data: TrainingData, rate: float) -> torch.Tensor:
    """Return the features with a share dropped, as a tensor, which may be sparse."""
    X = dropout(data.features, rate)
    return X.tensor if isinstance(X, SparseMatrix) else X


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
        widths = [data.n_features, *[self.heads * self.units] * (self.depth - 1)]
        last = convolution(widths[-1], data.n_classes, heads=self.output_heads, concat=False)
        hidden = [convolution(n_in, self.units, self.heads) for n_in in widths[:-1]]
        return {"layers": nn.ModuleList([*hidden, last])}

    def forward(self, network: Any, data: TrainingData, rate: float) -> torch.Tensor:
        """Return the scores of all nodes."""
        first, *rest = network.layers
        H: torch.Tensor = first(drop_features(data, rate), data.edges)
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
    """

    depth: int = count(2)
    units: int = count(16)
    kernels: int = count(3)
    coordinates: int = count(2)

    def build(self, data: TrainingData) -> dict[str, Any]:
        """Return the layers, the maps from degrees to coordinates, and the degrees."""
        convolution = import_geometric("monet").GMMConv
        widths = pairwise([data.n_features, *[self.units] * (self.depth - 1), data.n_classes])
        return {
            "layers": nn.ModuleList(convolution(*pair, self.coordinates, self.kernels) for pair in widths),
            "maps": nn.ModuleList(nn.Linear(2, self.coordinates) for _ in range(self.depth)),
            "degrees": _inverse_root_degrees(data),
        }

    def forward(self, network: Any, data: TrainingData, rate: float) -> torch.Tensor:
        """Return the scores of all nodes."""
        places = [coordinates(network.degrees).tanh() for coordinates in network.maps]
        first, *rest = network.layers
        H: torch.Tensor = first(drop_features(data, rate), data.edges, places[0])
        for layer, place in zip(rest, places[1:], strict=True):
            H = layer(dropout(H.relu(), rate), data.edges, place)
        return H


def _inverse_root_degrees(data: TrainingData) -> torch.Tensor:
    """Return for every edge the inverse square roots of the in-degrees of its two ends."""
    _, targets = data.edges
    degrees = torch.bincount(targets, minlength=data.n_nodes).clamp_min(1)
    return degrees.to(torch.float32).rsqrt()[data.edges].t().contiguous()


class Encoder(nn.Module):
    """GCN layers with PReLU."""

    def __init__(self, settings: DGI, data: TrainingData) -> None:
        super().__init__()
        widths = pairwise([data.n_features, *[settings.units] * settings.depth])
        self.layers = nn.ModuleList(GraphConvolution(*pair) for pair in widths)
        self.activation = nn.PReLU(settings.units)
        self.P, self.X = data.mixing(AugmentedAdjacency()), data.features

    def forward(self, order: torch.Tensor | None) -> torch.Tensor:
        """Return the representation, of the nodes as they are or with features exchanged as in ``order``."""
        first, *rest = self.layers
        assert isinstance(first, GraphConvolution)
        # Rows of X W exchanged are X with its rows exchanged, times W.
        entered = first.dense(self.X)
        H: torch.Tensor = self.P @ (entered if order is None else entered[order]) + first.bias
        for layer in rest:
            H = layer(self.P, self.activation(H))
        result: torch.Tensor = self.activation(H)
        return result

    def corrupt(self, order: torch.Tensor | None) -> torch.Tensor:
        """Return an order that gives every node the features of another."""
        return torch.randperm(self.P.shape[0], device=self.activation.weight.device)


@dataclass(frozen=True, kw_only=True)
class DGI(BaselineModel):
    """Deep graph infomax: tell nodes with their own features from nodes with another's, then classify.

    Parameters
    ----------
    depth, units
        Hops and width of the encoder.
    learning_rate, epochs
        Step and most steps of Adam for the encoder.
    patience
        Steps without a lower loss before the encoder is taken as it was at its lowest.
    head_learning_rate, head_epochs
        Step and steps of Adam for the logistic regression.
    """

    depth: int = count(1)
    units: int = count(512)
    learning_rate: float = step(0.001)
    epochs: int = count(10_000)
    patience: int | None = count(20, optional=True)
    head_learning_rate: float = step(0.01)
    head_epochs: int = count(100)

    def fit(self, data: TrainingData) -> BaselineFit:
        """Learn the representation from the graph, and the classes from it."""
        encoder = Encoder(self, data)
        infomax = import_geometric("dgi").DeepGraphInfomax(
            self.units, encoder, summary=_mean, corruption=encoder.corrupt
        )
        infomax.to(data.device).train()
        parameters = list(infomax.parameters())
        best, stepper = Best(parameters, self.patience), Stepper("adam", parameters, self.learning_rate)
        for epoch in range(1, self.epochs + 1):
            loss = infomax.loss(*infomax(None))
            if best.see(epoch, 0, float(loss.detach())):
                break
            descend(loss, [stepper])
        best.restore()
        with torch.no_grad():
            Z = encoder(None)
        head = SGC(learning_rate=self.head_learning_rate, weight_decay=0.0, epochs=self.head_epochs)
        result = head.fit_rows(Z, data)
        return BaselineFit(result.scores, result.best_epoch, count_parameters(infomax) + result.n_parameters)


def _mean(Z: torch.Tensor, order: None) -> torch.Tensor:
    """Return the summary of a graph."""
    return Z.mean(dim=0).sigmoid()
