"""The paper's three gradient methods by name, on plain tensors: for one setting, or one for each of many.

torch's optimiser *classes* import its compiler when the first one is built, a second of waiting in every
process, and the functions behind them take as long as a small network's step. So its fused pass for Adam is
called directly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

OPTIMIZERS = ("adam", "rmsprop", "sgd")

# First and second decay rate of torch's Adam, smoothing of its RMSprop, and the floor of both.
_BETA_1, _BETA_2, _ALPHA, _FLOOR = 0.9, 0.999, 0.99, 1e-8


class Stepper:
    """Moves parameters against given gradients, in place, with torch's default constants.

    ``name`` is one of ``OPTIMIZERS``; the settings are those of :mod:`torch.optim`, and Adam ignores
    ``momentum``. RMSprop is Adam that averages no gradients and has long forgotten its start. With momentum,
    that is what moves the momentum, which in turn moves the parameters.
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
            "beta1": _BETA_1 if is_adam else 0.0,
            "beta2": _BETA_2 if is_adam else _ALPHA,
            "eps": _FLOOR,
            "amsgrad": False,
            "maximize": False,
        }

    @property
    def learning_rate(self) -> float:
        """The size of the next step, which may be set."""
        return self._rate

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        self._rate = rate
        if not self._is_sgd and not self._momentum:
            self._settings["lr"] = rate

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


@dataclass(frozen=True, eq=False)
class Coefficients:
    r"""What makes one formula SGD, RMSprop or Adam, for each of some members.

    With g the gradient plus ``decay`` times the parameter, a step is

    .. math:: s \leftarrow s + \text{learn}\,(g^2 - s), \quad d = \text{root}\,\sqrt s + \text{floor}, \quad
              u \leftarrow \text{keep}\,u + \text{take}\,(g \text{ or } g / d), \quad
              p \leftarrow p - \text{rate}\,(u / d \text{ or } u)

    where Adam divides after averaging, the others before; SGD has d = 1. Rates and roots change with the
    step: see :meth:`schedule`. A row of ``table`` holds decay, keep, take, learn, floor, whether it is Adam,
    whether it is SGD, and the rate, of one member; ``kinds`` are the methods there are, so that a population
    of one kind is spared the choice.
    """

    table: torch.Tensor
    kinds: frozenset[str]

    @classmethod
    def build(
        cls,
        names: Sequence[str],
        rate: Sequence[float],
        *,
        decay: Sequence[float] | None = None,
        momentum: Sequence[float] | None = None,
        device: torch.device | str = "cpu",
    ) -> Coefficients:
        """Fill the table from the settings of :class:`Stepper`, in double precision."""
        nothing, rows = [0.0] * len(names), []
        for name, own, decayed, kept in zip(names, rate, decay or nothing, momentum or nothing, strict=True):
            is_adam, is_sgd = name == "adam", name == "sgd"
            averages = (_BETA_1, 1 - _BETA_1, 1 - _BETA_2) if is_adam else (kept, 1.0, 1 - _ALPHA)
            rows.append((decayed, *averages, 1.0 if is_sgd else _FLOOR, is_adam, is_sgd, own))
        return cls(torch.tensor(rows, dtype=torch.float64, device=device), frozenset(names))

    @property
    def columns(self) -> tuple[torch.Tensor, ...]:
        """The columns of the table, each of shape (members, 1)."""
        return self.table[..., None].unbind(1)

    def pack(self) -> torch.Tensor:
        """Return decay, keep, take, learn, floor and whether it is Adam, shape (members, 6)."""
        return self.table[:, :6].contiguous()

    def schedule(self, n_steps: torch.Tensor, longest: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return rates and roots of every step, shape (members, longest); after its last, a rate is 0."""
        *_, is_adam, is_sgd, rate = self.columns
        step = torch.arange(1, longest + 1, dtype=torch.float64, device=rate.device)
        rates = rate / torch.where(is_adam > 0, 1 - _BETA_1**step, 1.0)
        roots = torch.where(is_adam > 0, (1 - _BETA_2**step).rsqrt(), 1.0 - is_sgd)
        return torch.where(step <= n_steps[:, None], rates, 0.0), roots


class Moments:
    """The averages of gradients (or of what is made of them) and of their squares that the methods keep.

    They are of parameters of shape (members, n_parameters), and begin with zeros.
    """

    def __init__(self, parameters: torch.Tensor) -> None:
        self.first, self.second = (torch.zeros_like(parameters) for _ in range(2))
        self._scratch: torch.Tensor | None = None

    def reset(self) -> None:
        """Begin anew."""
        self.first.zero_()
        self.second.zero_()

    def step(
        self,
        parameters: torch.Tensor,
        gradient: torch.Tensor,
        c: Coefficients,
        rate: torch.Tensor,
        root: torch.Tensor,
    ) -> None:
        """Move the parameters of the first members, in place; the gradient is overwritten.

        ``rate`` and ``root`` are columns of :meth:`Coefficients.schedule`.
        """
        n, (decay, keep, take, learn, floor, is_adam, *_) = len(parameters), c.columns
        first, second = self.first[:n], self.second[:n]
        gradient.addcmul_(parameters, decay)
        if c.kinds == {"sgd"}:
            parameters.addcmul_(first.mul_(keep).add_(gradient), rate, value=-1)
            return
        if self._scratch is None:
            self._scratch = torch.empty_like(self.first)
        scratch = self._scratch[:n]
        second.lerp_(torch.mul(gradient, gradient, out=scratch), learn)
        torch.addcmul(floor, torch.sqrt(second, out=scratch), root, out=scratch)  # d
        if c.kinds == {"adam"}:
            first.lerp_(gradient, take)
            step = torch.div(first, scratch, out=scratch)
        elif "adam" not in c.kinds:
            step = first.mul_(keep).add_(gradient.div_(scratch))
        else:
            inner = torch.where(is_adam > 0, gradient, gradient / scratch)
            first.mul_(keep).addcmul_(inner, take)
            step = torch.where(is_adam > 0, first / scratch, first)
        parameters.addcmul_(step, rate, value=-1)
