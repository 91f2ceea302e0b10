"""Who moves the weights of a cohort along their slopes: torch's own optimisers, or one formula for all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import torch

from gbgnn._optimizers import Stepper
from gbgnn.learners import MLP
from gbgnn.population.optimizer import Coefficients, Moments

Pair = tuple[torch.Tensor, torch.Tensor]
"""Parameters and their slopes, shape (members, n)."""


class Mover(ABC):
    """Moves parameters of shape (members, n), in place.

    ``load`` is called before training begins anew, ``step`` with the number of members that go on and, on the
    device, the number of the step.
    """

    @abstractmethod
    def load(self, learners: Sequence[MLP], coefficients: Coefficients, n_steps: torch.Tensor) -> None:
        """Begin anew for members with these settings, said twice, and so many steps."""

    @abstractmethod
    def step(self, m: int, now: torch.Tensor) -> None:
        """Move the parameters of the first ``m`` members."""


class OneByOne(Mover):
    """Moves one member after the other, by kernels that read and write everything once: the fastest on a CPU.

    Parameters
    ----------
    moved
        Parameters and their slopes, pair by pair; every array has a row per member.
    """

    def __init__(self, moved: Sequence[Pair]) -> None:
        self._parameters, self._slopes = (
            [list(rows) for rows in zip(*arrays, strict=True)] for arrays in zip(*moved, strict=True)
        )
        self._steppers: list[Stepper | FusedStepper] = []

    def load(self, learners: Sequence[MLP], coefficients: Coefficients, n_steps: torch.Tensor) -> None:
        """Build the optimisers."""
        self._steppers = [
            _stepper_of(learner, parameters)
            for learner, parameters in zip(learners, self._parameters, strict=False)
        ]

    def step(self, m: int, now: torch.Tensor) -> None:
        """Let each take a step."""
        for stepper, slopes in zip(self._steppers[:m], self._slopes, strict=False):
            stepper.step(slopes)


def _stepper_of(learner: MLP, parameters: list[torch.Tensor]) -> Stepper | FusedStepper:
    rate, decay, momentum = learner.learning_rate, learner.weight_decay, learner.momentum
    assert decay is not None  # members have it spelled out
    if learner.optimizer == "sgd":
        return Stepper("sgd", parameters, rate, weight_decay=decay, momentum=momentum)
    return FusedStepper(learner.optimizer, parameters, rate, weight_decay=decay, momentum=momentum)


class FusedStepper:
    """Adam and RMSprop as :class:`~gbgnn._optimizers.Stepper` computes them, by torch's single pass for Adam.

    RMSprop is Adam that averages no gradients and has long forgotten its start. With momentum, that is what
    moves the momentum, which in turn moves the parameters. The function that torch has around its pass takes
    as long as a small network's step, so that it is called directly.

    Parameters
    ----------
    name
        ``"adam"`` or ``"rmsprop"``.
    parameters
        The tensors to move.
    learning_rate, weight_decay, momentum
        As in :mod:`torch.optim`; Adam ignores the last.

    Examples
    --------
    >>> w = torch.tensor([1.0])
    >>> FusedStepper("adam", [w], 0.5).step([torch.tensor([0.2])])
    >>> w
    tensor([0.5000])
    """

    def __init__(
        self,
        name: str,
        parameters: list[torch.Tensor],
        learning_rate: float,
        *,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
    ) -> None:
        is_adam = name == "adam"
        self._parameters, self._rate, self._decay = parameters, learning_rate, weight_decay
        self._momentum = 0.0 if is_adam else momentum
        self._first, self._second = ([torch.zeros_like(each) for each in parameters] for _ in range(2))
        self._velocities = [torch.zeros_like(each) for each in parameters] if self._momentum else parameters
        # 0.99 to the power of a million is zero: RMSprop corrects for no start.
        self._count = torch.full((), 0.0 if is_adam else 1e6, device=parameters[0].device)
        self._settings: dict[str, Any] = {
            "lr": 1.0 if self._momentum else learning_rate,
            "weight_decay": 0.0 if self._momentum else weight_decay,
            "beta1": 0.9 if is_adam else 0.0,
            "beta2": 0.999 if is_adam else 0.99,
            "eps": 1e-8,
            "amsgrad": False,
            "maximize": False,
        }

    def step(self, slopes: list[torch.Tensor]) -> None:
        """Take a step; ``slopes`` may be overwritten."""
        if self._momentum:
            torch._foreach_add_(slopes, self._parameters, alpha=self._decay)
            torch._foreach_mul_(self._velocities, self._momentum)
        averages, counts = (self._first, self._second), [self._count.add_(1)] * len(slopes)
        torch._fused_adam_(self._velocities, slopes, *averages, [], counts, **self._settings)
        if self._momentum:
            torch._foreach_add_(self._parameters, self._velocities, alpha=self._rate)


class AllAtOnce(Mover):
    """Moves all members by one formula, without a word between host and device.

    Parameters
    ----------
    moved
        Parameters and their slopes, pair by pair; every array has a row per member.
    kinds
        The optimisers there are.
    n_steps
        The most steps there are.
    """

    def __init__(self, moved: Sequence[Pair], kinds: frozenset[str], n_steps: int) -> None:
        like = moved[0][0]
        self._moved = [(parameters, slopes, Moments.like(parameters)) for parameters, slopes in moved]
        self._coefficients = Coefficients.empty(len(like), kinds, like)
        self._rates, self._roots = (like.new_zeros(len(like), n_steps) for _ in range(2))
        self._packed = self._coefficients.packed() if has_triton(like.device) else None

    def load(self, learners: Sequence[MLP], coefficients: Coefficients, n_steps: torch.Tensor) -> None:
        """Take down the settings, and forget the averages."""
        m = len(n_steps)
        self._coefficients.load(coefficients)
        self._rates[:m], self._roots[:m] = coefficients.schedule(n_steps, self._rates.shape[1])
        if self._packed is not None:
            self._packed.copy_(self._coefficients.packed())
        for _, _, moments in self._moved:
            moments.reset()

    def step(self, m: int, now: torch.Tensor) -> None:
        """Move all, where Triton is there by a kernel that reads and writes everything once."""
        if self._packed is not None:
            from gbgnn.population import kernels

            for values, slopes, moments in self._moved:
                averages, schedules = (moments.first, moments.second), (self._rates, self._roots)
                kernels.move(values, slopes, averages, self._packed, schedules, now, m)
            return
        rate, root = (schedule[:m].index_select(1, now) for schedule in (self._rates, self._roots))
        coefficients = self._coefficients.of_members(slice(m))
        for values, slopes, moments in self._moved:
            moments.step(values[:m], slopes[:m], coefficients, rate, root)


def has_triton(device: torch.device) -> bool:
    """Return whether kernels of our own run on a device."""
    return device.type == "cuda" and find_spec("triton") is not None


def mover_of(moved: Sequence[Pair], kinds: frozenset[str], n_steps: int) -> Mover:
    """Return who is the faster one on the parameters' device."""
    if moved[0][0].device.type == "cpu":
        return OneByOne(moved)
    return AllAtOnce(moved, kinds, n_steps)
