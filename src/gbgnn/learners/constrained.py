"""ConstrainedMLP: a ReLU network whose columns stay in the L1 ball, for the generalisation bounds."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch.nn import functional

from gbgnn._checks import check_choice, check_integer, check_number
from gbgnn._optimizers import OPTIMIZERS
from gbgnn._projections import project_columns
from gbgnn._random import Purpose, derive_key, uniform
from gbgnn._threads import threads_for
from gbgnn.learners.base import Head, HeadSpace, Learner
from gbgnn.learners.batched import BatchedMLP, Layer
from gbgnn.learners.inputs import largest_eigenvalue, norm
from gbgnn.learners.network import MLPHead
from gbgnn.learners.schedule import Schedule, Shape, TrainingSettings
from gbgnn.rounds import RoundContext, WeakTask


@dataclass(kw_only=True, eq=False, repr=False)
class ConstrainedMLP(Learner):
    r"""Network :math:`b(x) = \mathrm{relu}(\cdots \mathrm{relu}(x W_1) \cdots) W_L` with bounded columns.

    The absolute values in every column of every W sum to ``max_norm`` at most, after every step and at
    the end, so that the complexity of all networks it could have become is known: see
    :class:`~gbgnn.learners.HeadSpace`. Inputs are the raw representation, not standardised, because that is
    what the bound speaks of.

    Such a network may be unable to be as large as its target: rows of word frequencies averaged over
    neighbours give outputs of 0.01, gradients of the loss are 0.5. The boosting rule sets the length of the
    step anyway, so what counts is where the outputs point. The network is therefore trained on the share of
    the target that weights of norm one can follow, :math:`s r` with

    .. math:: s = \max_{\|w_k\|_1 \le 1} \frac{\langle X W, r \rangle}{\|r\|^2}
                = \frac{\sum_k \max_c |\langle X_c, r_k \rangle|}{\|r\|^2}

    (weighted by the sample weights). It follows that multiplying the features by a number changes no
    weight (unless a constant is among them), and that ``max_norm`` is a capacity: towards 0 every output is
    the one column that follows its target best; the larger, the more columns cancel each other's errors. For
    classes r is the residual of a network without an opinion, one-hot minus 1/K, and outputs divided by s are
    the logits whose cross entropy is trained. The head returns the outputs themselves, so that beliefs made
    of them are faint: ``SammeR`` takes small steps and wants a larger ball.

    Parameters
    ----------
    hidden_layers
        Layers less one, 0 to 4. 0 is a linear model. Every layer multiplies the bound by twice ``max_norm``.
    units
        Width of each hidden layer.
    max_norm
        The theory's B. Networks with hidden layers may need more than the linear one.
    bias
        Whether the input gets a constant column 1, whose weight counts in the norm. It often dominates the
        bound: a constant has norm :math:`\sqrt N`, a representation that P has smoothed much less.
    optimizer, learning_rate, momentum
        ``"sgd"``, ``"adam"`` or ``"rmsprop"`` with its step and its momentum (Adam has none). Every step ends
        with the projection on the ball, which fits steps along the gradient itself: with ``"sgd"`` the
        linear model goes to the best one in the ball, with the others only near. The loss is divided by
        the curvature of the linear model, so that a step of 0.5 suits any features.
    epochs
        Passes over the labelled rows.
    batch_size
        Labelled rows per step, drawn without replacement; None takes all at once.

    Examples
    --------
    >>> from gbgnn.testing import learner_round
    >>> X = torch.tensor([[-1.0, 0.0], [1.0, 0.1]])
    >>> head = ConstrainedMLP(max_norm=1.0).fit(learner_round(X, torch.tensor([[-0.5], [0.5]])))
    >>> bool(head.layers[0].weight.abs().sum() <= 1), head(X).sign().flatten().tolist()
    (True, [-1.0, 1.0])
    """

    hidden_layers: int = 0
    units: int = 64
    max_norm: float = 1.0
    bias: bool = False
    optimizer: str = "sgd"
    learning_rate: float = 0.5
    momentum: float = 0.9
    epochs: int = 50
    batch_size: int | None = None

    def check(self) -> None:
        """Raise when a setting is out of range."""
        owner = "ConstrainedMLP"
        check_integer(owner, "hidden_layers", self.hidden_layers, 0, 4)
        check_integer(owner, "units", self.units, 1)
        check_number(owner, "max_norm", self.max_norm, 1e-6, 1e6)
        check_choice(owner, "optimizer", self.optimizer, OPTIMIZERS)
        check_number(owner, "learning_rate", self.learning_rate, 0, open_low=True)
        check_number(owner, "momentum", self.momentum, 0, 1, open_high=True)
        check_integer(owner, "epochs", self.epochs, 0)
        check_integer(owner, "batch_size", self.batch_size, 1, optional=True)

    def hypothesis_space(self) -> HeadSpace:
        """Return the networks of this depth whose columns are in the ball."""
        return HeadSpace(self.hidden_layers + 1, self.max_norm, self.bias)

    def fit(self, context: RoundContext) -> Head:
        """Train one network on the labelled rows."""
        rows = context.X.rows(context.weak_task.rows)
        if self.bias:
            rows = torch.cat([rows, rows.new_ones(len(rows), 1)], dim=1)
        rows, task = _scale(rows, context.weak_task, context.seed)
        settings = TrainingSettings.of(self)
        schedule, n_columns = Schedule.build([settings], len(rows)), rows.shape[1]
        shape = Shape(
            schedule,
            n_columns=n_columns,
            fan_in=n_columns,
            n_hidden=self.hidden_layers,
            n_outputs=task.n_outputs,
            is_shared=True,
        )
        network = BatchedMLP(shape, task.loss, like=rows)
        targets = task.targets[None] if task.is_regression else task.targets
        keys = schedule.derive_keys([context.seed], shape.n_steps, shape.n_hidden).to(rows.device)
        network.load(schedule.to(rows.device), keys, rows, targets, task.weights[None])
        self._project(network.layers(1))
        with threads_for(shape.n_places * network.weight.numel()):
            for n_places in schedule.sizes(shape.n_steps)[0].tolist():
                network.step(1, n_places)
                self._project(network.layers(1))
        (weight, bias), *rest = [(w[0], b[0]) for w, b in network.layers(1)]
        if self.bias:  # the weight of the constant column
            weight, bias = weight[:, :-1], weight[:, -1]
        return MLPHead.from_layers([(weight, bias), *rest])

    def _project(self, layers: list[Layer]) -> None:
        for weight, bias in layers:
            project_columns(weight[0].T, self.max_norm)
            bias.zero_()


def _scale(rows: torch.Tensor, task: WeakTask, seed: int) -> tuple[torch.Tensor, WeakTask]:
    """Return rows and their task in units in which the target is within reach and a step of 0.5 is safe.

    Without biases a network is positively homogeneous: rows divided by s give outputs divided by s.
    """
    weights = task.weights[:, None].double()
    if task.is_regression:
        # Only where it points matters; of size one, a target is no rounding noise in any type.
        residuals = task.targets.double() / (norm(weights.sqrt() * task.targets) or 1)
        task = replace(task, targets=residuals)
    else:
        residuals = functional.one_hot(task.targets, task.n_outputs) - 1 / task.n_outputs
    follows = rows.double().t() @ (weights * residuals)
    reach = float(follows.abs().amax(dim=0).sum() / (weights * residuals.square()).sum())
    rows = rows / reach if reach > 0 else rows
    roots = weights.sqrt().to(rows.dtype) * rows
    start = uniform(rows.shape[1], 1, derive_key(seed, Purpose.START), rows.dtype, rows.device).sub_(0.5)
    curvature = largest_eigenvalue(lambda v: roots.t() @ (roots @ v), start, n_steps=30)
    return rows, replace(task, weights=task.weights / (curvature or 1))
