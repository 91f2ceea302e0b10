"""MLP: the paper's transformation, a small ReLU network trained on the labelled rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional

from gbgnn._checks import check_choice, check_integer, check_number
from gbgnn._optimizers import OPTIMIZERS, Stepper
from gbgnn._random import generator
from gbgnn.errors import ParameterError
from gbgnn.learners.base import Head, Learner, WeakTask

Layer = tuple[torch.Tensor, torch.Tensor]
"""Weight, shape (in, out), and bias."""


class MLPHead(Head):
    """A fitted network: linear layers with ReLU between them."""

    def __init__(self, layers: list[nn.Linear]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Return the outputs of the rows ``X``; there is no dropout at prediction."""
        first, *rest = self.layers
        hidden: torch.Tensor = first(X)
        for layer in rest:
            hidden = layer(hidden.relu_())
        return hidden

    def state(self) -> dict[str, torch.Tensor]:
        """Return weights and biases."""
        return dict(self.state_dict())

    @classmethod
    def from_state(cls, state: dict[str, torch.Tensor]) -> MLPHead:
        """Build the network again; the shapes of the weights say how deep and wide it is."""
        n_layers = sum(name.endswith(".weight") for name in state)
        shapes = [state[f"layers.{i}.weight"].shape for i in range(n_layers)]
        head = cls([nn.Linear(n_in, n_out, device="meta") for n_out, n_in in shapes])
        head.load_state_dict(state, assign=True)
        return head.requires_grad_(False)


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
    weight_decay: float = 5e-3
    epochs: int = 50
    batch_size: int | None = None
    patience: int | None = None
    standardize: bool = True

    def check(self) -> None:
        """Raise when a setting is out of range."""
        check_integer("MLP", "hidden_layers", self.hidden_layers, 0, 4)
        check_integer("MLP", "units", self.units, 1)
        check_number("MLP", "dropout", self.dropout, 0, 1, open_high=True)
        check_choice("MLP", "optimizer", self.optimizer, OPTIMIZERS)
        check_number("MLP", "learning_rate", self.learning_rate, 0, open_low=True)
        check_number("MLP", "momentum", self.momentum, 0, 1, open_high=True)
        check_number("MLP", "weight_decay", self.weight_decay, 0)
        check_integer("MLP", "epochs", self.epochs, 0)
        check_integer("MLP", "batch_size", self.batch_size, 1, optional=True)
        check_integer("MLP", "patience", self.patience, 1, optional=True)

    def fit(self, X: torch.Tensor, task: WeakTask, seed: int) -> Head:
        """Train one network on the labelled rows."""
        rows = X[task.rows]
        shift, scale = _centre_and_size(rows) if self.standardize else (rows.new_zeros(1), rows.new_ones(1))
        whole = _Batch.of_task((rows - shift) / scale, task)
        random = generator(seed, X.device)
        # All weights in one vector, all gradients in another: an optimiser's step is one pass over them.
        widths = [X.shape[1], *[self.units] * self.hidden_layers, task.n_outputs]
        weights, layers = _flat_layers(widths, like=rows)
        gradient, slopes = _flat_layers(widths, like=rows)
        _initialize(layers, random)
        stepper = Stepper(
            self.optimizer,
            [weights],
            self.learning_rate,
            weight_decay=self.weight_decay,
            momentum=self.momentum,
        )
        best = None if self.patience is None else _BestWeights(weights, self.patience, task)
        for _ in range(self.epochs):
            for batch in self._batches(whole, random):
                self._backward(layers, batch, random, into=slopes)
                stepper.step([gradient])
            if best is not None and best.is_time_to_stop(layers, (X[task.val_rows] - shift) / scale):
                break
        if best is not None:
            best.restore()
        return _head_on_raw_inputs(layers, shift, scale)

    def _backward(
        self, layers: list[Layer], batch: _Batch, random: torch.Generator, into: list[Layer]
    ) -> None:
        """Write the loss's gradient in every weight and bias: forward with dropout, then the chain rule.

        Written out because autograd's bookkeeping costs as much as the arithmetic of so small a network
        (benchmarks/results/speed.md); a test holds it to autograd.
        """
        inputs, rescale = [batch.rows], 1 / (1 - self.dropout)
        for weight, bias in layers[:-1]:
            hidden = torch.addmm(bias, inputs[-1], weight).relu_()
            if self.dropout:
                # In-place comparison of uniform numbers: far faster than torch's Bernoulli draw, or booleans.
                draw = torch.rand(hidden.shape, generator=random, device=hidden.device, dtype=hidden.dtype)
                hidden.mul_(draw.ge_(self.dropout)).mul_(rescale)
            inputs.append(hidden)
        error = batch.error(_apply(layers[-1:], inputs[-1]))
        for depth in range(len(layers) - 1, -1, -1):
            columns = inputs[depth].t() if depth else batch.columns
            torch.mm(columns, error, out=into[depth][0])
            torch.sum(error, dim=0, out=into[depth][1])
            if depth:  # the slope of a unit is its sign: 1 where it lives, 0 where it is off or dropped
                error = (error @ layers[depth][0].t()).mul_(inputs[depth].sign()).mul_(rescale)

    def _batches(self, whole: _Batch, random: torch.Generator) -> Iterator[_Batch]:
        n_rows = len(whole.rows)
        if self.batch_size is None or self.batch_size >= n_rows:
            yield whole
            return
        for chosen in torch.randperm(n_rows, generator=random, device=random.device).split(self.batch_size):
            yield whole.part(chosen)


