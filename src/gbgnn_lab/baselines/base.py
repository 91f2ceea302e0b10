"""BaselineModel: settings that know how to fit themselves to training data, and the one training loop."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, ClassVar

import torch
from torch import nn

from gbgnn._checks import check_choice, check_integer, check_number
from gbgnn._optimizers import Stepper
from gbgnn.problem import LabelledNodes
from gbgnn_lab.baselines.data import TrainingData

Outputs = Callable[[torch.Tensor | slice], torch.Tensor]
"""From node ids, or a slice of them, to a score per class, or a number."""
Judge = Callable[[torch.Tensor, LabelledNodes], tuple[float, float]]
"""From scores of nodes to what ranks them: something that should be high, and a loss among equals."""
Group = tuple[Sequence[nn.Parameter], float]
"""Parameters, and the L2 penalty that they share."""


def _setting(default: Any, check: Callable[[str, str, Any], None]) -> Any:
    return field(default=default, metadata={"check": check})


def _number(default: float | None, **limits: Any) -> Any:
    def check(owner: str, name: str, value: Any) -> None:
        if value is not None or default is not None:
            check_number(owner, name, value, **limits)

    return _setting(default, check)


def count(default: int | None, *, low: int = 1, optional: bool = False) -> Any:
    """Return a field that is an integer of at least one, or ``low``, or None where that is allowed."""
    return _setting(default, partial(check_integer, low=low, optional=optional))


def share(default: float | None, *, below_one: bool = False) -> Any:
    """Return a field between 0 and 1, or below 1; None is allowed where it is the default."""
    return _number(default, low=0, high=1, open_high=below_one)


def penalty(default: float | None) -> Any:
    """Return a field that is a number of at least 0; None is allowed where it is the default."""
    return _number(default, low=0)


def step(default: float | None) -> Any:
    """Return a field that is a number above 0; None is allowed where it is the default."""
    return _number(default, low=0, open_low=True)


def choice(default: str, *others: str) -> Any:
    """Return a field that is one of some words."""
    return _setting(default, partial(check_choice, choices=(default, *others)))


dropout_rate = partial(share, below_one=True)


@dataclass(frozen=True, eq=False)
class BaselineFit:
    """A fitted model: its scores of all nodes, shape (N, K), the epoch they are from, its size, and a choice.

    Of classes, the softmax of the scores are probabilities unless the model says otherwise; numbers are in
    the unit of the targets. ``chosen`` has the hyper-parameters that validation chose, where they were open.
    """

    scores: torch.Tensor
    best_epoch: int
    n_parameters: int
    chosen: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class BaselineModel(ABC):
    """A system to compare with: its fields are its hyper-parameters, and its defaults the published ones.

    ``fit`` is called once, inside a seeded context on the data's device, after ``check``. It may use torch's
    global random numbers, and must return scores of all nodes. A field made by :func:`count`, :func:`share`
    and so on is checked; any other is taken as it is.

    Examples
    --------
    >>> from gbgnn_lab.baselines.convolutional import GCN
    >>> GCN(dropout=1.5).check()
    Traceback (most recent call last):
    gbgnn.errors.ParameterError: GCN.dropout must be in [0, 1); got 1.5.
    """

    predicts_numbers: ClassVar[bool] = False
    """Whether it is for regression too."""
    has_proba: ClassVar[bool] = True
    """Whether the softmax of its scores are probabilities."""

    def check(self) -> None:
        """Raise when a setting is out of range."""
        for each in fields(self):
            if "check" in each.metadata:
                each.metadata["check"](type(self).__name__, each.name, getattr(self, each.name))

    @abstractmethod
    def fit(self, data: TrainingData) -> BaselineFit:
        """Train on the labels and return scores of all nodes."""


@dataclass(frozen=True, kw_only=True)
class NetworkModel(BaselineModel):
    """A baseline that is one network, trained end to end on the whole graph."""

    penalized: ClassVar[str | None] = None
    """The module whose first layer alone has the L2 penalty; None penalises all parameters."""

    learning_rate: float = step(0.01)  # of Adam
    weight_decay: float = penalty(5e-4)  # Adam's L2 penalty
    epochs: int = count(200)  # the most steps
    # Epochs without a better validation accuracy or loss before training stops; None never stops early.
    patience: int | None = count(None, optional=True)
    dropout: float = dropout_rate(0.5)  # share of the inputs of every layer set to zero in training

    @abstractmethod
    def build(self, data: TrainingData) -> dict[str, Any]:
        """Return the modules to train, and what else ``forward`` needs made once, by name."""

    @abstractmethod
    def forward(self, network: Any, data: TrainingData, rate: float) -> torch.Tensor:
        """Return the scores of all nodes; ``network`` has what was built, ``rate`` is that of dropout."""

    def groups(self, network: Any) -> list[Group]:
        """Return the parameters by their L2 penalty."""
        if self.penalized is None:
            return [(list(network.parameters()), self.weight_decay)]
        first, *rest = network.get_submodule(self.penalized).children()
        others = [parameter for layer in rest for parameter in layer.parameters()]
        groups: list[Group] = [(list(first.parameters()), self.weight_decay), (others, 0.0)]
        return [group for group in groups if group[0]]

    def fit(self, data: TrainingData) -> BaselineFit:
        """Train the network."""
        network = Network(self, data).to(data.device)
        judge, objective = partial(self.judge, data=data), partial(self.objective, network, data)
        groups = self.groups(network)
        return train(
            self, network, lambda rows: network()[rows], groups, data, judge=judge, objective=objective
        )

    def objective(self, network: Any, data: TrainingData) -> torch.Tensor:
        """Return what a step makes smaller: the mean loss of the training nodes."""
        losses = data.losses(network()[data.train.rows], data.train.targets)
        return losses @ data.train.weights.to(losses.dtype)

    def judge(self, scores: torch.Tensor, nodes: LabelledNodes, data: TrainingData) -> tuple[float, float]:
        """Return what epochs are ranked by: something that should be high, and a loss among equals."""
        return data.judge(scores, nodes)


class Network(nn.Module):
    """What a model has built, and the data it is for; called with nothing, it scores all nodes."""

    def __init__(self, model: NetworkModel, data: TrainingData) -> None:
        super().__init__()
        for name, part in model.build(data).items():
            setattr(self, name, part)
        self.model, self.data = model, data

    def forward(self) -> torch.Tensor:
        """Return the scores of all nodes."""
        return self.model.forward(self, self.data, self.model.dropout if self.training else 0.0)


def count_parameters(network: nn.Module) -> int:
    """Return how many numbers a network learns."""
    return sum(parameter.numel() for parameter in network.parameters())


def train(
    pace: Any,
    network: nn.Module,
    outputs: Outputs,
    groups: Sequence[Group],
    data: TrainingData,
    weights: torch.Tensor | None = None,
    judge: Judge | None = None,
    objective: Callable[[], torch.Tensor] | None = None,
    steps: int = 1,
    most_slope: float | None = None,
) -> BaselineFit:
    """Train ``network``, leave it as it was at its best epoch, and return its scores of all nodes.

    The best epoch has the highest validation accuracy, or what else ``judge`` returns; among equals, the
    lowest validation loss. Without validation nodes it is the last. ``pace`` has ``learning_rate``,
    ``epochs`` and ``patience``: training stops after so many epochs in which neither improved. ``outputs``
    gives the scores of nodes by the network as it stands; ``weights`` of the training nodes sum to one, and
    are uniform when None. An epoch is so many ``steps`` down the mean loss of the training nodes or, where it
    is given, the ``objective``; gradients longer than ``most_slope`` are shortened to it.
    """
    judge = judge or data.judge
    steppers = [
        Stepper("adam", parameters, pace.learning_rate, weight_decay=weight_decay)
        for parameters, weight_decay in groups
    ]
    trained = [parameter for parameters, _ in groups for parameter in parameters]
    shares = (data.train.weights if weights is None else weights).to(trained[0].dtype)
    best, nodes = Best([*trained, *network.buffers()], pace.patience), data.validation
    for epoch in range(1, pace.epochs + 1):
        network.train()
        for _ in range(steps):
            if objective is not None:
                loss = objective()
            else:
                loss = data.losses(outputs(data.train.rows), data.train.targets) @ shares
            descend(loss, steppers, most_slope)
        if nodes is not None:
            network.eval()
            with torch.no_grad():
                scores = outputs(nodes.rows)
            if best.see(epoch, *judge(scores, nodes)):
                break
    if nodes is not None:
        best.restore()
    network.eval()
    with torch.no_grad():
        epoch = pace.epochs if nodes is None else best.epoch
        return BaselineFit(outputs(slice(None)), epoch, count_parameters(network))


def descend(loss: torch.Tensor, steppers: Sequence[Stepper], most_slope: float | None = None) -> None:
    """Take one step down ``loss`` with the parameters of all steppers, a gradient too long shortened."""
    parameters = [parameter for stepper in steppers for parameter in stepper.parameters]
    # torch's fused Adam reads gradients in memory order, which that of a transposed weight is not.
    slopes = [gradient.contiguous() for gradient in torch.autograd.grad(loss, parameters)]
    if most_slope is not None:
        length = torch.stack([slope.norm() for slope in slopes]).norm()
        slopes = [slope * (most_slope / length).clamp(max=1.0) for slope in slopes]
    gradients = iter(slopes)
    with torch.no_grad():
        for stepper in steppers:
            stepper.step([next(gradients) for _ in stepper.parameters])


class Best:
    """The parameters, and what else is kept, at the best epoch so far, and when anything last got better."""

    def __init__(self, parameters: Sequence[torch.Tensor], patience: int | None) -> None:
        self.parameters, self.patience = parameters, patience
        self.kept = [p.detach().clone() for p in parameters]
        self.epoch = self.last_progress = 0
        self.rank = (-math.inf, -math.inf)
        self.highest, self.least_loss = -math.inf, math.inf

    def see(self, epoch: int, first: float, loss: float) -> bool:
        """Keep the parameters of an epoch if it is the best; return whether patience is at its end.

        The best is highest in what comes ``first``, and among equals lowest in its loss.
        """
        if first > self.highest or loss < self.least_loss:
            self.last_progress = epoch
            self.highest, self.least_loss = max(first, self.highest), min(loss, self.least_loss)
        if (first, -loss) > self.rank:
            self.rank, self.epoch = (first, -loss), epoch
            for kept, parameter in zip(self.kept, self.parameters, strict=True):
                kept.copy_(parameter.detach())
        return self.patience is not None and epoch - self.last_progress >= self.patience

    @torch.no_grad()
    def restore(self) -> None:
        """Put the parameters of the best epoch back."""
        for kept, parameter in zip(self.kept, self.parameters, strict=True):
            parameter.copy_(kept)
