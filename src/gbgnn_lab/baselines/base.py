"""BaselineModel: settings that know how to fit themselves to a task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import torch
from torch import nn

from gbgnn._checks import check_choice, check_integer, check_number
from gbgnn_lab.baselines.task import Task
from gbgnn_lab.baselines.training import Group, Schedule, train

_count = partial(check_integer, low=1)
_share = partial(check_number, low=0, high=1)
_drop = partial(check_number, low=0, high=1, open_high=True)
_size = partial(check_number, low=0)
_step = partial(check_number, low=0, open_low=True)


def _open_share(owner: str, name: str, value: Any) -> None:
    if value is not None:
        _share(owner, name, value)


CHECKS: dict[str, Callable[[str, str, Any], None]] = {
    **dict.fromkeys(("depth", "units", "epochs", "head_epochs", "degree"), _count),
    **dict.fromkeys(("heads", "output_heads", "kernels", "coordinates"), _count),
    "patience": partial(check_integer, low=1, optional=True),
    **dict.fromkeys(("dropout", "edge_dropout"), _drop),
    **dict.fromkeys(("restart", "spread"), _share),
    **dict.fromkeys(("correction", "smoothing"), _open_share),
    **dict.fromkeys(("weight_decay", "first_weight_decay", "mixing_weight_decay"), _size),
    **dict.fromkeys(("learning_rate", "head_learning_rate", "identity"), _step),
    "base": partial(check_choice, choices=("mlp", "linear")),
}
"""What every setting must be, whichever model has it: a name means the same everywhere."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """A fitted model: its scores of all nodes, shape (N, K), the epoch they are from, and its size."""

    scores: torch.Tensor
    best_epoch: int
    n_parameters: int


@dataclass(frozen=True, kw_only=True)
class BaselineModel(ABC):
    """A system to compare with: its fields are its hyper-parameters, and its defaults the published ones.

    ``fit`` is called once, inside a seeded context on the task's device, after ``check``. It may use torch's
    global random numbers, and must return scores of all nodes.

    Examples
    --------
    >>> from gbgnn_lab.baselines.convolutional import GCN
    >>> GCN(dropout=1.5).check()
    Traceback (most recent call last):
    gbgnn.errors.ParameterError: GCN.dropout must be in [0, 1); got 1.5.
    """

    def check(self) -> None:
        """Raise when a setting is out of range."""
        for field in fields(self):
            CHECKS[field.name](type(self).__name__, field.name, getattr(self, field.name))

    @abstractmethod
    def fit(self, task: Task) -> Outcome:
        """Train on the task's labels and return scores of all nodes."""


@dataclass(frozen=True, kw_only=True)
class NetworkModel(BaselineModel):
    """A baseline that is one network, trained end to end on the whole graph.

    Parameters
    ----------
    learning_rate, weight_decay
        Step and L2 penalty of Adam.
    epochs
        The most steps.
    patience
        Epochs without a better validation accuracy or loss before training stops; None never stops early.
    """

    learning_rate: float = 0.01
    weight_decay: float = 5e-4
    epochs: int = 200
    patience: int | None = None

    @abstractmethod
    def network(self, task: Task) -> nn.Module:
        """Return a network that, called with nothing, gives the scores of all nodes."""

    def groups(self, network: nn.Module) -> list[Group]:
        """Return the parameters by their L2 penalty; by default all have the same."""
        return [Group(list(network.parameters()), self.weight_decay)]

    def fit(self, task: Task) -> Outcome:
        """Train the network."""
        network = self.network(task).to(task.device)
        schedule = Schedule(self.learning_rate, self.epochs, self.patience)
        epoch = train(network, lambda rows: network()[rows], self.groups(network), task, schedule)
        network.eval()
        with torch.no_grad():
            return Outcome(network(), epoch, n_parameters(network))


def n_parameters(network: nn.Module) -> int:
    """Return how many numbers a network learns."""
    return sum(parameter.numel() for parameter in network.parameters())
