"""Mixing apart from learning.

SGC mixes first, APPNP last, AdaGCN hop by hop; label propagation and Correct & Smooth mix labels; the MLP,
for control, does not mix at all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from gbgnn.propagation import AugmentedAdjacency, NormalizedAdjacency, Propagator
from gbgnn_lab.baselines.base import (
    BaselineFit,
    BaselineModel,
    NetworkModel,
    choice,
    count,
    dropout_rate,
    penalty,
    share,
    step,
    train,
)
from gbgnn_lab.baselines.convolutional import Dense, run_layers
from gbgnn_lab.baselines.data import SparseMatrix, TrainingData, dropout


class Perceptron(nn.Module):
    """Linear layers, ReLU between them, dropout before each."""

    def __init__(self, widths: list[int], dropout: float, *, bias: bool = True) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Dense(*pair, bias=bias) for pair in pairwise(widths))
        self.dropout = dropout

    def forward(self, X: torch.Tensor | SparseMatrix) -> torch.Tensor:
        """Return the outputs of the rows ``X``."""
        rate = self.dropout if self.training else 0.0
        return run_layers(self.layers, X, rate, lambda layer, H: layer(H))


@dataclass(frozen=True, kw_only=True)
class MLP(NetworkModel):
    """A perceptron with one hidden layer that never sees an edge: what the features alone are worth."""

    penalized = "perceptron.layers"

    units: int = count(16)  # width of the hidden layer

    def build(self, data: TrainingData) -> dict[str, Any]:
        """Return the perceptron."""
        return {"perceptron": Perceptron([data.graph.n_features, self.units, data.n_outputs], self.dropout)}

    def forward(self, network: Any, data: TrainingData, rate: float) -> torch.Tensor:
        """Return the scores of all nodes."""
        scores: torch.Tensor = network.perceptron(data.features)
        return scores


@dataclass(frozen=True, kw_only=True)
class APPNP(NetworkModel):
    """Predict, then propagate: a perceptron whose outputs are mixed by personalised PageRank."""

    penalized = "perceptron.layers"

    depth: int = count(10)  # steps of the power iteration, each one hop
    restart: float = share(0.1)  # of the perceptron's own output in every step (the paper's alpha)
    units: int = count(64)  # width of the hidden layer
    edge_dropout: float = dropout_rate(0.5)  # share of edges dropped in training, anew in every step
    weight_decay: float = penalty(5e-3)
    epochs: int = count(10_000)
    patience: int | None = count(100, optional=True)

    def build(self, data: TrainingData) -> dict[str, Any]:
        """Return the perceptron, and what mixes."""
        widths = [data.graph.n_features, self.units, data.n_outputs]
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
            H = torch.lerp(dropout(network.P, edge_rate) @ H, start, self.restart)
        return H


@dataclass(frozen=True, kw_only=True)
class SGC(BaselineModel):
    """Simplified graph convolution: logistic regression on the features, mixed ``depth`` times beforehand.

    The settings of training are those of :class:`~gbgnn_lab.baselines.base.NetworkModel`.
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
        return self.fit_rows(X, data)

    def fit_rows(self, X: torch.Tensor, data: TrainingData) -> BaselineFit:
        """Fit a logistic regression to the training rows of ``X``, and return scores of all rows."""
        network = Perceptron([X.shape[1], data.n_outputs], 0.0).to(data.device)
        groups = [(list(network.parameters()), self.weight_decay)]
        return train(self, network, partial(_score_rows, network, X), groups, data)


@dataclass(frozen=True, kw_only=True)
class AdaGCN(BaselineModel):
    """AdaBoost over the hops ``X, P X, ..., P^depth X``; every hop trains the last one's classifier on.

    The settings of training are those of :class:`~gbgnn_lab.baselines.base.NetworkModel`, anew in every hop.
    """

    depth: int = count(11)  # hops; there is one classifier more
    units: int = count(5000)  # width of the classifier's hidden layer
    dropout: float = dropout_rate(0.0)
    learning_rate: float = step(0.01)
    weight_decay: float = penalty(1e-4)  # on both layers
    first_weight_decay: float = penalty(5e-3)  # what the first has on top
    epochs: int = count(500)
    patience: int | None = count(300, optional=True)

    def fit(self, data: TrainingData) -> BaselineFit:
        """Train hop after hop, and add the votes up."""
        inputs = data.inputs(AugmentedAdjacency())
        X, weights = inputs.features.dense(), data.train.weights
        network = Perceptron([X.shape[1], self.units, data.n_outputs], self.dropout, bias=False)
        network.to(data.device)
        first, last = network.layers
        groups = [
            (list(first.parameters()), self.weight_decay + self.first_weight_decay),
            (list(last.parameters()), self.weight_decay),
        ]
        scores = X.new_zeros(data.graph.n_nodes, data.n_outputs)
        for hop in range(self.depth + 1):
            X = inputs.P(X) if hop else X
            result = train(self, network, partial(_score_rows, network, X), groups, data, weights)
            logs = result.scores.log_softmax(dim=1)
            scores += compute_votes(logs)
            weights = update_weights(weights, logs[data.train.rows], data.train.targets)
        return replace(result, scores=scores)


