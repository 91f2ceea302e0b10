"""Who moves the weights of a cohort along their slopes: torch's own optimisers, or one formula for all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib.util import find_spec

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
        self._steppers: list[Stepper] = []

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


def _stepper_of(learner: MLP, parameters: list[torch.Tensor]) -> Stepper:
    rate, decay, momentum = learner.learning_rate, learner.weight_decay, learner.momentum
    assert decay is not None  # members have it spelled out
    return Stepper(learner.optimizer, parameters, rate, weight_decay=decay, momentum=momentum)


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
