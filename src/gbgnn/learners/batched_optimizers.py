"""Moving the weights of several members along their gradients, by torch's own passes or one formula."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch

from gbgnn._optimizers import Coefficients, Moments, Stepper
from gbgnn.learners.schedule import Schedule

Pair = tuple[torch.Tensor, torch.Tensor]
"""Parameters and their gradients, shape (members, n)."""


class BatchedOptimizer(ABC):
    """Moves parameters of shape (members, n), in place.

    ``load`` is called before training begins anew, ``step`` with the number of members that go on and, on the
    device, the number of the step.

    Parameters
    ----------
    moved
        Parameters and their gradients, pair by pair; every array has a row per member.
    """

    @abstractmethod
    def load(self, schedule: Schedule) -> None:
        """Begin anew for members with these settings."""

    @abstractmethod
    def step(self, m: int, now: torch.Tensor) -> None:
        """Move the parameters of the first ``m`` members."""


class OneByOne(BatchedOptimizer):
    """Moves one member after the other, by passes that read and write everything once: fastest on a CPU."""

    def __init__(self, moved: Sequence[Pair]) -> None:
        self._parameters, self._gradients = (
            [list(rows) for rows in zip(*arrays, strict=True)] for arrays in zip(*moved, strict=True)
        )
        self._steppers: list[Stepper] = []

    def load(self, schedule: Schedule) -> None:
        """Build the optimisers."""
        self._steppers = [
            Stepper(
                own.optimizer,
                parameters,
                own.learning_rate,
                weight_decay=own.weight_decay,
                momentum=own.momentum,
            )
            for own, parameters in zip(schedule.settings, self._parameters, strict=False)
        ]

    def step(self, m: int, now: torch.Tensor) -> None:
        """Let each take a step."""
        for stepper, gradients in zip(self._steppers[:m], self._gradients, strict=False):
            stepper.step(gradients)


class AllAtOnce(BatchedOptimizer):
    """Moves all members by one formula, without asking the device for anything.

    Parameters
    ----------
    moved
        Parameters and their gradients, pair by pair; every array has a row per member.
    kinds
        The optimisers there are.
    n_steps
        The most steps there are.
    """

    def __init__(self, moved: Sequence[Pair], kinds: frozenset[str], n_steps: int) -> None:
        like = moved[0][0]
        self._moved = [
            (parameters, gradients, Moments.zeros_like(parameters)) for parameters, gradients in moved
        ]
        self._coefficients = Coefficients.empty(len(like), kinds, like)
        self._rates, self._roots = (like.new_zeros(len(like), n_steps) for _ in range(2))
        self._kernels, self._packed = load_kernels(like.device), self._coefficients.pack()
        self._loaded: Schedule | None = None

    def load(self, schedule: Schedule) -> None:
        """Take over the settings, unless they are there already, and forget the averages."""
        if schedule is not self._loaded:
            m, self._loaded = len(schedule.settings), schedule
            self._coefficients.load(schedule.coefficients)
            rates, roots = schedule.coefficients.schedule(schedule.n_steps, self._rates.shape[1])
            self._rates[:m], self._roots[:m] = rates, roots
            self._packed.copy_(self._coefficients.pack())
        for _, _, moments in self._moved:
            moments.reset()

    def step(self, m: int, now: torch.Tensor) -> None:
        """Move all, where Triton is there by a kernel that reads and writes everything once."""
        if self._kernels is not None:
            for values, gradients, moments in self._moved:
                averages, schedules = (moments.first, moments.second), (self._rates, self._roots)
                self._kernels.step(values, gradients, averages, self._packed, schedules, now, m)
            return
        rate, root = (schedule[:m].index_select(1, now) for schedule in (self._rates, self._roots))
        coefficients = self._coefficients.members(slice(m))
        for values, gradients, moments in self._moved:
            moments.step(values[:m], gradients[:m], coefficients, rate, root)


def load_kernels(device: torch.device) -> Any:
    """Return the module of our own kernels if they run on a device, else None."""
    if device.type != "cuda" or find_spec("triton") is None:
        return None
    return import_module("gbgnn.learners.kernels")


def choose_optimizer(moved: Sequence[Pair], kinds: frozenset[str], n_steps: int) -> BatchedOptimizer:
    """Return what is fastest on the parameters' device."""
    if moved[0][0].device.type == "cpu":
        return OneByOne(moved)
    return AllAtOnce(moved, kinds, n_steps)
