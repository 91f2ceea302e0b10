"""GraphNetwork: a small residual network along the graph, which hears the labels of other nodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from gbgnn._checks import check_integer, check_number
from gbgnn._optimizers import Stepper
from gbgnn._random import Purpose, derive_key
from gbgnn._threads import threads_for
from gbgnn.learners.base import GRAPH, Learner
from gbgnn.learners.graph_head import ColumnMap, Dropout, GraphNetworkHead, hide, work_of
from gbgnn.problem import KnownLabels
from gbgnn.propagation.product import Mixing
from gbgnn.rounds import RoundContext, WeakTask

_EVERY = 5  # epochs between two looks at the validation nodes

_WARM_UP = 0.2  # the share of the epochs in which steps grow


@dataclass(kw_only=True, eq=False, repr=False)
class GraphNetwork(Learner):
    r"""A residual graph network, trained on all nodes at once, that hears the labels of other nodes.

    After a linear layer, ``depth`` blocks :math:`H \leftarrow H + \mathrm{relu}(Z U + P Z V + b)`, with Z the
    rows of H standardised and P the model's propagation; ``"random_walk"``, the mean of the neighbours, suits
    it best. It sees what nodes have of their own, each column by its quantiles, their degrees, and the labels
    that are known: at each step a random share of these, and it is trained on the others, so that it learns
    what labels nearby tell. No node hears its own label, neither in training nor when it is predicted. On
    another graph there are none.

    The hops of the model's aggregation do not matter to it: it takes its own.

    Parameters
    ----------
    depth
        Blocks, each a hop.
    units
        Width.
    dropout
        Dropout of hidden units at each step, in [0, 1).
    label_share
        Share of the labelled nodes whose labels are heard at a step of training, in [0, 1); 0 hears none,
        ever.
    learning_rate
        Adam's largest step: it grows for a fifth of the epochs, and then falls to zero along a cosine.
    epochs
        Steps of training, all labelled nodes in each.
    patience
        Stop when the loss of the validation nodes has not fallen for this many epochs, and go back to the
        best, or to an output of zero where that is not better by a standard error; None, or no validation
        nodes, trains all ``epochs``.

    Examples
    --------
    >>> from gbgnn import GBGNNClassifier, datasets
    >>> data = datasets.csbm(n_nodes=200, per_class=20)
    >>> model = GBGNNClassifier(learner=GraphNetwork(epochs=50), n_rounds=1, random_state=0)
    >>> model = model.fit(data.train, data.y[data.train], graph=data.graph)
    >>> bool(model.score(data.test, data.y[data.test]) > 0.8)
    True
    """

    depth: int = 8
    units: int = 32
    dropout: float = 0.2
    label_share: float = 0.5
    learning_rate: float = 0.01
    epochs: int = 300
    patience: int | None = 50

    uses = GRAPH
    takes_gaps = True  # which are in rows that it does not look at
    takes_offsets = True
    hears_labels = True

    def check(self) -> None:
        """Raise when a setting is out of range."""
        check_integer("GraphNetwork", "depth", self.depth, 1)
        check_integer("GraphNetwork", "units", self.units, 1)
        check_number("GraphNetwork", "dropout", self.dropout, 0, 1, open_high=True)
        check_number("GraphNetwork", "label_share", self.label_share, 0, 1, open_high=True)
        check_number("GraphNetwork", "learning_rate", self.learning_rate, 0, open_low=True)
        check_integer("GraphNetwork", "epochs", self.epochs, 1)
        check_integer("GraphNetwork", "patience", self.patience, 1, optional=True)

    @property
    def watches_validation(self) -> bool:
        """Whether training stops early."""
        return self.patience is not None

    @property
    def is_differentiable(self) -> bool:
        """No: fine-tuning moves heads of rows."""
        return False

    def fit(self, context: RoundContext) -> GraphNetworkHead:
        """Train a network on the graph."""
        task, inputs = context.weak_task, context.inputs
        known = inputs.known if self.label_share else None
        n_labels = 0 if known is None else known.codes.shape[1] + 1
        columns = ColumnMap.fit(inputs)
        size = {"depth": self.depth, "units": self.units, "seed": context.seed}
        head = GraphNetworkHead.start(columns, n_labels, task.n_outputs, **size)
        head = head.to(device=inputs.device, dtype=inputs.dtype)
        with threads_for(work_of(inputs, self.units)):
            self._train(head, columns(inputs), Mixing(inputs.P), known, task, context.seed)
        return head

    def _train(
        self,
        head: GraphNetworkHead,
        X: torch.Tensor,
        mixing: Mixing,
        known: KnownLabels | None,
        task: WeakTask,
        seed: int,
    ) -> None:
        """Move the weights of a network; they end where the validation nodes were predicted best."""
        weights = [each.requires_grad_() for each in head.parameters()]
        stepper = Stepper("adam", weights, self.learning_rate)
        random = torch.Generator(X.device).manual_seed(derive_key(seed, Purpose.DROPOUT) % 2**63)
        drop, best = Dropout(self.dropout, random), None
        if self.patience is not None and task.val_rows is not None:
            best = Best(weights, _validation_losses(head.outputs(X, mixing, known), task))
        for epoch in range(1, self.epochs + 1):
            asked, shown = torch.ones_like(task.rows, dtype=torch.bool), known
            if known is not None:
                asked = self._hidden(len(known.rows), random, X.device)
                shown = hide(known, asked)
            loss = _training_loss(head.outputs(X, mixing, shown, drop), task, asked)
            stepper.learning_rate = self.learning_rate * warm_cosine(epoch / self.epochs)
            stepper.step(list(torch.autograd.grad(loss, weights)))
            if best is None or epoch % _EVERY:
                continue
            with torch.no_grad():
                best.see(epoch, _validation_losses(head.outputs(X, mixing, known), task))
            if self.patience is not None and epoch - best.epoch >= self.patience:
                break
        if best is not None:
            best.restore()
        for each in weights:
            each.requires_grad_(False)

    def _hidden(self, n_labels: int, random: torch.Generator, device: torch.device) -> torch.Tensor:
        """Return which labels are not heard at a step: some are, unless there is only one."""
        draws = torch.rand(n_labels, generator=random, device=device)
        hidden = draws >= self.label_share
        hidden[draws.argmax()] = True
        return hidden


def warm_cosine(share: float) -> float:
    """Return the size of a step after some share of the training, the largest being 1.

    Examples
    --------
    >>> [round(warm_cosine(share), 2) for share in (0.1, 0.2, 0.6, 1.0)]
    [0.5, 1.0, 0.5, 0.0]
    """
    if share <= _WARM_UP:
        return share / _WARM_UP
    return 0.5 + 0.5 * math.cos(math.pi * (share - _WARM_UP) / (1 - _WARM_UP))


class Best:
    """Weights as they were at first, and when the mean loss of some nodes was least."""

    def __init__(self, weights: Sequence[torch.Tensor], losses: torch.Tensor) -> None:
        self.weights, self.epoch = weights, 0
        self.first_losses = self.losses = losses
        self.first = self.kept = [each.detach().clone() for each in weights]

    def see(self, epoch: int, losses: torch.Tensor) -> None:
        """Keep the weights where the mean loss is less than it ever was."""
        if losses.mean() < self.losses.mean():
            self.losses, self.epoch = losses, epoch
            self.kept = [each.detach().clone() for each in self.weights]

    @property
    def is_clear(self) -> bool:
        """Whether the loss has fallen by at least a standard error: less may be the luck of many looks."""
        gains = self.first_losses - self.losses
        return bool(gains.mean() > 0 and gains.mean() * math.sqrt(len(gains)) >= gains.std(correction=0))

    @torch.no_grad()
    def restore(self) -> None:
        """Put the best weights back, or the first ones where these are not clearly worse."""
        for kept, each in zip(self.kept if self.is_clear else self.first, self.weights, strict=True):
            each.copy_(kept)


def _training_loss(output: torch.Tensor, task: WeakTask, asked: torch.Tensor) -> torch.Tensor:
    """Return the weighted mean loss of some of the labelled nodes."""
    scores, weights = output[task.rows[asked]], task.weights[asked].to(output.dtype)
    if task.offsets is not None:
        scores = scores + task.offsets[asked]
    values = task.loss.evaluate("values", scores, _as_targets(task.targets[asked], scores))
    return (values * weights).sum() / weights.sum().clamp_min(torch.finfo(weights.dtype).tiny)


def _validation_losses(output: torch.Tensor, task: WeakTask) -> torch.Tensor:
    assert task.val_rows is not None
    assert task.val_targets is not None
    scores = output[task.val_rows].detach()
    scores = scores if task.val_offsets is None else scores + task.val_offsets
    return task.loss.evaluate("values", scores.double(), task.val_targets)


def _as_targets(targets: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    return targets.to(scores.dtype) if targets.is_floating_point() else targets
