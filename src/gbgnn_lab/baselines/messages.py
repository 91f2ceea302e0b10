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
from gbgnn_lab.baselines.convolutional import GraphConvolution, run_layers
from gbgnn_lab.baselines.data import SparseMatrix, TrainingData
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


def as_tensor(H: torch.Tensor | SparseMatrix) -> torch.Tensor:
    """Return rows as PyTorch Geometric takes them: a tensor, which may be sparse."""
    return H.tensor if isinstance(H, SparseMatrix) else H


@dataclass(frozen=True, kw_only=True)
class GAT(NetworkModel):
    """Graph attention network, ELU between layers. Edge weights are not used: the layer makes its own."""

    depth: int = count(2)  # layers, each one hop
    units: int = count(8)  # width of a head
    heads: int = count(8)  # of a hidden layer, side by side
    output_heads: int = count(1)  # of the last layer, averaged
    dropout: float = dropout_rate(0.6)  # of features and of attention, in every layer
    learning_rate: float = step(0.005)
    epochs: int = count(1000)
    patience: int | None = count(100, optional=True)

    def build(self, data: TrainingData) -> dict[str, Any]:
        """Return the layers."""
        convolution = partial(import_geometric("gat").GATConv, dropout=self.dropout)
        widths = [data.graph.n_features, *[self.heads * self.units] * (self.depth - 1)]
        last = convolution(widths[-1], data.n_outputs, heads=self.output_heads, concat=False)
        hidden = [convolution(n_in, self.units, self.heads) for n_in in widths[:-1]]
        return {"layers": nn.ModuleList([*hidden, last])}

    def forward(self, network: Any, data: TrainingData, rate: float) -> torch.Tensor:
        """Return the scores of all nodes."""

        def attend(layer: Any, H: torch.Tensor | SparseMatrix) -> Any:
            return layer(as_tensor(H), data.edges)

        return run_layers(network.layers, data.features, rate, attend, functional.elu)


@dataclass(frozen=True, kw_only=True)
class MoNet(NetworkModel):
    """Mixture model network, ReLU between; an edge's coordinates are learned from its ends' degrees."""

    depth: int = count(2)  # layers, each one hop
    units: int = count(16)  # width of a hidden layer
    kernels: int = count(3)  # Gaussians in a layer
    coordinates: int = count(2)  # the dimension they live in

    def build(self, data: TrainingData) -> dict[str, Any]:
        """Return the layers, the maps from degrees to coordinates, and the degrees."""
        convolution = import_geometric("monet").GMMConv
        widths = pairwise([data.graph.n_features, *[self.units] * (self.depth - 1), data.n_outputs])
        return {
            "layers": nn.ModuleList(convolution(*pair, self.coordinates, self.kernels) for pair in widths),
            "maps": nn.ModuleList(nn.Linear(2, self.coordinates) for _ in range(self.depth)),
            "degrees": _inverse_root_degrees(data),
        }

    def forward(self, network: Any, data: TrainingData, rate: float) -> torch.Tensor:
        """Return the scores of all nodes."""

        def mix(pair: Any, H: torch.Tensor | SparseMatrix) -> Any:
            layer, locate = pair
            return layer(as_tensor(H), data.edges, locate(network.degrees).tanh())

        pairs = zip(network.layers, network.maps, strict=True)
        return run_layers(pairs, data.features, rate, mix)


def _inverse_root_degrees(data: TrainingData) -> torch.Tensor:
    """Return for every edge the inverse square roots of the in-degrees of its two ends."""
    _, targets = data.edges
    degrees = torch.bincount(targets, minlength=data.graph.n_nodes).clamp_min(1)
    return degrees.to(torch.float32).rsqrt()[data.edges].t().contiguous()


class Encoder(nn.Module):
    """GCN layers with PReLU."""

    def __init__(self, settings: DGI, data: TrainingData) -> None:
        super().__init__()
        widths = pairwise([data.graph.n_features, *[settings.units] * settings.depth])
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
    """Deep graph infomax: tell nodes with their own features from nodes with another's, then classify."""

    depth: int = count(1)  # hops of the encoder
    units: int = count(512)  # its width
    learning_rate: float = step(0.001)  # of Adam, for the encoder
    epochs: int = count(10_000)  # the most steps
    # Steps without a lower loss before the encoder is taken as it was at its lowest.
    patience: int | None = count(20, optional=True)
    head_learning_rate: float = step(0.01)  # of Adam, for the logistic regression
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
