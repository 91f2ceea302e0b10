"""The paper's three gradient methods by name, on plain tensors.

torch's optimiser *classes* import its compiler when the first one is built, a second of waiting in every
process, and the functions behind them take as long as a small network's step. So its fused pass for Adam is
called directly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

OPTIMIZERS = ("adam", "rmsprop", "sgd")


class Stepper:
    """Moves parameters against given gradients, in place, with torch's default constants.

    RMSprop is Adam that averages no gradients and has long forgotten its start. With momentum, that is what
    moves the momentum, which in turn moves the parameters.

    Parameters
    ----------
    name
        ``"adam"``, ``"rmsprop"`` or ``"sgd"``.
    parameters
        The tensors to move.
    learning_rate, weight_decay, momentum
        As in :mod:`torch.optim`; Adam has no momentum parameter and ignores it.

    Examples
    --------
    >>> w = torch.tensor([1.0])
    >>> Stepper("sgd", [w], 0.5).step([torch.tensor([0.2])])
    >>> w
    tensor([0.9000])
    """

    def __init__(
        self,
        name: str,
        parameters: Sequence[torch.Tensor],
        learning_rate: float,
        *,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
    ) -> None:
        self.parameters, self._rate, self._decay = list(parameters), learning_rate, weight_decay
        self._is_sgd, is_adam = name == "sgd", name == "adam"
        self._momentum = 0.0 if is_adam else momentum
        self._velocities = self._zeros() if self._momentum else self.parameters
        if self._is_sgd:
            return
        self._first, self._second = self._zeros(), self._zeros()
        # 0.99 to the power of a million is zero: RMSprop corrects for no start.
        self._count = torch.full((), 0.0 if is_adam else 1e6, device=self.parameters[0].device)
        self._settings: dict[str, Any] = {
            "lr": 1.0 if self._momentum else learning_rate,
            "weight_decay": 0.0 if self._momentum else weight_decay,
            "beta1": 0.9 if is_adam else 0.0,
            "beta2": 0.999 if is_adam else 0.99,
            "eps": 1e-8,
            "amsgrad": False,
            "maximize": False,
        }

    def step(self, gradients: Sequence[torch.Tensor]) -> None:
        """Take one step; ``gradients`` may be overwritten."""
        # The fused pass reads memory in order: a transposed gradient would move the wrong elements.
        moved = [_laid_out_as(p, g) for p, g in zip(self.parameters, gradients, strict=True)]
        if self._is_sgd:
            self._step_sgd(moved)
            return
        if self._momentum:
            torch._foreach_add_(moved, self.parameters, alpha=self._decay)
            torch._foreach_mul_(self._velocities, self._momentum)
        averages, counts = (self._first, self._second), [self._count.add_(1)] * len(moved)
        torch._fused_adam_(self._velocities, moved, *averages, [], counts, **self._settings)
        if self._momentum:
            torch._foreach_add_(self.parameters, self._velocities, alpha=self._rate)

    def _step_sgd(self, gradients: list[torch.Tensor]) -> None:
        if self._decay:
            torch._foreach_add_(gradients, self.parameters, alpha=self._decay)
        if self._momentum:
            torch._foreach_mul_(self._velocities, self._momentum)
            torch._foreach_add_(self._velocities, gradients)
            gradients = self._velocities
        torch._foreach_add_(self.parameters, gradients, alpha=-self._rate)

    def _zeros(self) -> list[torch.Tensor]:
        return [torch.zeros_like(each) for each in self.parameters]


def _laid_out_as(parameter: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    if gradient.stride() == parameter.stride():
        return gradient
    return torch.empty_like(parameter).copy_(gradient)
