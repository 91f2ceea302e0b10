"""The paper's three gradient methods by name, built in one place."""

from __future__ import annotations

from collections.abc import Iterable

import torch

OPTIMIZERS = ("adam", "rmsprop", "sgd")


def build_optimizer(
    name: str,
    parameters: Iterable[torch.nn.Parameter],
    learning_rate: float,
    *,
    weight_decay: float = 0.0,
    momentum: float = 0.0,
) -> torch.optim.Optimizer:
    """Return a torch optimiser; Adam has no momentum parameter and ignores ``momentum``."""
    if name == "adam":
        # The fused kernel is one pass over the weights (benchmarks/results/speed.md).
        return torch.optim.Adam(parameters, learning_rate, weight_decay=weight_decay, fused=True)
    if name == "rmsprop":
        return torch.optim.RMSprop(parameters, learning_rate, weight_decay=weight_decay, momentum=momentum)
    return torch.optim.SGD(parameters, learning_rate, weight_decay=weight_decay, momentum=momentum)
