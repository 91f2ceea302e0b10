"""The paper's three gradient methods by name, on plain tensors.

torch's optimiser *classes* import its compiler when the first one is built, a second of waiting in every
process; the functions behind them do the same arithmetic without.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.optim.adam import adam
from torch.optim.rmsprop import rmsprop
from torch.optim.sgd import sgd

OPTIMIZERS = ("adam", "rmsprop", "sgd")


class Stepper:
    """Moves parameters against given gradients, in place, with torch's default constants.

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
        self.name, self.parameters = name, list(parameters)
        self.learning_rate, self.weight_decay, self.momentum = learning_rate, weight_decay, momentum
        self.first = [torch.zeros_like(p) for p in self.parameters]
        self.second = [torch.zeros_like(p) for p in self.parameters]
        self.counts = [torch.zeros((), device=p.device) for p in self.parameters]
        self.buffers: list[torch.Tensor | None] = [None] * len(self.parameters)

    def step(self, gradients: Sequence[torch.Tensor]) -> None:
        """Take one step; ``gradients`` may be overwritten."""
        # torch's fused Adam reads memory in order: a transposed gradient would move the wrong elements.
        moved, grads = (
            self.parameters,
            [_laid_out_as(p, g) for p, g in zip(self.parameters, gradients, strict=True)],
        )
        rate, decay, momentum = self.learning_rate, self.weight_decay, self.momentum
        if self.name == "adam":
            adam(
                *(moved, grads, self.first, self.second, [], self.counts),
                fused=True,
                amsgrad=False,
                beta1=0.9,
                beta2=0.999,
                lr=rate,
                weight_decay=decay,
                eps=1e-8,
                maximize=False,
            )
        elif self.name == "rmsprop":
            rmsprop(
                *(moved, grads, self.second, [], self.first, self.counts),
                lr=rate,
                alpha=0.99,
                eps=1e-8,
                weight_decay=decay,
                momentum=momentum,
                centered=False,
            )
        else:
            sgd(
                *(moved, grads, self.buffers),
                weight_decay=decay,
                momentum=momentum,
                lr=rate,
                dampening=0.0,
                nesterov=False,
                maximize=False,
            )


def _laid_out_as(parameter: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    if gradient.stride() == parameter.stride():
        return gradient
    return torch.empty_like(parameter).copy_(gradient)
