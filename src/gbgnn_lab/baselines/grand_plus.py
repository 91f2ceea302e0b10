"""GRAND+: GRAND by minibatches, each node with the neighbours that weigh most in its mean of powers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import torch
from torch.nn import functional

from gbgnn.propagation import RandomWalk
from gbgnn_lab.baselines.base import (
    BaselineFit,
    Network,
    choice,
    count,
    dropout_rate,
    penalty,
    share,
    step,
    train,
)
from gbgnn_lab.baselines.data import SparseMatrix, TrainingData, dropout
from gbgnn_lab.baselines.grand import dense_columns, measure_disagreement
from gbgnn_lab.baselines.perceptron import NormedPerceptron
from gbgnn_lab.baselines.searching import SearchedModel, prepare_columns

_ROWS = 512  # of powers that are computed at a time
_SURE = 0.75  # the most that a node must be sure of
_FLOOR = 1e-12  # of a sum of weights, as in the authors' code


@dataclass(frozen=True, kw_only=True)
class GRANDPlus(SearchedModel):
    """Scalable graph random neural network [Feng et al. 2022], for graphs whose mixed features fit in memory.

    A step sees some training nodes and some others, in views that drop neighbours anew; views of the others
    must agree where they are sure of a class. What predicts is the perceptron on features mixed without drop
    and without a cut. The rows of powers are exact before they are cut, where the authors push residues.
    """

    searched = MappingProxyType(
        {"restart": (0.2, 0.5), "input_dropout": (0.0, 0.5), "learning_rate": (0.003, 0.01)},
    )

    depth: int = count(10)  # the highest power (the paper's N)
    powers: str = choice("ppr", "mean")  # weights by personalised PageRank, or all the same
    restart: float | None = share(None)  # of PageRank (alpha)
    neighbours: int = count(32)  # kept of a row, those that weigh most (k)
    units: int = count(64)  # width of a hidden layer
    layers: int = count(2)  # one is a linear model
    views: int = count(2)  # in a step (M)
    dropped_nodes: float = dropout_rate(0.5)  # share of a row's neighbours that a view drops (delta)
    input_dropout: float | None = dropout_rate(None)
    temperature: float = step(0.1)  # below one sharpens what the views should agree on (T)
    consistency: float = penalty(1.0)  # weight of their disagreement at the end of its ramp (lambda)
    ramp: int = count(1000)  # steps in which that weight grows from zero
    confidence: float | None = share(None)  # from which a node counts; None: 2 / K, three quarters at most
    batch: int = count(50)  # training nodes in a step
    unlabelled_batch: int = count(100)  # other nodes in a step
    unlabelled: int = count(10_000)  # other nodes in all, drawn once
    normalization: str = choice("none", "batch")  # of the input and of the hidden layers
    rows: str = choice("any", "unit")  # "unit" brings those of every layer to length one
    most_slope: float | None = step(None)  # longer gradients are shortened
    steps: int = count(10)  # in an epoch
    learning_rate: float | None = step(None)  # type: ignore[assignment]
    weight_decay: float = penalty(1e-3)
    epochs: int = count(1000)
    patience: int | None = count(100, optional=True)

    def build(self, data: TrainingData) -> dict[str, Any]:
        """Return the perceptron, the batches, the features, and these mixed without drop and cut."""
        assert self.input_dropout is not None  # one of the search
        has_norm = self.normalization == "batch"
        perceptron = NormedPerceptron(
            [data.graph.n_features, *[self.units] * (self.layers - 1), data.n_outputs],
            (self.input_dropout, self.dropout),
            (has_norm, has_norm),
            unit_rows=self.rows == "unit",
        )
        walk = data.mixing(RandomWalk(self_loops=True))
        X = torch.cat(list(dense_columns(prepare_columns(data))), dim=1)
        coefficients = self.coefficients()
        return {
            "perceptron": perceptron,
            "batches": Batches(self, data, walk, coefficients),
            "X": X,
            "mixed": mix(walk, X, coefficients),
        }

    def coefficients(self) -> list[float]:
        """Return the weights of the powers, which sum to one."""
        assert self.restart is not None  # one of the search
        ratio = 1.0 if self.powers == "mean" else 1 - self.restart
        weights = [ratio**power for power in range(self.depth + 1)]
        return [weight / sum(weights) for weight in weights]

    def forward(self, network: Any, data: TrainingData, rate: float) -> torch.Tensor:
        """Return the scores of all nodes."""
        scores: torch.Tensor = network.perceptron(network.mixed)
        return scores

    def objective(self, network: Any, data: TrainingData) -> torch.Tensor:
        """Return the mean loss of some training nodes, and how far views of some others disagree."""
        batch = network.batches.draw()
        rows = draw_views(batch.weights, batch.columns, network.X, self.views, self.dropped_nodes)
        scores = network.perceptron(rows).unflatten(0, (self.views, -1))
        labelled, others = scores.tensor_split([len(batch.targets)], dim=1)
        losses = [data.losses(view, batch.targets).mean() for view in labelled]
        growth = min(1.0, network.batches.n_drawn / self.ramp)
        least = min(2 / data.n_outputs, _SURE) if self.confidence is None else self.confidence
        disagreement = measure_disagreement(others, self.temperature, least)
        loss: torch.Tensor = torch.stack(losses).mean() + growth * self.consistency * disagreement
        return loss

    def fit_trial(self, data: TrainingData) -> BaselineFit:
        """Train the network by minibatches."""
        network: Any = Network(self, data).to(data.device)
        return train(
            self,
            network,
            lambda rows: network.perceptron(network.mixed[rows]),
            self.groups(network),
            data,
            judge=partial(self.judge, data=data),
            objective=partial(self.objective, network, data),
            steps=self.steps,
            most_slope=self.most_slope,
        )


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows of powers, those of training nodes first, and the targets of these."""

    columns: torch.Tensor  # (rows, neighbours)
    weights: torch.Tensor  # of the same shape
    targets: torch.Tensor