def _score_rows(network: Perceptron, X: torch.Tensor, rows: torch.Tensor | slice) -> torch.Tensor:
    outputs: torch.Tensor = network(X[rows])
    return outputs


def compute_votes(logs: torch.Tensor) -> torch.Tensor:
    """Return SAMME.R's vote for log-probabilities, centred and times K - 1."""
    return (logs.shape[1] - 1) * (logs - logs.mean(dim=1, keepdim=True))


def update_weights(weights: torch.Tensor, logs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    r"""Return SAMME.R's next weights: :math:`w_i \exp(-\frac{K-1}{K} \langle y_i, \log p_i\rangle)`, sum one.

    The code :math:`y_i` is 1 for the class of the node and :math:`-1/(K-1)` for the others, so the weight
    grows for a node that is predicted badly. (The authors' code has the other sign: it multiplies by a
    falling function of the loss.)
    """
    exact = logs.double()
    # (K-1)/K <y, log p> is how far log p of the class is above the mean over all classes.
    agreement = exact.gather(1, targets[:, None])[:, 0] - exact.mean(dim=1)
    grown = weights * torch.exp(-agreement)
    return grown / grown.sum()


CANDIDATES = (0.1, 0.3, 0.5, 0.7, 0.9)
_BASES: dict[str, BaselineModel] = {"mlp": MLP(), "linear": SGC(depth=0)}
_MOST_SCALE = 1000.0  # beyond it, the authors' code takes an error that never arrived for what it is


def diffuse(
    S: Propagator, start: torch.Tensor, spread: float, steps: int, most: tuple[float, float] | None = None
) -> torch.Tensor:
    """Return ``H`` after so many steps ``H <- spread * S H + (1 - spread) * start``, kept within ``most``."""
    H = start
    for _ in range(steps):
        H = torch.lerp(start, S(H), spread)
        if most is not None:
            H = H.clamp(*most)
    return H


@dataclass(frozen=True, kw_only=True)
class LabelPropagation(BaselineModel):
    """Labels of the training nodes, spread along the normalised adjacency; features are not used."""

    has_proba = False

    depth: int = count(50)  # steps, each one hop
    spread: float = share(0.9)  # what comes from the neighbours in every step (alpha in the paper)

    def fit(self, data: TrainingData) -> BaselineFit:
        """Spread the labels."""
        S = Propagator(NormalizedAdjacency().build(data.graph.adjacency), data.device)
        return BaselineFit(diffuse(S, data.one_hot(), self.spread, self.depth), 0, 0)


@dataclass(frozen=True, kw_only=True)
class CorrectAndSmooth(BaselineModel):
    """A predictor without graph, its errors on training nodes spread and taken off, its labels smoothed.

    The labels that travel are those of the training nodes. Errors are scaled node by node ("autoscale").
    """

    has_proba = False

    base: str = choice("mlp", "linear")  # the predictor; "linear" is logistic regression
    depth: int = count(50)  # steps of each of the two diffusions, each one hop
    # What comes from the neighbours in every step of the one and the other; None: validation chooses.
    correction: float | None = share(None)
    smoothing: float | None = share(None)

    def fit(self, data: TrainingData) -> BaselineFit:
        """Fit the predictor, then try the shares that are left open."""
        plain = _BASES[self.base].fit(data)
        S = Propagator(NormalizedAdjacency().build(data.graph.adjacency), data.device)
        proba = plain.scores.softmax(dim=1)
        best, most_hits, nodes = proba, -1, data.validation
        # Without validation nodes, most comes from the neighbours.
        left_open = CANDIDATES if nodes is not None else CANDIDATES[-1:]
        for correction in left_open if self.correction is None else (self.correction,):
            corrected = correct(S, proba, data, correction, self.depth)
            for smoothing in left_open if self.smoothing is None else (self.smoothing,):
                scores = smooth(S, corrected, data, smoothing, self.depth)
                hits = 0 if nodes is None else int((scores[nodes.rows].argmax(1) == nodes.targets).sum())
                if hits > most_hits:
                    best, most_hits = scores, hits
        return BaselineFit(best, plain.best_epoch, plain.n_parameters)


def correct(
    S: Propagator, proba: torch.Tensor, data: TrainingData, spread: float, steps: int
) -> torch.Tensor:
    """Return the probabilities with the errors on training nodes, spread to all nodes, added.

    What arrives at a node is scaled to the mean error of the training nodes.
    """
    rows = data.train.rows
    errors = torch.zeros_like(proba)
    errors[rows] = data.one_hot()[rows] - proba[rows]
    arrived = diffuse(S, errors, spread, steps, (-1.0, 1.0))
    scale = errors.abs().sum() / len(rows) / arrived.abs().sum(dim=1, keepdim=True)
    return proba + torch.where(scale <= _MOST_SCALE, scale, 1.0) * arrived


def smooth(S: Propagator, proba: torch.Tensor, data: TrainingData, spread: float, steps: int) -> torch.Tensor:
    """Return the probabilities, those of training nodes replaced by their labels, spread along the graph."""
    start = proba.clone()
    start[data.train.rows] = data.one_hot()[data.train.rows]
    return diffuse(S, start, spread, steps, (0.0, 1.0))
