"""GRAND: random views of the features, mixed by the mean of powers of P, that must agree at all nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import nn

from gbgnn.problem import LabelledNodes
from gbgnn.propagation import AugmentedAdjacency
from gbgnn_lab.baselines.base import choice, count, dropout_rate, penalty, step
from gbgnn_lab.baselines.convolutional import Dense
from gbgnn_lab.baselines.data import SparseMatrix, TrainingData, dropout
from gbgnn_lab.baselines.searching import SearchedModel, prepare_columns

_COLUMNS = 256  # made dense at a time
_FLOOR = 1e-5  # of a variance, as in torch's batch norm


@dataclass(frozen=True, kw_only=True)
class GRAND(SearchedModel):
    """Graph random neural network [Feng et al. 2020]: a perceptron on mixed features, trained on views.

    A view drops whole nodes from the features before they are mixed. The perceptron is linear in what it is
    given, so weights come first and as many columns are mixed as there are hidden units; hence a view drops
    input columns for all nodes alike. A batch norm of the input has the moments of one view, taken once: over
    all nodes they hardly differ from view to view.
    """

    searched = MappingProxyType(
        {"depth": (2, 8), "input_dropout": (0.0, 0.5), "learning_rate": (0.01, 0.05)},
    )

    depth: int | None = count(None, optional=True)  # the highest power of P (the paper's K)
    units: int = count(32)  # width of the hidden layer
    views: int = count(4)  # in a step (S)
    dropped_nodes: float = dropout_rate(0.5)  # share of nodes without features in a view (delta)
    input_dropout: float | None = dropout_rate(None)  # of the columns that the perceptron is given
    dropout: float = dropout_rate(0.5)  # of its hidden layer
    temperature: float = step(0.5)  # below one sharpens what the views should agree on (T)
    consistency: float = penalty(1.0)  # weight of their disagreement (lambda)
    normalization: str = choice("none", "batch")  # of the input and of the hidden layer
    learning_rate: float | None = step(None)  # type: ignore[assignment]
    epoch_by: str = choice("ranking", "loss")  # of the validation nodes; the authors take the lowest loss
    epochs: int = count(5000)
    patience: int | None = count(100, optional=True)

    def build(self, data: TrainingData) -> dict[str, Any]:
        """Return the layers, and what mixes what."""
        assert self.depth is not None  # one of the search
        X, P = prepare_columns(data), data.mixing(AugmentedAdjacency())
        parts = {
            "enter": Dense(data.graph.n_features, self.units),
            "leave": Dense(self.units, data.n_outputs),
        }
        if self.normalization == "none":
            return {**parts, "X": X, "P": P, "columns": None, "hidden": nn.Identity()}
        columns = ColumnNorm(*self.moments(X, P))
        return {**parts, "X": X, "P": P, "columns": columns, "hidden": nn.BatchNorm1d(self.units)}

    def forward(self, network: Any, data: TrainingData, rate: float) -> torch.Tensor:
        """Return the scores of all nodes in one view, which is of all that there is when not in training."""
        return self.score_views(network, 1)[0]

    def objective(self, network: Any, data: TrainingData) -> torch.Tensor:
        """Return the mean loss of the training nodes over the views, and how far these disagree."""
        scores = self.score_views(network, self.views)
        losses = [data.losses(view[data.train.rows], data.train.targets) for view in scores]
        supervised = torch.stack(losses).mean(dim=0) @ data.train.weights.to(scores.dtype)
        return supervised + self.consistency * measure_disagreement(scores, self.temperature)

    def judge(self, scores: torch.Tensor, nodes: LabelledNodes, data: TrainingData) -> tuple[float, float]:
        """Return what is high and what is low at the best epoch."""
        first, loss = SearchedModel.judge(self, scores, nodes, data)
        return (first if self.epoch_by == "ranking" else -loss), loss

    def score_views(self, network: Any, n_views: int) -> torch.Tensor:
        """Return the scores of all nodes in some views, of shape (views, N, K)."""
        H = self.mix_views(network, n_views) + network.enter.bias
        H = network.hidden(H.relu().flatten(0, 1)).unflatten(0, H.shape[:2])
        scores: torch.Tensor = network.leave(dropout(H, self.dropout if network.training else 0.0))
        return scores.movedim(1, 0)

    def mix_views(self, network: Any, n_views: int) -> torch.Tensor:
        """Return the mixed features of some views times the first weights, of shape (N, views, units)."""
        assert self.depth is not None  # one of the search
        assert self.input_dropout is not None  # another
        is_random, W = network.training, network.enter.weight
        kept = dropout(W.new_ones(n_views, len(W)), self.input_dropout if is_random else 0.0)
        scale, shift = (kept, None) if network.columns is None else network.columns(kept)
        weights = (scale[:, :, None] * W).movedim(0, 1).flatten(1)
        H = (network.X @ weights).unflatten(1, (n_views, -1))
        there = self.draw_nodes(H.new_ones(len(H), n_views, 1), is_random=is_random)
        mixed = average_powers(network.P, (H * there).flatten(1), self.depth).view_as(H)
        return mixed if shift is None else mixed + shift @ W

    def draw_nodes(self, ones: torch.Tensor, *, is_random: bool) -> torch.Tensor:
        """Return how far nodes are there: in a view wholly or not at all, else all in their mean share.

        The authors' code does not scale up what is left. So features are smaller than the paper's, and the
        L2 penalty of the first weights is as much stronger.
        """
        left: torch.Tensor = dropout(ones, self.dropped_nodes if is_random else 0.0)
        return (1 - self.dropped_nodes) * left

    @torch.no_grad()
    def moments(self, X: torch.Tensor | SparseMatrix, P: SparseMatrix) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the mean and the variance of every column of the mixed features in a view."""
        assert self.depth is not None  # one of the search
        there = self.draw_nodes(torch.ones(P.shape[0], 1, device=P.values.device), is_random=True)
        found = [
            (mixed.mean(dim=0), mixed.var(dim=0, correction=0))
            for block in dense_columns(X)
            for mixed in [average_powers(P, block * there, self.depth)]
        ]
        means, variances = zip(*found, strict=True)
        return torch.cat(means), torch.cat(variances)