class Batches:
    """Draws training nodes, all before one comes again, and others beside them."""

    def __init__(
        self, settings: GRANDPlus, data: TrainingData, walk: SparseMatrix, coefficients: Sequence[float]
    ) -> None:
        self.size, self.others_size = settings.batch, settings.unlabelled_batch
        self.n_drawn, self.targets, self.device = 0, data.train.targets, data.device
        is_other = torch.ones(data.graph.n_nodes, dtype=torch.bool, device=data.device)
        is_other[data.train.rows] = False
        others = is_other.nonzero()[:, 0]
        # Where every node is labelled, the views of training nodes must agree.
        others = others if len(others) else data.train.rows
        order = torch.randperm(len(others), device=data.device)[: settings.unlabelled]
        nodes = torch.cat([data.train.rows, others[order]])
        self.columns, self.weights = find_neighbours(walk, nodes, coefficients, settings.neighbours)
        self.waiting = order[:0]

    def draw(self) -> Batch:
        """Return the next batch."""
        n_labelled = len(self.targets)
        if not len(self.waiting):
            self.waiting = torch.randperm(n_labelled, device=self.device)
        chosen, self.waiting = self.waiting[: self.size], self.waiting[self.size :]
        others = n_labelled + torch.randperm(len(self.columns) - n_labelled, device=self.device)
        rows = torch.cat([chosen, others[: self.others_size]])
        self.n_drawn += 1
        return Batch(self.columns[rows], self.weights[rows], self.targets[chosen])


def mix(walk: SparseMatrix, H: torch.Tensor, coefficients: Sequence[float]) -> torch.Tensor:
    """Return the weighted sum of ``H``, ``walk H``, ``walk^2 H`` and so on."""
    first, *rest = coefficients
    total = first * H
    for weight in rest:
        H = walk @ H
        total = total + weight * H
    return total


def find_neighbours(
    walk: SparseMatrix, nodes: torch.Tensor, coefficients: Sequence[float], n_kept: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the columns and values of the largest entries of some rows of the weighted sum of powers."""
    columns, values = [], []
    first, *rest = coefficients
    for some in nodes.split(_ROWS):
        state = torch.zeros(walk.shape[0], len(some), device=nodes.device)
        state[some, torch.arange(len(some), device=nodes.device)] = 1.0
        total = first * state
        for weight in rest:
            state = torch.mm(walk.transposed, state)
            total += weight * state
        largest = total.t().topk(min(n_kept, len(total)), dim=1)
        columns.append(largest.indices)
        values.append(largest.values)
    return torch.cat(columns), torch.cat(values)


def draw_views(
    weights: torch.Tensor, columns: torch.Tensor, X: torch.Tensor, n_views: int, rate: float
) -> torch.Tensor:
    """Return rows mixed by weights of which a share is dropped, the others sum one; view after view."""
    kept = dropout(weights.repeat(n_views, 1), rate)
    kept = kept / kept.sum(dim=1, keepdim=True).clamp_min(_FLOOR)
    return functional.embedding_bag(columns.repeat(n_views, 1), X, per_sample_weights=kept, mode="sum")