@dataclass(frozen=True, eq=False)
class _Batch:
    """Rows to train on. ``columns``, their transpose in memory order, makes a gradient twice as fast."""

    rows: torch.Tensor
    columns: torch.Tensor
    targets: torch.Tensor  # numbers; classes are one-hot
    weights: torch.Tensor
    is_regression: bool

    @classmethod
    def of_task(cls, rows: torch.Tensor, task: WeakTask) -> _Batch:
        targets = task.targets if task.is_regression else functional.one_hot(task.targets, task.n_outputs)
        columns, weights = rows.t().contiguous(), task.weights.to(rows.dtype)
        return cls(rows, columns, targets.to(rows.dtype), weights[:, None], task.is_regression)

    def part(self, chosen: torch.Tensor) -> _Batch:
        """Return some of the rows, weighted so that the expectation is the loss of all."""
        rows, weights = self.rows[chosen], self.weights[chosen] * (len(self.rows) / len(chosen))
        return _Batch(rows, rows.t().contiguous(), self.targets[chosen], weights, self.is_regression)

    def error(self, output: torch.Tensor) -> torch.Tensor:
        """Return the gradient of the weighted loss in the output."""
        if self.is_regression:
            return (output - self.targets).mul_(2 * self.weights)
        return (output.softmax(dim=1) - self.targets).mul_(self.weights)


class _BestWeights:
    """The weights at the lowest validation loss so far."""

    def __init__(self, weights: torch.Tensor, patience: int, task: WeakTask) -> None:
        if task.val_rows is None:
            raise ParameterError(
                "MLP.patience stops on validation nodes, but there are none; pass validation= or "
                "validation_fraction, or set patience=None."
            )
        self.weights, self.patience, self.targets = weights, patience, task.val_targets
        self.best, self.loss, self.n_since = weights.clone(), math.inf, 0

    def is_time_to_stop(self, layers: list[Layer], rows: torch.Tensor) -> bool:
        assert self.targets is not None
        loss = float(_losses(_apply(layers, rows), self.targets).mean())
        if loss < self.loss:
            self.loss, self.n_since = loss, 0
            self.best.copy_(self.weights)
        else:
            self.n_since += 1
        return self.n_since >= self.patience

    def restore(self) -> None:
        self.weights.copy_(self.best)


def _flat_layers(widths: list[int], like: torch.Tensor) -> tuple[torch.Tensor, list[Layer]]:
    """Return one vector, and the weights and biases of layers as views of it."""
    sizes = [size for n_in, n_out in pairwise(widths) for size in (n_in * n_out, n_out)]
    flat = like.new_empty(sum(sizes))
    parts = iter(flat.split(sizes))
    return flat, [(next(parts).view(n_in, n_out), next(parts)) for n_in, n_out in pairwise(widths)]


def _initialize(layers: list[Layer], random: torch.Generator) -> None:
    """Draw torch's default initialisation from our own generator, not from the global one."""
    for weight, bias in layers:
        bound = 1 / math.sqrt(len(weight))
        weight.uniform_(-bound, bound, generator=random)
        bias.uniform_(-bound, bound, generator=random)


def _apply(layers: list[Layer], X: torch.Tensor) -> torch.Tensor:
    *hidden_layers, (weight, bias) = layers
    for hidden_weight, hidden_bias in hidden_layers:
        X = torch.addmm(hidden_bias, X, hidden_weight).relu_()
    return torch.addmm(bias, X, weight)


def _losses(output: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return squared errors of numbers, cross entropies of classes, one per row."""
    if targets.is_floating_point():
        return (output - targets.to(output.dtype)).square().sum(dim=1)
    return functional.cross_entropy(output, targets, reduction="none")


def _centre_and_size(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    centre = rows.mean(dim=0)
    size = (rows - centre).square().sum(dim=1).mean().sqrt()
    return centre, torch.where(size > 0, size, torch.ones_like(size))


def _head_on_raw_inputs(layers: list[Layer], shift: torch.Tensor, scale: torch.Tensor) -> MLPHead:
    """Fold the standardisation into the first layer: (x - shift) / scale W + b is linear in x."""
    (weight, bias), *rest = layers
    weight = weight / scale
    bias = bias - shift.expand(len(weight)) @ weight
    return MLPHead.from_state(
        {
            f"layers.{i}.{name}": value
            for i, (w, b) in enumerate([(weight, bias), *rest])
            for name, value in (("weight", w.t().contiguous()), ("bias", b))
        }
    )
