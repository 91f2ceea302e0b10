"""How a network along the graph is trained: on all nodes at once, hearing labels, stopped by validation."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from gbgnn._optimizers import Stepper
from gbgnn._random import Purpose, derive_key
from gbgnn.learners.columns import Columns
from gbgnn.learners.early_stopping import EVERY, Best, first_losses, validation_losses
from gbgnn.learners.graph_blocks import Dropout, Neighbours
from gbgnn.learners.graph_head import GraphNetworkHead, hide
from gbgnn.problem import KnownLabels
from gbgnn.rounds import WeakTask

_WARM_UP = 0.2  # the share of the epochs in which steps grow


@dataclass(frozen=True)
class GraphTraining:
    """The settings of a training; see :class:`~gbgnn.GraphNetwork`."""

    dropout: float
    label_share: float
    learning_rate: float
    epochs: int
    patience: int | None

    def run(
        self,
        head: GraphNetworkHead,
        X: Columns,
        neighbours: Neighbours,
        known: KnownLabels | None,
        task: WeakTask,
        seed: int,
    ) -> None:
        """Move the weights of a network; they end where the validation nodes were predicted best."""
        weights, device = [each.requires_grad_() for each in head.parameters()], task.rows.device
        stepper = Stepper("adam", weights, self.learning_rate)
        random = torch.Generator(device).manual_seed(derive_key(seed, Purpose.DROPOUT) % 2**63)
        drop, best = Dropout(self.dropout, random), None
        if self.patience is not None and task.val_rows is not None:
            with torch.no_grad():
                best = Best(weights, first_losses(head.outputs(X, neighbours, known), task))
        for epoch in range(1, self.epochs + 1):
            asked, shown = torch.ones_like(task.rows, dtype=torch.bool), known
            if known is not None:
                asked = self._hidden(len(known.rows), random, device)
                shown = hide(known, asked)
            head.train()
            loss = _training_loss(head.outputs(X, neighbours, shown, drop), task, asked)
            stepper.learning_rate = self.learning_rate * warm_cosine(epoch / self.epochs)
            stepper.step(list(torch.autograd.grad(loss, weights)))
            head.eval()
            if best is None or epoch % EVERY:
                continue
            with torch.no_grad():
                best.see(epoch, validation_losses(head.outputs(X, neighbours, known), task))
            if self.patience is not None and epoch - best.epoch >= self.patience:
                break
        if best is not None:
            best.restore()
        for each in weights:
            each.requires_grad_(False)

    def _hidden(self, n_labels: int, random: torch.Generator, device: torch.device) -> torch.Tensor:
        """Return which labels are not heard at a step: some are, unless there is only one."""
        draws = torch.rand(n_labels, generator=random, device=device)
        hidden = draws >= self.label_share
        hidden[draws.argmax()] = True
        return hidden


def warm_cosine(share: float) -> float:
    """Return the size of a step after some share of the training, the largest being 1.

    Examples
    --------
    >>> [round(warm_cosine(share), 2) for share in (0.1, 0.2, 0.6, 1.0)]
    [0.5, 1.0, 0.5, 0.0]
    """
    if share <= _WARM_UP:
        return share / _WARM_UP
    return 0.5 + 0.5 * math.cos(math.pi * (share - _WARM_UP) / (1 - _WARM_UP))


def _training_loss(output: torch.Tensor, task: WeakTask, asked: torch.Tensor) -> torch.Tensor:
    """Return the weighted mean loss of some of the labelled nodes."""
    scores, weights = output[task.rows[asked]], task.weights[asked].to(output.dtype)
    if task.offsets is not None:
        scores = scores + task.offsets[asked]
    values = task.loss.evaluate("values", scores, _as_targets(task.targets[asked], scores))
    return (values * weights).sum() / weights.sum().clamp_min(torch.finfo(weights.dtype).tiny)


def _as_targets(targets: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    return targets.to(scores.dtype) if targets.is_floating_point() else targets
