"""Residual graph networks: GCN, GraphSAGE and GAT as they are built today, with a small search."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.preprocessing import QuantileTransformer, StandardScaler
from torch import nn

from gbgnn.errors import ParameterError
from gbgnn.problem import LabelledNodes
from gbgnn.propagation import AugmentedAdjacency, Propagation, RandomWalk
from gbgnn_lab.baselines.attention import AttentionConvolution, add_self_loops
from gbgnn_lab.baselines.base import BaselineFit, NetworkModel, count, dropout_rate, penalty, step
from gbgnn_lab.baselines.convolutional import Dense, GraphConvolution, MeanConvolution
from gbgnn_lab.baselines.data import SparseMatrix, TrainingData, dropout

SEARCHED: Mapping[str, Sequence[Any]] = {
    "depth": (2, 5),
    "dropout": (0.2, 0.5),
    "learning_rate": (0.003, 0.01),
}
"""What is tried of a setting that is left open: eight trials where all three are."""
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
    validation, from :data:`SEARCHED`; without validation nodes, the first of each is taken. Epochs and trials
    are ranked by the AUC of two classes, the hits of more, the loss of numbers and among equals.
    """

    predicts_numbers = True
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

    def judge(self, scores: torch.Tensor, nodes: LabelledNodes, data: TrainingData) -> tuple[float, float]:
        """Return the AUC of two classes, the hits of more, 0 of numbers; and the mean loss."""
        first, loss = data.judge(scores, nodes)
        if data.task.has_classes and data.n_outputs == 2:
            return rank_auc(scores[:, 1] - scores[:, 0], nodes.targets), loss
        return first, loss

    def fit(self, data: TrainingData) -> BaselineFit:
        """Train the network with each of the settings that are left open, and keep the best."""
        left_open = {name: values for name, values in SEARCHED.items() if getattr(self, name) is None}
        trials = [dict(zip(left_open, values, strict=True)) for values in product(*left_open.values())]
        if data.validation is None:
            trials = trials[:1]
        fits: list[tuple[tuple[float, float], int, BaselineFit]] = []
        for trial in trials:
            fitted = replace(NetworkModel.fit(replace(self, **trial), data), chosen=trial)
            fits.append((self._rank(fitted, data), -len(fits), fitted))
        return max(fits)[-1]

    def _rank(self, fitted: BaselineFit, data: TrainingData) -> tuple[float, float]:
        """Return how good scores are for the validation nodes; the larger, the better."""
        if data.validation is None:
            return (0.0, 0.0)
        first, loss = self.judge(fitted.scores[data.validation.rows], data.validation, data)
        return first, -loss


def rank_auc(scores: torch.Tensor, targets: torch.Tensor) -> float:
    """Return the area under the ROC curve of the nodes of class one; 0 where one of both classes is missing.

    Examples
    --------
    >>> rank_auc(torch.tensor([0.1, 0.7, 0.7]), torch.tensor([0, 0, 1]))
    0.75
    """
    n_ones = int(targets.sum())
    n_pairs = n_ones * (len(targets) - n_ones)
    if not n_pairs:
        return 0.0
    _, place, counts = torch.unique(scores, return_inverse=True, return_counts=True)
    ranks = counts.cumsum(0) - (counts - 1) / 2  # equal scores share the mean of their ranks
    total = float(ranks.double()[place][targets == 1].sum())
    return (total - n_ones * (n_ones + 1) / 2) / n_pairs


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


@dataclass(frozen=True, kw_only=True)
class ResidualGAT(ResidualModel):
    """Residual blocks in which a node weighs its neighbours by attention; edge weights are not used."""

    heads: int = count(4)  # side by side, ``units`` in all

    def convolution(self, n_in: int, n_out: int) -> nn.Module:
        """Return a layer of attention."""
        return AttentionConvolution(n_in, n_out, self.heads)

    def mixing(self, data: TrainingData) -> torch.Tensor:
        """Return the edges, and every node's own."""
        return add_self_loops(data.edges, data.graph.n_nodes)

    def check(self) -> None:
        """Raise when a setting is out of range, or the heads do not share the units."""
        super().check()
        if self.units % self.heads:
            raise ParameterError(
                f"ResidualGAT.units must be a multiple of heads; got {self.units} units, {self.heads} heads."
            )
