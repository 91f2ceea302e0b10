"""MLP: the paper's transformation, a small ReLU network trained on the labelled rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from gbgnn._checks import check_choice, check_integer, check_number
from gbgnn._optimizers import OPTIMIZERS
from gbgnn.errors import ParameterError
from gbgnn.learners.base import Head, Heads, Learner
from gbgnn.learners.inputs import BASES, SCALES
from gbgnn.learners.schedule import TrainingSettings
from gbgnn.learners.trainer import Kind, Trainer
from gbgnn.rounds import RoundContext

NORMS = ("layer",)

FEW = 200
"""Up to so many labelled rows the penalty stays as it is."""

MOST_AT_ONCE, BATCH, MOST_STEPS = 100_000, 8_192, 500
"""More labelled rows are not taken all at once unless told: so many a step, and no more steps than these."""


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
        Labelled rows per step (the paper's B), drawn without replacement; None takes all at once. Of more
        than 100,000 it takes 8,192, and as many epochs as take 500 steps: these teach more than as many
        passes as there are epochs, in less time and memory.
    patience
        Stop when the loss of the validation nodes has not fallen for this many epochs and go back to
        the best; None trains all ``epochs``. Where the rule asks for a smaller loss (``target="loss"``),
        that is the loss of the scores so far plus the output: the ensemble's own.
    standardize
        Subtract the mean of the labelled rows, and divide by the root mean square of what is left. Then
        the settings above mean the same whatever the unit of the features and however far depth has
        shrunk them, and what all nodes have in common, which grows with depth, does not drown what
        tells them apart.
    scale_by
        What standardising divides by. ``"rows"``: one number for all columns, as above, which keeps what
        columns are to each other; for bags of words. ``"columns"``: the standard deviation of each, so that
        no unit matters; for tables. A column that is the same in all labelled rows then has no say.
    norm
        ``"layer"`` standardises the units of every hidden layer, row by row, before ReLU (LayerNorm without
        weights of its own), which suits many labels and long training; None does not.
    basis
        In which coordinates the first layer is trained. ``"rows"``: those of the space that the labelled rows
        span, where there are fewer labelled rows than columns: an epoch then costs the same however many
        features there are, and what no labelled row tells about has no say. ``"features"``: the columns.
        The fitted learner is a network on the columns either way.

    Examples
    --------
    >>> import torch
    >>> from gbgnn.testing import learner_round
    >>> X = torch.tensor([[-1.0], [1.0]])
    >>> MLP(epochs=30).fit(learner_round(X, torch.tensor([0, 1])))(X).argmax(dim=1)
    tensor([0, 1])
    """

    may_differ = tuple(field.name for field in fields(TrainingSettings))

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
    scale_by: str = "rows"
    norm: str | None = None
    basis: str = "rows"

    takes_offsets = True

    def check(self) -> None:
        """Raise when a setting is out of range."""
        check_integer("MLP", "hidden_layers", self.hidden_layers, 0, 4)
        check_integer("MLP", "units", self.units, 1)
        if not isinstance(self.standardize, bool):
            raise ParameterError(f"MLP.standardize must be True or False; got {self.standardize!r}.")
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
        check_choice("MLP", "scale_by", self.scale_by, SCALES)
        if self.norm is not None:
            check_choice("MLP", "norm", self.norm, NORMS)

    def penalty(self, n_rows: int) -> float:
        """Return the L2 penalty for a number of labelled rows: the more there are, the less it takes."""
        return 1 / max(n_rows, FEW) if self.weight_decay is None else self.weight_decay

    @property
    def watches_validation(self) -> bool:
        """Whether training stops early."""
        return self.patience is not None

    def settings(self, n_rows: int) -> TrainingSettings:
        """Return how a network is trained on so many labelled rows."""
        dropout = self.dropout if self.hidden_layers else 0.0
        pace = {}
        if self.batch_size is None and n_rows > MOST_AT_ONCE:
            n_batches = -(-n_rows // BATCH)
            pace = {"batch_size": BATCH, "epochs": min(self.epochs, max(1, MOST_STEPS // n_batches))}
        return TrainingSettings.of(self, dropout=dropout, weight_decay=self.penalty(n_rows), **pace)

    def fit(self, context: RoundContext) -> Head:
        """Train one network on the labelled rows."""
        return MLP.fit_many([self], context.batched()).head(0)

    @classmethod
    def fit_many(cls, learners: Sequence[MLP], context: RoundContext) -> Heads:
        """Train the networks of several members at once, on a GPU as CUDA graphs."""
        first, n_rows = learners[0], len(context.weak_task.rows)
        alike = (first.hidden_layers, first.standardize, first.basis, first.patience)
        kind = Kind(*alike, first.scale_by, first.norm)
        now = {i: own.settings(n_rows) for i, own in zip(context.ids or (), learners, strict=True)}
        trainer, settings = context.workspace.get(kind, (None, {}))
        if trainer is None or any(settings.get(i, own) != own for i, own in now.items()):
            trainer, settings = context.workspace[kind] = (Trainer(kind), {})
        settings |= now
        heads: Heads = trainer.fit(settings, context)
        return heads
