"""MLP: the paper's transformation, a small ReLU network trained on the labelled rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from gbgnn._checks import check_choice, check_integer, check_number
from gbgnn._optimizers import OPTIMIZERS, Stepper
from gbgnn._threads import threads_for
from gbgnn.errors import ParameterError
from gbgnn.learners.base import Head, Learner
from gbgnn.learners.basis import BASES, RowBasis, is_smaller
from gbgnn.learners.epochs import Dropout, Orders
from gbgnn.learners.network import Batch, Layer, MLPHead, Network
from gbgnn.propagation import Representation
from gbgnn.rounds import RoundContext, WeakTask

FEW = 200
"""Up to so many labelled rows the penalty stays as it is."""


@dataclass(kw_only=True, eq=False, repr=False)
class MLP(Learner):
    r"""Multi-layer perceptron :math:`b(x) = \mathrm{relu}(\cdots \mathrm{relu}(x W_1) \cdots) W_{L+1}`.

    It lowers the weighted loss that the boosting rule asks for: cross entropy of classes, squared error of
    numbers. PyTorch's default initialisation; all randomness comes from the round's seed.

    Parameters
    ----------
    hidden_layers
        The paper's L, 0 to 4. 0 is a linear model.
    units
        Width of each hidden layer.
    dropout
        Dropout of hidden units at each step, in [0, 1); never at prediction.
    optimizer, learning_rate, momentum, weight_decay
        ``"sgd"``, ``"adam"`` or ``"rmsprop"`` with its step, its momentum (Adam has none) and its L2 penalty.
        A penalty of None is one over the number of labelled rows, and 0.005 where there are fewer than 200.
    epochs
        Passes over the labelled rows. Few epochs make the weak learners that boosting likes.
    batch_size
        Labelled rows per step (the paper's B), drawn without replacement; None takes all at once.
    patience
        Stop when the loss of the validation nodes has not fallen for this many epochs and go back to
        the best; None trains all ``epochs``.
    standardize
        Subtract the mean of the labelled rows, and divide by the root mean square of what is left. Then
        the settings above mean the same whatever the unit of the features and however far depth has
        shrunk them, and what all nodes have in common, which grows with depth, does not drown what
        tells them apart.
    basis
        In which coordinates the first layer is trained. ``"rows"``: those of the space that the labelled rows
        span, where there are fewer labelled rows than columns: an epoch then costs the same however many
        features there are, and what no labelled row tells about has no say. ``"features"``: the columns.
        The fitted learner is a network on the columns either way.

    Examples
    --------
    >>> from gbgnn.testing import learner_round
    >>> X = torch.tensor([[-1.0], [1.0]])
    >>> MLP(epochs=30).fit(learner_round(X, torch.tensor([0, 1])))(X).argmax(dim=1)
    tensor([0, 1])
    """

    hidden_layers: int = 1
    units: int = 64
    dropout: float = 0.5
    optimizer: str = "adam"
    learning_rate: float = 0.01
    momentum: float = 0.0
    weight_decay: float | None = None
    epochs: int = 50
    batch_size: int | None = None
    patience: int | None = None
    standardize: bool = True
    basis: str = "rows"

    def check(self) -> None:
        """Raise when a setting is out of range."""
        check_integer("MLP", "hidden_layers", self.hidden_layers, 0, 4)
        check_integer("MLP", "units", self.units, 1)
        check_number("MLP", "dropout", self.dropout, 0, 1, open_high=True)
        check_choice("MLP", "optimizer", self.optimizer, OPTIMIZERS)
        check_number("MLP", "learning_rate", self.learning_rate, 0, open_low=True)
        check_number("MLP", "momentum", self.momentum, 0, 1, open_high=True)
        if self.weight_decay is not None:
            check_number("MLP", "weight_decay", self.weight_decay, 0)
        check_integer("MLP", "epochs", self.epochs, 0)
        check_integer("MLP", "batch_size", self.batch_size, 1, optional=True)
        check_integer("MLP", "patience", self.patience, 1, optional=True)
        check_choice("MLP", "basis", self.basis, BASES)

    def penalty(self, n_rows: int) -> float:
        """Return the L2 penalty for a number of labelled rows: the more there are, the less it takes."""
        return 1 / max(n_rows, FEW) if self.weight_decay is None else self.weight_decay

    @property
    def watches_validation(self) -> bool:
        """Whether training stops early."""
        return self.patience is not None

    def fit(self, context: RoundContext) -> Head:
        """Train one network on the labelled rows."""
        X, task, seed = context.X, context.weak_task, context.seed
        scaling = Scaling.of(X.rows(task.rows)) if self.standardize else Scaling()
        rows = scaling(X.rows(task.rows))
        basis = RowBasis.of(rows) if is_smaller(self.basis, *rows.shape) else None
        inputs = rows if basis is None else basis.coordinates(rows)
        whole = Batch.of_task(inputs, task)
        widths = [inputs.shape[1], *[self.units] * self.hidden_layers, task.n_outputs]
        network = Network.initialized(widths, seed, like=rows, fan_in=X.shape[1])
        orders, dropout = Orders(len(rows), seed, rows.device), None
        if self.dropout and self.hidden_layers:
            dropout = Dropout(self.dropout, (self.hidden_layers, len(rows), self.units), seed, like=rows)
        stepper = Stepper(
            self.optimizer,
            [network.weights],
            self.learning_rate,
            weight_decay=self.penalty(len(rows)),
            momentum=self.momentum,
        )
        best = None
        if self.patience is not None:
            best = _BestWeights(network, self.patience, _watched_rows(X, task, scaling, basis), task)
        with threads_for(min(len(rows), self.batch_size or len(rows)) * network.weights.numel()):
            for epoch in range(self.epochs):
                for batch in whole.shuffled(self.batch_size, orders, epoch):
                    masks = None if dropout is None else dropout.masks(epoch, batch.chosen)
                    stepper.step([network.backward(batch, masks)])
                if best is not None and best.is_time_to_stop():
                    break
        if best is not None:
            best.restore()
        (weight, bias), *rest = network.layers
        weight = weight if basis is None else basis.unfold(weight)
        return MLPHead.from_layers([scaling.fold(weight, bias), *rest])


@dataclass(frozen=True, eq=False)
class Scaling:
    """Rows without what they have in common, and of size one: x -> (x - shift) / size."""

    shift: torch.Tensor | None = None
    size: torch.Tensor | None = None

    @classmethod
    def of(cls, rows: torch.Tensor) -> Scaling:
        """Return the scaling that suits some rows."""
        shift = rows.mean(dim=0)
        size = (rows - shift).square().sum(dim=1).mean().sqrt()
        return cls(shift, torch.where(size > 0, size, torch.ones_like(size)))

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """Return rows, scaled."""
        return rows if self.shift is None or self.size is None else (rows - self.shift) / self.size

    def fold(self, weight: torch.Tensor, bias: torch.Tensor) -> Layer:
        """Return a first layer that does for raw rows what this one does for scaled ones."""
        if self.shift is None or self.size is None:
            return weight, bias
        weight = weight / self.size
        return weight, bias - self.shift @ weight


def _watched_rows(
    X: Representation, task: WeakTask, scaling: Scaling, basis: RowBasis | None
) -> torch.Tensor:
    if task.val_rows is None:
        raise ParameterError(
            "MLP.patience stops on validation nodes, but there are none; pass validation= or "
            "validation_fraction, or set patience=None."
        )
    rows = scaling(X.rows(task.val_rows))
    return rows if basis is None else basis.coordinates(rows)


class _BestWeights:
    """The weights at the lowest validation loss so far."""

    def __init__(self, network: Network, patience: int, rows: torch.Tensor, task: WeakTask) -> None:
        self.network, self.patience, self.rows, self.task = network, patience, rows, task
        self.best, self.loss, self.n_since = network.weights.clone(), math.inf, 0

    def is_time_to_stop(self) -> bool:
        assert self.task.val_targets is not None
        outputs = self.network.outputs(self.rows)
        loss = float(self.task.loss.values(outputs, self.task.val_targets).mean())
        if loss < self.loss:
            self.loss, self.n_since = loss, 0
            self.best.copy_(self.network.weights)
        else:
            self.n_since += 1
        return self.n_since >= self.patience

    def restore(self) -> None:
        self.network.weights.copy_(self.best)
