"""DGI: a representation learned without labels, then logistic regression on it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from gbgnn._optimizers import Stepper
from gbgnn.propagation import AugmentedAdjacency
from gbgnn_lab.baselines.base import BaselineFit, BaselineModel, count, count_parameters, step
from gbgnn_lab.baselines.data import TrainingData
from gbgnn_lab.baselines.layers import GraphConvolution
from gbgnn_lab.baselines.messages import import_geometric
from gbgnn_lab.baselines.propagating import Perceptron, fit_rows
from gbgnn_lab.baselines.training import descend


class Encoder(nn.Module):
    """GCN layers with PReLU."""

    def __init__(self, settings: DGI, data: TrainingData) -> None:
        super().__init__()
        widths = pairwise([data.features.n_columns, *[settings.units] * settings.depth])
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
        weight = self.activation.weight
        return torch.randperm(self.P.tensor.shape[0], device=weight.device)


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

    Examples
    --------
    >>> DGI()
    DGI(depth=1, units=512, learning_rate=0.001, epochs=10000, patience=20, head_learning_rate=0.01,
    head_epochs=100)
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
        infomax.to(data.device)
        self._pretrain(infomax)
        with torch.no_grad():
            Z = encoder(None)
        network = Perceptron([self.units, data.n_classes], 0.0)
        result = fit_rows(
            network, Z, data, 0.0, learning_rate=self.head_learning_rate, epochs=self.head_epochs
        )
        return BaselineFit(result.scores, result.best_epoch, count_parameters(infomax) + result.n_parameters)

    def _pretrain(self, infomax: Any) -> None:
        parameters = list(infomax.parameters())
        stepper = Stepper("adam", parameters, self.learning_rate)
        kept, least, since = [p.detach().clone() for p in parameters], math.inf, 0
        infomax.train()
        for _ in range(self.epochs):
            loss = infomax.loss(*infomax(None))
            value = float(loss.detach())
            since = 0 if value < least else since + 1
            if since == 0:
                least, kept = value, [p.detach().clone() for p in parameters]
            if since == self.patience:
                break
            descend(loss, [stepper])
        with torch.no_grad():
            for parameter, best in zip(parameters, kept, strict=True):
                parameter.copy_(best)


def _mean(Z: torch.Tensor, order: None) -> torch.Tensor:
    """Return the summary of a graph."""
    return Z.mean(dim=0).sigmoid()
