"""Small ReLU networks: the fitted head, and what training one takes.

All weights are views of one vector, and their gradients of another, so that an optimiser's step is one pass.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from gbgnn._random import Purpose, key_of, uniform
from gbgnn.learners.base import Head
from gbgnn.learners.epochs import Orders
from gbgnn.losses import Loss
from gbgnn.rounds import WeakTask

Layer = tuple[torch.Tensor, torch.Tensor]
"""Weight, shape (in, out), and bias."""


class MLPHead(Head):
    """A fitted network: linear layers with ReLU between them.

    Parameters
    ----------
    layers
        The linear layers, from the first.
    report
        What the learner has to say of its training. It is not part of the model file.
    """

    def __init__(self, layers: list[nn.Linear], report: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self._report = report

    takes_sparse = True
    runs_in_threads = True

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Return the outputs of the rows ``X``; there is no dropout at prediction."""
        first, *rest = self.layers
        assert isinstance(first, nn.Linear)
        hidden = torch.addmm(first.bias, X, first.weight.t())  # X may be sparse
        for layer in rest:
            hidden = layer(hidden.relu_())
        return hidden

    @property
    def first_layer(self) -> tuple[str, str]:
        """Names of the weight and the bias of the first layer."""
        return "layers.0.weight", "layers.0.bias"

    def report(self) -> dict[str, Any] | None:
        """Return what the learner had to say, while the head has not been through a file."""
        return self._report

    def state(self) -> dict[str, torch.Tensor]:
        """Return weights and biases."""
        return dict(self.state_dict())

    @classmethod
    def from_state(cls, state: dict[str, torch.Tensor], report: dict[str, Any] | None = None) -> MLPHead:
        """Build the network again; the shapes of the weights say how deep and wide it is."""
        n_layers = sum(name.endswith(".weight") for name in state)
        shapes = [state[f"layers.{i}.weight"].shape for i in range(n_layers)]
        head = cls([nn.Linear(n_in, n_out, device="meta") for n_out, n_in in shapes], report)
        head.load_state_dict(state, assign=True)
        return head.requires_grad_(False)

    @classmethod
    def from_layers(cls, layers: list[Layer], report: dict[str, Any] | None = None) -> MLPHead:
        """Build the network from copies of weights, shape (in, out), and biases."""
        state = {
            f"layers.{i}.{name}": value.clone(memory_format=torch.contiguous_format)
            for i, (weight, bias) in enumerate(layers)
            for name, value in (("weight", weight.t()), ("bias", bias))
        }
        return cls.from_state(state, report)


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows to train on. ``columns``, their transpose in memory order, makes a gradient twice as fast."""

    rows: torch.Tensor
    columns: torch.Tensor
    targets: torch.Tensor
    weights: torch.Tensor
    loss: Loss
    chosen: torch.Tensor | None = None  # places among the labelled rows; None is all of them

    @classmethod
    def of_task(cls, rows: torch.Tensor, task: WeakTask) -> Batch:
        """Return all labelled rows."""
        targets = task.targets.to(rows.dtype) if task.targets.is_floating_point() else task.targets
        columns, weights = rows.t().contiguous(), task.weights.to(rows.dtype)
        return cls(rows, columns, targets, weights[:, None], task.loss)

    def shuffled(self, batch_size: int | None, orders: Orders, epoch: int) -> Iterator[Batch]:
        """Yield an epoch: all rows at once, or parts of ``batch_size`` rows drawn without replacement."""
        if batch_size is None or batch_size >= len(self.rows):
            yield self
            return
        for chosen in orders.order(epoch).split(batch_size):
            yield self._part(chosen)

    def _part(self, chosen: torch.Tensor) -> Batch:
        """Return some of the rows, weighted so that the expectation is the loss of all."""
        rows, weights = self.rows[chosen], self.weights[chosen] * (len(self.rows) / len(chosen))
        columns = rows.t().contiguous()
        return Batch(rows, columns, self.targets[chosen], weights, self.loss, chosen)

    def error(self, output: torch.Tensor) -> torch.Tensor:
        """Return the gradient of the weighted loss in the output."""
        return self.loss.gradient(output, self.targets).mul_(self.weights)


@dataclass(frozen=True, eq=False)
class Network:
    """A network in training: ``layers`` are views of ``weights``, ``gradients`` of ``gradient``."""

    weights: torch.Tensor
    layers: list[Layer]
    gradient: torch.Tensor
    gradients: list[Layer]

    @classmethod
    def initialized(
        cls, widths: list[int], seed: int, like: torch.Tensor, fan_in: int | None = None
    ) -> Network:
        """Draw torch's default initialisation, in the first layer for ``fan_in`` inputs where given."""
        network = cls(*_flat_layers(widths, like), *_flat_layers(widths, like))
        for depth, (weight, bias) in enumerate(network.layers):
            bound = 1 / math.sqrt(len(weight) if depth or fan_in is None else fan_in)
            for values, purpose in ((weight, Purpose.WEIGHTS), (bias[None], Purpose.BIASES)):
                n_rows, n_columns = values.shape
                draws = uniform(n_rows, n_columns, key_of(seed, purpose, depth), like.dtype, like.device)
                values.copy_(draws.sub_(0.5).mul_(2 * bound))
        return network

    def outputs(self, X: torch.Tensor) -> torch.Tensor:
        """Return the outputs of the rows ``X``."""
        *hidden_layers, (weight, bias) = self.layers
        for hidden_weight, hidden_bias in hidden_layers:
            X = torch.addmm(hidden_bias, X, hidden_weight).relu_()
        return torch.addmm(bias, X, weight)

    def backward(self, batch: Batch, masks: torch.Tensor | None = None) -> torch.Tensor:
        """Return the loss's gradient in all weights: forward with dropout, then the chain rule.

        ``masks`` multiply the hidden units, see :class:`~gbgnn.learners.epochs.Dropout`. Written out because
        autograd's bookkeeping costs as much as the arithmetic of so small a network
        (benchmarks/results/speed.md); a test holds it to autograd.
        """
        inputs = [batch.rows]
        for depth, (weight, bias) in enumerate(self.layers[:-1]):
            hidden = torch.addmm(bias, inputs[-1], weight).relu_()
            inputs.append(hidden if masks is None else hidden.mul_(masks[depth]))
        last_weight, last_bias = self.layers[-1]
        error = batch.error(torch.addmm(last_bias, inputs[-1], last_weight))
        for depth in range(len(self.layers) - 1, -1, -1):
            columns = inputs[depth].t() if depth else batch.columns
            torch.mm(columns, error, out=self.gradients[depth][0])
            torch.sum(error, dim=0, out=self.gradients[depth][1])
            if depth:  # the derivative of a unit is its sign: 1 where it lives, 0 where it is off or dropped
                error = (error @ self.layers[depth][0].t()).mul_(inputs[depth].sign())
                if masks is not None:
                    error.mul_(masks[depth - 1])
        return self.gradient


def _flat_layers(widths: list[int], like: torch.Tensor) -> tuple[torch.Tensor, list[Layer]]:
    """Return one vector, and the weights and biases of layers as views of it."""
    sizes = [size for n_in, n_out in pairwise(widths) for size in (n_in * n_out, n_out)]
    flat = like.new_empty(sum(sizes))
    parts = iter(flat.split(sizes))
    return flat, [(next(parts).view(n_in, n_out), next(parts)) for n_in, n_out in pairwise(widths)]
