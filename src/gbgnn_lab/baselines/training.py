"""The one training loop: Adam on the training nodes, and back to the best epoch by validation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import nn
from torch.nn import functional

from gbgnn._optimizers import Stepper
from gbgnn.problem import LabelledNodes
from gbgnn_lab.baselines.data import TrainingData

Outputs = Callable[[torch.Tensor], torch.Tensor]
"""From node ids to a score per class."""


Group = tuple[Sequence[nn.Parameter], float]
"""Parameters, and the L2 penalty that they share."""


def train(
    network: nn.Module,
    outputs: Outputs,
    groups: Sequence[Group],
    data: TrainingData,
    *,
    learning_rate: float,
    epochs: int,
    patience: int | None = None,
    weights: torch.Tensor | None = None,
) -> int:
    """Train ``network``, leave it as it was at its best epoch, and return the number of that epoch.

    The best epoch has the highest validation accuracy; among equals, the lowest validation loss. Without
    validation nodes it is the last.

    Parameters
    ----------
    network
        What is switched between training and evaluation.
    outputs
        The scores of given nodes, by the network as it stands.
    groups
        All parameters, each with its penalty.
    data
        Training and validation nodes with their labels.
    learning_rate
        Step of Adam.
    epochs
        The most steps, each on all training nodes.
    patience
        Stop after so many epochs in which neither accuracy nor loss of the validation nodes improved; None
        trains all epochs.
    weights
        A weight for each training node, summing to one; uniform when None.
    """
    steppers = [
        Stepper("adam", parameters, learning_rate, weight_decay=weight_decay)
        for parameters, weight_decay in groups
    ]
    trained = [parameter for parameters, _ in groups for parameter in parameters]
    shares = (data.train.weights if weights is None else weights).to(trained[0].dtype)
    best = _Best(trained)
    for epoch in range(1, epochs + 1):
        network.train()
        losses = functional.cross_entropy(outputs(data.train.rows), data.train.targets, reduction="none")
        descend(losses @ shares, steppers)
        if data.validation is None:
            continue
        network.eval()
        best.see(epoch, *_judge(outputs, data.validation))
        if patience is not None and epoch - best.last_progress >= patience:
            break
    if data.validation is None:
        return epochs
    best.restore()
    return best.epoch


def descend(loss: torch.Tensor, steppers: Sequence[Stepper]) -> None:
    """Take one step down ``loss`` with the parameters of all steppers."""
    parameters = [parameter for stepper in steppers for parameter in stepper.parameters]
    # torch's fused Adam reads gradients in memory order, which that of a transposed weight is not.
    gradients = (gradient.contiguous() for gradient in torch.autograd.grad(loss, parameters))
    with torch.no_grad():
        for stepper in steppers:
            stepper.step([next(gradients) for _ in stepper.parameters])


@torch.no_grad()
def _judge(outputs: Outputs, nodes: LabelledNodes) -> tuple[int, float]:
    """Return how many nodes are right, and their mean cross entropy."""
    scores = outputs(nodes.rows)
    hits = scores.argmax(dim=1) == nodes.targets
    return int(hits.sum()), float(functional.cross_entropy(scores, nodes.targets))


class _Best:
    """The parameters at the best epoch so far, and when anything last got better."""

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self.parameters = parameters
        self.kept = [p.detach().clone() for p in parameters]
        self.epoch = self.last_progress = 0
        self.rank = (-1, -math.inf)
        self.most_hits, self.least_loss = -1, math.inf

    def see(self, epoch: int, hits: int, loss: float) -> None:
        """Compare an epoch with the best, and keep its parameters if it is better."""
        if hits > self.most_hits or loss < self.least_loss:
            self.last_progress = epoch
            self.most_hits, self.least_loss = max(hits, self.most_hits), min(loss, self.least_loss)
        if (hits, -loss) > self.rank:
            self.rank, self.epoch = (hits, -loss), epoch
            for kept, parameter in zip(self.kept, self.parameters, strict=True):
                kept.copy_(parameter.detach())

    def restore(self) -> None:
        """Put the parameters of the best epoch back."""
        with torch.no_grad():
            for kept, parameter in zip(self.kept, self.parameters, strict=True):
                parameter.copy_(kept)
