"""The oracle of networks: one at a time, by torch's autograd and torch's optimisers."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch.nn import functional

from gbgnn._random import Purpose, derive_key, draw_bits, dropout_threshold, hash_grid, uniform
from gbgnn.learners import MLP
from gbgnn.losses import Loss

Layers = list[tuple[torch.Tensor, torch.Tensor]]
CLASSES = {"adam": torch.optim.Adam, "rmsprop": torch.optim.RMSprop, "sgd": torch.optim.SGD}


def draw_layers(widths: list[int], seed: int, dtype: torch.dtype, fan_in: int | None = None) -> Layers:
    """Weights (out, in) and biases, uniform within one over the root of the number of inputs."""
    layers = []
    for depth, (n_in, n_out) in enumerate(pairwise(widths)):
        bound = 1 / math.sqrt(fan_in if fan_in and not depth else n_in)
        weight = uniform(n_in, n_out, derive_key(seed, Purpose.WEIGHTS, depth), dtype).T
        bias = uniform(1, n_out, derive_key(seed, Purpose.BIASES, depth), dtype)[0]
        layers.append(tuple((2 * each - 1) * bound for each in (weight, bias)))
    return layers


def draw_order(n_rows: int, seed: int, epoch: int) -> torch.Tensor:
    """The order in which an epoch takes the rows."""
    return draw_bits(
        hash_grid(torch.arange(n_rows), 1)[:, 0], derive_key(seed, Purpose.ORDER, epoch)
    ).argsort()


def draw_mask(share: float, shape: tuple[int, int], seed: int, layer: int, epoch: int) -> torch.Tensor:
    """What hidden units are multiplied by: 0, or more than 1."""
    n_rows, n_units = shape
    draws = draw_bits(
        hash_grid(torch.arange(n_rows), n_units), derive_key(seed, Purpose.DROPOUT, layer, epoch)
    )
    return (draws >= dropout_threshold(share)).double() / (1 - share)


def apply(
    layers: Layers, rows: torch.Tensor, masks: list[torch.Tensor] | None = None, norm: str | None = None
) -> torch.Tensor:
    """The outputs, hidden units standardised where there is a norm, and multiplied by masks."""
    *hidden_layers, last = layers
    for depth, layer in enumerate(hidden_layers):
        rows = functional.linear(rows, *layer)
        rows = (rows if norm is None else functional.layer_norm(rows, rows.shape[1:])).relu()
        rows = rows if masks is None else rows * masks[depth].to(rows.dtype)
    return functional.linear(rows, *last)


def train(
    learner: MLP,
    rows: torch.Tensor,
    targets: torch.Tensor,
    weights: torch.Tensor,
    loss: Loss,
    n_outputs: int,
    seed: int,
    fan_in: int | None = None,
) -> Layers:
    """The network that a learner trains on rows as they are; ``fan_in`` is what weights are drawn for."""
    n_rows, n_hidden, units = len(rows), learner.hidden_layers, learner.units
    layers = draw_layers([rows.shape[1], *[units] * n_hidden, n_outputs], seed, rows.dtype, fan_in)
    parameters = [each.requires_grad_() for layer in layers for each in layer]
    momentum = {} if learner.optimizer == "adam" else {"momentum": learner.momentum}
    optimizer = CLASSES[learner.optimizer](
        parameters, lr=learner.learning_rate, weight_decay=learner.penalty(n_rows), **momentum
    )
    size = min(n_rows, learner.batch_size or n_rows)
    for epoch in range(learner.epochs):
        order = torch.arange(n_rows) if size == n_rows else draw_order(n_rows, seed, epoch)
        shares = [draw_mask(learner.dropout, (n_rows, units), seed, k, epoch) for k in range(n_hidden)]
        for chosen in order.split(size):
            output = apply(layers, rows[chosen], [mask[chosen] for mask in shares], learner.norm)
            values = loss.values(output, targets[chosen]) * weights[chosen].to(rows.dtype)
            optimizer.zero_grad()
            (values.sum() * n_rows / len(chosen)).backward()
            optimizer.step()
    return [(weight.detach(), bias.detach()) for weight, bias in layers]


class Plainly:
    """The functions above, for tests to ask for."""

    draw_layers = staticmethod(draw_layers)
    draw_order = staticmethod(draw_order)
    draw_mask = staticmethod(draw_mask)
    apply = staticmethod(apply)
    train = staticmethod(train)


@pytest.fixture
def plainly() -> type[Plainly]:
    return Plainly


@pytest.fixture
def n_cores(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Pretend that there are so many."""

    def is_outside() -> bool:
        return threading.current_thread() is threading.main_thread()

    def pretend(n: int) -> None:
        for module in ("_threads", "learners.trainer"):
            monkeypatch.setattr(f"gbgnn.{module}.n_threads", lambda: n if is_outside() else 1)

    return pretend
