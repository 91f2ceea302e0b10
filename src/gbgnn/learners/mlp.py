"""MLP: the paper's transformation, a small ReLU network trained on the labelled rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from gbgnn._checks import check_choice, check_integer, check_number
from gbgnn._optimizers import OPTIMIZERS, Stepper
from gbgnn.errors import ParameterError
from gbgnn.learners.base import Head, Learner, WeakTask
from gbgnn.learners.basis import BASES, RowBasis, is_smaller
from gbgnn.learners.epochs import Dropout, Orders
from gbgnn.learners.network import Batch, Layer, MLPHead, Network, losses

FEW = 200
"""Up to so many labelled rows the penalty stays as it is."""


@dataclass(kw_only=True, eq=False, repr=False)
class MLP(Learner):
    r"""Multi-layer perceptron :math:`b(x) = \mathrm{relu}(\cdots \mathrm{relu}(x W_1) \cdots) W_{L+1}`.

    Weighted cross entropy for classes, weighted squared error for numbers. PyTorch's default
    initialisation; all randomness comes from the round's seed.

    Parameters
    ----------
    hidden_layers
        The paper's L, 0 to 4. 0 is a linear model.
    units
        Width of each hidden layer.
    dropout
        Share of hidden units silenced at each step, in [0, 1); never at prediction.
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
        In which coordinates the first layer is trained. ``"features"``: the columns. ``"rows"``: those of the
        space that the labelled rows span, where there are fewer labelled rows than columns: an epoch then
        costs the same however many features there are, and what no labelled row tells about has no say.
        The fitted learner is a network on the columns either way.

    Examples
    --------
    >>> X = torch.tensor([[-1.0], [1.0]])
    >>> task = WeakTask(torch.tensor([0, 1]), torch.tensor([0, 1]), torch.tensor([0.5, 0.5]), 2)
    >>> MLP(epochs=30).fit(X, task, seed=0).evaluate(X).argmax(dim=1)
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
    basis: str = "features"

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

    def fit(self, X: torch.Tensor, task: WeakTask, seed: int) -> Head:
        """Train one network on the labelled rows."""
        rows = X[task.rows]
        shift, scale = _centre_and_size(rows) if self.standardize else (rows.new_zeros(1), rows.new_ones(1))
        inputs = (rows - shift) / scale
        basis = RowBasis.of(inputs) if is_smaller(self.basis, *inputs.shape) else None
        inputs = inputs if basis is None else basis.coordinates(inputs)
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
        best = None if self.patience is None else _BestWeights(network, self.patience, task)
        for epoch in range(self.epochs):
            for batch in whole.shuffled(self.batch_size, orders, epoch):
                masks = None if dropout is None else dropout.masks(epoch, batch.chosen)
                stepper.step([network.backward(batch, masks)])
            if best is not None:
                watched = (X[task.val_rows] - shift) / scale
                if best.is_time_to_stop(watched if basis is None else basis.coordinates(watched)):
                    break
        if best is not None:
            best.restore()
        (weight, bias), *rest = network.layers
        weight = weight if basis is None else basis.unfold(weight)
        return _head_on_raw_inputs([(weight, bias), *rest], shift, scale)


class _BestWeights:
    """The weights at the lowest validation loss so far."""

    def __init__(self, network: Network, patience: int, task: WeakTask) -> None:
        if task.val_rows is None:
            raise ParameterError(
                "MLP.patience stops on validation nodes, but there are none; pass validation= or "
                "validation_fraction, or set patience=None."
            )
        self.network, self.patience, self.targets = network, patience, task.val_targets
        self.best, self.loss, self.n_since = network.weights.clone(), math.inf, 0

    def is_time_to_stop(self, rows: torch.Tensor) -> bool:
        assert self.targets is not None
        loss = float(losses(self.network.outputs(rows), self.targets).mean())
        if loss < self.loss:
            self.loss, self.n_since = loss, 0
            self.best.copy_(self.network.weights)
        else:
            self.n_since += 1
        return self.n_since >= self.patience

    def restore(self) -> None:
        self.network.weights.copy_(self.best)


def _centre_and_size(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    centre = rows.mean(dim=0)
    size = (rows - centre).square().sum(dim=1).mean().sqrt()
    return centre, torch.where(size > 0, size, torch.ones_like(size))


def _head_on_raw_inputs(layers: list[Layer], shift: torch.Tensor, scale: torch.Tensor) -> MLPHead:
    """Fold the standardisation into the first layer: (x - shift) / scale W + b is linear in x."""
    (weight, bias), *rest = layers
    weight = weight / scale
    bias = bias - shift.expand(len(weight)) @ weight
    return MLPHead.from_layers([(weight, bias), *rest])
