"""The steps of many members at once, each by a method and at a rate of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

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
    >>> rates = torch.tensor([0.5, 0.1])
    >>> both = Coefficients.of(["sgd", "adam"], rates)
    >>> p, moments = torch.ones(2, 3), Moments.like(torch.ones(2, 3))
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
    def of(
        cls,
        names: Sequence[str],
        rate: torch.Tensor,
        *,
        decay: torch.Tensor | None = None,
        momentum: torch.Tensor | None = None,
        device: torch.device | str = "cpu",
    ) -> Coefficients:
        """Build the columns from the settings of :class:`gbgnn._optimizers.Stepper`, in double precision."""
        adam, sgd = (torch.tensor([name == kind for name in names])[:, None] for kind in ("adam", "sgd"))
        rate = rate.double()[:, None]
        nothing = torch.zeros_like(rate)
        decay, momentum = (nothing if x is None else x.double()[:, None] for x in (decay, momentum))
        columns = {
            "is_adam": adam,
            "is_sgd": sgd,
            "rate": rate,
            "decay": decay,
            "keep": torch.where(adam, _BETA_1, momentum),
            "take": torch.where(adam, 1 - _BETA_1, nothing + 1),
            "learn": torch.where(adam, 1 - _BETA_2, nothing + 1 - _ALPHA),
            "floor": torch.where(sgd, 1.0, nothing + _FLOOR),
        }
        return cls(**{name: x.to(device) for name, x in columns.items()}, kinds=frozenset(names))

    @classmethod
    def empty(cls, n_members: int, kinds: frozenset[str], like: torch.Tensor) -> Coefficients:
        """Make room for members that use some of the methods ``kinds``; see :meth:`load`."""
        of_some = cls.of(["sgd"] * n_members, torch.zeros(n_members), device=like.device)
        return replace(of_some.to(like.dtype), kinds=kinds)

    def load(self, other: Coefficients) -> None:
        """Overwrite the first rows."""
        for name, column in other._columns():
            getattr(self, name)[: len(column)] = column

    def packed(self) -> torch.Tensor:
        """Return decay, keep, take, learn, floor and whether it is Adam, shape (members, 6)."""
        columns = (self.decay, self.keep, self.take, self.learn, self.floor)
        return torch.cat([*columns, self.is_adam.to(self.decay.dtype)], dim=1)

    def of_members(self, ids: torch.Tensor | slice) -> Coefficients:
        """Return the rows of some members."""
        return self._mapped(lambda column: column[ids])

    def to(self, dtype: torch.dtype) -> Coefficients:
        """Return the numbers in another precision."""
        return self._mapped(lambda column: column if column.dtype == torch.bool else column.to(dtype))

    def _mapped(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Coefficients:
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
    def like(cls, parameters: torch.Tensor) -> Moments:
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