class ColumnNorm(nn.Module):
    """A batch norm with given moments, as what it does to the weights that follow."""

    def __init__(self, mean: torch.Tensor, variance: torch.Tensor) -> None:
        super().__init__()
        self.gain, self.bias = nn.Parameter(torch.ones_like(mean)), nn.Parameter(torch.zeros_like(mean))
        self.mean, self.deviation = mean, (variance + _FLOOR).sqrt()

    def forward(self, kept: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return by how much a column that is kept so far is scaled, and what is added to it."""
        scale = self.gain / self.deviation
        return kept * scale, kept * (self.bias - self.mean * scale)


def average_powers(P: SparseMatrix, H: torch.Tensor, depth: int) -> torch.Tensor:
    """Return the mean of ``H``, ``P H``, ..., ``P^depth H``."""
    total = H
    for _ in range(depth):
        H = P @ H
        total = total + H
    return total / (depth + 1)


def measure_disagreement(
    scores: torch.Tensor, temperature: float, least: float | None = None
) -> torch.Tensor:
    """Return the mean squared distance of views of shape (views, N, K) from their sharpened mean.

    Only nodes that the mean gives a class above ``least`` count; no such node is no disagreement.
    """
    proba = scores.softmax(dim=2)
    mean = proba.mean(dim=0).detach()
    # The softmax of logarithms is the power of probabilities, brought to sum one.
    target = (mean.clamp_min(torch.finfo(mean.dtype).tiny).log() / temperature).softmax(dim=1)
    distances = (proba - target).square().sum(dim=2).mean(dim=0)
    if least is None:
        return distances.mean()
    is_sure = (mean.amax(dim=1) > least).to(distances.dtype)
    return distances @ is_sure / is_sure.sum().clamp_min(1.0)


def dense_columns(X: torch.Tensor | SparseMatrix) -> Iterator[torch.Tensor]:
    """Yield some columns of a matrix at a time, dense."""
    if isinstance(X, torch.Tensor):
        yield from X.split(_COLUMNS, dim=1)
        return
    for columns in torch.eye(X.shape[1], device=X.values.device).split(_COLUMNS, dim=1):
        yield X @ columns
