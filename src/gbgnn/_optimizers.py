"""The paper's three gradient methods by name, on plain tensors: for one setting, or one for each of many.

torch's optimiser *classes* import its compiler when the first one is built, a second of waiting in every
process, and the functions behind them take as long as a small network's step. So its fused pass for Adam is
called directly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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


# First and second decay rate of torch's Adam, smoothing of its RMSprop, and the floor of both.
_BETA_1, _BETA_2, _ALPHA, _FLOOR = 0.9, 0.999, 0.99, 1e-8


@dataclass(frozen=True, eq=False)
class Coefficients:
    r"""What makes one formula SGD, RMSprop or Adam, as columns of shape (members, 1).

    With g the gradient plus ``decay`` times the parameter, a step is

    .. math:: s \leftarrow s + \text{learn}\,(g^2 - s), \quad d = \text{root}\,\sqrt s + \text{floor}, \quad
              u \leftarrow \text{keep}\,u + \text{take}\,(g \text{ or } g / d), \quad
              p \leftarrow p - \text{rate}\,(u / d \text{ or } u)

    where Adam divides after averaging, the others before; SGD has d = 1. Rates and roots change with the
    step: see :meth:`schedule`.

    Parameters
    ----------
    is_adam, is_sgd
        Which method.
    rate, decay, keep, take, learn, floor
        Numbers of the formula.
    kinds
        The methods there are, so that a population of one kind is spared the choice.

    Examples
    --------
    >>> both = Coefficients.build(["sgd", "adam"], [0.5, 0.1])
    >>> p, moments = torch.ones(2, 3), Moments.zeros_like(torch.ones(2, 3))
    >>> now = [table[:, :1].float() for table in both.schedule(torch.tensor([9, 9]), 1)]
    >>> moments.step(p, torch.full((2, 3), 0.2), both.to(torch.float32), *now)
    >>> p
    tensor([[0.9000, 0.9000, 0.9000],
            [0.9000, 0.9000, 0.9000]])
    """

    is_adam: torch.Tensor
    is_sgd: torch.Tensor
    rate: torch.Tensor
    decay: torch.Tensor
    keep: torch.Tensor
    take: torch.Tensor
    learn: torch.Tensor
    floor: torch.Tensor
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
        """Build the columns from the settings of :class:`Stepper`, in double precision."""
        adam, sgd = (torch.tensor([name == kind for name in names])[:, None] for kind in ("adam", "sgd"))
        rates, decays, momenta = (
            torch.tensor([0.0] * len(names) if given is None else list(given), dtype=torch.float64)[:, None]
            for given in (rate, decay, momentum)
        )
        nothing = torch.zeros_like(rates)
        columns = {
            "is_adam": adam,
            "is_sgd": sgd,
            "rate": rates,
            "decay": decays,
            "keep": torch.where(adam, _BETA_1, momenta),
            "take": torch.where(adam, 1 - _BETA_1, nothing + 1),
            "learn": torch.where(adam, 1 - _BETA_2, nothing + 1 - _ALPHA),
            "floor": torch.where(sgd, 1.0, nothing + _FLOOR),
        }
        return cls(**{name: x.to(device) for name, x in columns.items()}, kinds=frozenset(names))

    @classmethod
    def empty(cls, n_members: int, kinds: frozenset[str], like: torch.Tensor) -> Coefficients:
        """Make room for members that use some of the methods ``kinds``; see :meth:`load`."""
        of_some = cls.build(["sgd"] * n_members, [0.0] * n_members, device=like.device)
        return replace(of_some.to(like.dtype), kinds=kinds)

    def load(self, other: Coefficients) -> None:
        """Overwrite the first rows."""
        for name, column in other._columns():
            getattr(self, name)[: len(column)] = column

    def pack(self) -> torch.Tensor:
        """Return decay, keep, take, learn, floor and whether it is Adam, shape (members, 6)."""
        columns = (self.decay, self.keep, self.take, self.learn, self.floor)
        return torch.cat([*columns, self.is_adam.to(self.decay.dtype)], dim=1)

    def members(self, ids: torch.Tensor | slice) -> Coefficients:
        """Return the columns of some members."""
        return self._map(lambda column: column[ids])

    def to(self, where: torch.dtype | torch.device) -> Coefficients:
        """Return the numbers in another precision, or on another device."""
        is_kept = isinstance(where, torch.dtype)
        return self._map(lambda each: each if is_kept and each.dtype == torch.bool else each.to(where))

    def _map(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Coefficients:
        columns: dict[str, Any] = {name: change(column) for name, column in self._columns()}
        return replace(self, **columns)

    def _columns(self) -> list[tuple[str, torch.Tensor]]:
        return [(name, value) for name, value in vars(self).items() if name != "kinds"]

    def schedule(self, n_steps: torch.Tensor, longest: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return rates and roots of every step, shape (members, longest); after its last, a rate is 0."""
        step = torch.arange(1, longest + 1, dtype=torch.float64, device=self.rate.device)
        rates = self.rate / torch.where(self.is_adam, 1 - _BETA_1**step, 1.0)
        roots = torch.where(self.is_adam, (1 - _BETA_2**step).rsqrt(), 1.0 - self.is_sgd.double())
        return torch.where(step <= n_steps[:, None], rates, 0.0), roots


class Moments:
    """The two averages that the methods keep, of parameters of shape (members, n_parameters).

    Parameters
    ----------
    first, second
        Averages of gradients, or of what is made of them, and of their squares.
    """

    def __init__(self, first: torch.Tensor, second: torch.Tensor) -> None:
        self.first, self.second = first, second
        self._scratch: torch.Tensor | None = None

    @classmethod
    def zeros_like(cls, parameters: torch.Tensor) -> Moments:
        """Begin with zeros."""
        return cls(torch.zeros_like(parameters), torch.zeros_like(parameters))

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
        n = len(parameters)
        first, second = self.first[:n], self.second[:n]
        gradient.addcmul_(parameters, c.decay)
        if c.kinds == {"sgd"}:
            parameters.addcmul_(first.mul_(c.keep).add_(gradient), rate, value=-1)
            return
        if self._scratch is None:
            self._scratch = torch.empty_like(self.first)
        scratch = self._scratch[:n]
        second.lerp_(torch.mul(gradient, gradient, out=scratch), c.learn)
        torch.addcmul(c.floor, torch.sqrt(second, out=scratch), root, out=scratch)  # d
        if c.kinds == {"adam"}:
            first.lerp_(gradient, c.take)
            step = torch.div(first, scratch, out=scratch)
        elif "adam" not in c.kinds:
            step = first.mul_(c.keep).add_(gradient.div_(scratch))
        else:
            inner = torch.where(c.is_adam, gradient, gradient / scratch)
            first.mul_(c.keep).addcmul_(inner, c.take)
            step = torch.where(c.is_adam, first / scratch, first)
        parameters.addcmul_(step, rate, value=-1)
