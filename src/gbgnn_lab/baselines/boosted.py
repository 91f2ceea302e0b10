"""AdaGCN: SAMME.R over hops, with one classifier that is trained on from hop to hop."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch

from gbgnn.propagation import AugmentedAdjacency
from gbgnn_lab.baselines.base import (
    BaselineFit,
    BaselineModel,
    count,
    count_parameters,
    dropout_rate,
    penalty,
    step,
)
from gbgnn_lab.baselines.data import TrainingData
from gbgnn_lab.baselines.matrices import DenseMatrix
from gbgnn_lab.baselines.propagating import Perceptron, score_rows
from gbgnn_lab.baselines.training import train


@dataclass(frozen=True, kw_only=True)
class AdaGCN(BaselineModel):
    """AdaBoost over the hops ``X, P X, ..., P^depth X``; every hop trains the last one's classifier on.

    Parameters
    ----------
    depth
        Hops; there is one classifier more.
    units, dropout
        Width of the classifier's hidden layer; share of the inputs of a layer dropped in training.
    learning_rate, epochs, patience
        As for :class:`~gbgnn_lab.baselines.base.NetworkModel`, anew in every hop.
    weight_decay, first_weight_decay
        L2 penalty on both layers, and what the first has on top.

    Examples
    --------
    >>> AdaGCN()
    AdaGCN(depth=11, units=5000, dropout=0.0, learning_rate=0.01, weight_decay=0.0001,
    first_weight_decay=0.005, epochs=500, patience=300)
    """

    depth: int = count(11)
    units: int = count(5000)
    dropout: float = dropout_rate(0.0)
    learning_rate: float = step(0.01)
    weight_decay: float = penalty(1e-4)
    first_weight_decay: float = penalty(5e-3)
    epochs: int = count(500)
    patience: int | None = count(300, optional=True)

    def fit(self, data: TrainingData) -> BaselineFit:
        """Train hop after hop, and add the compute_votes up."""
        inputs = data.inputs(AugmentedAdjacency())
        X, weights = inputs.features.dense(), data.train.weights
        network = Perceptron([X.shape[1], self.units, data.n_classes], self.dropout, bias=False)
        network.to(data.device)
        first, last = network.layers
        groups = [
            (list(first.parameters()), self.weight_decay + self.first_weight_decay),
            (list(last.parameters()), self.weight_decay),
        ]
        scores, epoch = X.new_zeros(data.n_nodes, data.n_classes), 0
        for hop in range(self.depth + 1):
            X = inputs.P(X) if hop else X
            epoch = train(
                network,
                partial(score_rows, network, X),
                groups,
                data,
                learning_rate=self.learning_rate,
                epochs=self.epochs,
                patience=self.patience,
                weights=weights,
            )
            network.eval()
            with torch.no_grad():
                logs = network(DenseMatrix(X)).log_softmax(dim=1)
            scores += compute_votes(logs)
            weights = update_weights(weights, logs[data.train.rows], data.train.targets)
        return BaselineFit(scores, epoch, count_parameters(network))


def compute_votes(logs: torch.Tensor) -> torch.Tensor:
    """Return SAMME.R's vote for log-probabilities, centred and times K - 1."""
    return (logs.shape[1] - 1) * (logs - logs.mean(dim=1, keepdim=True))


def update_weights(weights: torch.Tensor, logs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    r"""Return SAMME.R's next weights: :math:`w_i \exp(-\frac{K-1}{K} \langle y_i, \log p_i\rangle)`, sum one.

    The code :math:`y_i` is 1 for the class of the node and :math:`-1/(K-1)` for the others, so the weight
    grows for a node that is predicted badly. (The authors' code has the other sign: it multiplies by a
    falling function of the loss.)

    Examples
    --------
    >>> logs = torch.tensor([[0.9, 0.1], [0.9, 0.1]], dtype=torch.float64).log()
    >>> update_weights(torch.tensor([0.5, 0.5], dtype=torch.float64), logs, torch.tensor([0, 1]))
    tensor([0.1000, 0.9000], dtype=torch.float64)
    """
    exact = logs.double()
    # (K-1)/K <y, log p> is how far log p of the class is above the mean over all classes.
    agreement = exact.gather(1, targets[:, None])[:, 0] - exact.mean(dim=1)
    grown = weights * torch.exp(-agreement)
    return grown / grown.sum()
