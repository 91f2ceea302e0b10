"""ConsistentNetwork: a small network whose beliefs about all nodes must not change with what is dropped."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from gbgnn._checks import check_choice, check_integer, check_number
from gbgnn._optimizers import Stepper
from gbgnn._random import Purpose, derive_key
from gbgnn._threads import threads_for
from gbgnn.learners.base import GRAPH, Learner
from gbgnn.learners.early_stopping import EVERY, Best, first_losses, validation_losses
from gbgnn.learners.graph_blocks import Dropout
from gbgnn.learners.graph_training import warm_cosine
from gbgnn.learners.hop_head import HopHead, RowMap, Words
from gbgnn.losses import Loss
from gbgnn.propagation import NORMS
from gbgnn.propagation.product import Mixing
from gbgnn.rounds import RoundContext, WeakTask

HOPS = ("mean", "pagerank")
SCHEDULES = ("constant", "cosine")


@dataclass(kw_only=True, eq=False, repr=False)
class ConsistentNetwork(Learner):
    r"""A network of one hidden layer behind a few hops, for few labels: nodes without one train it too.

    Its output is :math:`W_2 \, \mathrm{relu}(\sum_k c_k P^k X W_1 + b_1) + b_2`. Each step makes ``n_views``
    of all nodes: in each, a random share of the nodes has lost its features before the hops, and hidden units
    are dropped after them. The loss of the labelled nodes is taken in every view; and on *all* nodes,
    labelled or not, each view must come close to what the views believe together, made more certain
    (consistency regularisation; GRAND [Feng et al. 2020] is a single such network). Beliefs are those of the
    scores so far plus the output, where the rule builds on scores (``FunctionalGradient(target="loss")``);
    so earlier rounds teach the later ones.

    The hops of the model's aggregation do not matter to it: it takes its own.

    Parameters
    ----------
    n_hops
        The highest power of P.
    hops
        ``"mean"`` of the powers from 0 to ``n_hops``, or ``"pagerank"``: personalised PageRank, walks that
        end at each step with the probability ``restart``.
    restart
        Of the walks, in (0, 1].
    row_norm
        ``"l1"`` or ``"l2"`` brings rows of features to length one, which suits bags of words; None leaves
        them.
    standardize
        Then take off the mean of all rows, and divide by the root mean square of what is left, so that what
        all nodes have in common does not drown what tells them apart.
    units
        Hidden units.
    n_views
        Views in each step.
    node_dropout
        Share of the nodes that have lost their features in a view, in [0, 1).
    feature_dropout
        Share of the columns that all nodes have lost in a view, in [0, 1).
    dropout
        Dropout of hidden units, in [0, 1).
    consistency
        How much the distance of views counts beside the loss of the labelled nodes; 0 or more. It grows to
        this in the first ``warm_up`` epochs.
    warm_up
        See there.
    temperature
        Of what views believe together, in (0, 1]: below 1 it is made more certain.
    teacher
        The share in it of what the scores so far say, if there are any, in [0, 1).
    gate_decay
        Every column is multiplied by a weight that is learned from 1, with this L2 penalty: columns that tell
        nothing fade. None has no such weights.
    weight_decay
        L2 penalty of all other weights.
    learning_rate
        Adam's step.
    schedule
        ``"constant"`` leaves the step as it is; ``"cosine"`` lets it grow in the first fifth of the epochs
        and shrink to nothing in the others. Then few epochs with large steps teach as much as many.
    epochs
        Steps of training.
    patience
        Stop when the loss of the validation nodes has not fallen for this many epochs, and go back to the
        best. After a round that has said something, it says nothing where that is not better by a standard
        error. None, or no validation nodes, trains all ``epochs``.

    Examples
    --------
    >>> from gbgnn import FunctionalGradient, GBGNNClassifier, datasets
    >>> data = datasets.csbm(n_nodes=200, per_class=5)
    >>> rule = FunctionalGradient(target="loss", learning_rate=1.0)
    >>> learner = ConsistentNetwork(epochs=50, row_norm=None)
    >>> model = GBGNNClassifier(learner=learner, rule=rule, n_rounds=1, random_state=0)
    >>> model = model.fit(data.train, data.y[data.train], graph=data.graph)
    >>> bool(model.score(data.test, data.y[data.test]) > 0.8)
    True
    """

    n_hops: int = 8
    hops: str = "mean"
    restart: float = 0.1
    row_norm: str | None = "l2"
    standardize: bool = True
    units: int = 32
    n_views: int = 4
    node_dropout: float = 0.5
    feature_dropout: float = 0.0
    dropout: float = 0.5
    consistency: float = 1.0
    warm_up: int = 100
    temperature: float = 0.2
    teacher: float = 0.0
    gate_decay: float | None = None
    weight_decay: float = 0.002
    learning_rate: float = 0.03
    schedule: str = "constant"
    epochs: int = 400
    patience: int | None = 100

    uses = GRAPH
    takes_gaps = True  # which are in rows that it does not look at
    takes_offsets = True
    trains_in_threads = True

    def check(self) -> None:
        """Raise when a setting is out of range."""
        owner = "ConsistentNetwork"
        check_choice(owner, "hops", self.hops, HOPS)
        check_choice(owner, "schedule", self.schedule, SCHEDULES)
        if self.row_norm is not None:
            check_choice(owner, "row_norm", self.row_norm, NORMS)
        check_integer(owner, "n_hops", self.n_hops, 0)
        for name in ("units", "n_views", "warm_up", "epochs"):
            check_integer(owner, name, getattr(self, name), 1)
        check_integer(owner, "patience", self.patience, 1, optional=True)
        for name in ("node_dropout", "feature_dropout", "dropout", "teacher"):
            check_number(owner, name, getattr(self, name), 0, 1, open_high=True)
        for name in ("restart", "temperature"):
            check_number(owner, name, getattr(self, name), 0, 1, open_low=True)
        for name in ("consistency", "weight_decay"):
            check_number(owner, name, getattr(self, name), 0)
        if self.gate_decay is not None:
            check_number(owner, "gate_decay", self.gate_decay, 0)
        check_number(owner, "learning_rate", self.learning_rate, 0, open_low=True)

    @property
    def watches_validation(self) -> bool:
        """Whether training stops early."""
        return self.patience is not None

    @property
    def is_differentiable(self) -> bool:
        """No: fine-tuning moves heads of rows."""
        return False

    def coefficients(self) -> torch.Tensor:
        """Return the weights of the powers of P, which sum to one.

        Examples
        --------
        >>> ConsistentNetwork(n_hops=3).coefficients().tolist()
        [0.25, 0.25, 0.25, 0.25]
        >>> ConsistentNetwork(n_hops=2, hops="pagerank", restart=0.5).coefficients().tolist()
        [0.5, 0.25, 0.25]
        """
        if self.hops == "mean":
            return torch.full((self.n_hops + 1,), 1 / (self.n_hops + 1))
        shares = (1 - self.restart) ** torch.arange(self.n_hops + 1.0)
        shares[:-1] *= self.restart
        return shares

    def rate_of(self, epoch: int) -> float:
        """Return the size of the step of an epoch, counted from one.

        Examples
        --------
        >>> quick = ConsistentNetwork(learning_rate=0.2, schedule="cosine", epochs=10)
        >>> [round(quick.rate_of(epoch), 2) for epoch in (1, 2, 6, 10)]
        [0.1, 0.2, 0.1, 0.0]
        """
        share = 1.0 if self.schedule == "constant" else warm_cosine(epoch / self.epochs)
        return self.learning_rate * share

    def fit(self, context: RoundContext) -> HopHead:
        """Train a network on all nodes."""
        task, inputs, seed = context.weak_task, context.inputs, context.seed
        rows = RowMap.fit(inputs, self.row_norm, standardize=self.standardize)
        head = HopHead.start(rows, task.n_outputs, self.units, self.coefficients(), seed)
        head = head.to(device=inputs.device, dtype=inputs.dtype)
        with threads_for(float(inputs.n_nodes) * self.units * self.n_views * (self.n_hops + 1)):
            words, mixing = rows(inputs), Mixing(inputs.P)
            _Training(self, head, words, mixing, task, context.scores, seed).run()
        return head


class _Training:
    """Moves the weights of a head."""

    def __init__(
        self,
        learner: ConsistentNetwork,
        head: HopHead,
        words: Words,
        mixing: Mixing,
        task: WeakTask,
        scores: torch.Tensor,
        seed: int,
    ) -> None:
        self.learner, self.head, self.words, self.mixing, self.task = learner, head, words, mixing, task
        self.offsets = None if task.offsets is None else scores
        self.random = torch.Generator(scores.device)
        self.random.manual_seed(derive_key(seed, Purpose.DROPOUT) % 2**63)
        self.drop = Dropout(learner.dropout, self.random)

    def run(self) -> None:
        """Train; weights end where the validation nodes were predicted best."""
        learner, head, task = self.learner, self.head, self.task
        layers = (head.enter, head.leave)
        weights = [each.requires_grad_() for layer in layers for each in (layer.weight, layer.bias)]
        gate = torch.ones_like(head.enter.weight[0])
        steppers = [Stepper("adam", weights, learner.learning_rate, weight_decay=learner.weight_decay)]
        if learner.gate_decay is not None:
            gate.requires_grad_()
            steppers.append(Stepper("adam", [gate], learner.learning_rate, weight_decay=learner.gate_decay))
        moved = [*weights, *([gate] if gate.requires_grad else [])]
        best = None
        if learner.patience is not None and task.val_rows is not None:
            best = Best(moved, first_losses(self._outputs(gate), task))
        for epoch in range(1, learner.epochs + 1):
            for stepper in steppers:
                stepper.learning_rate = learner.rate_of(epoch)
            outputs = self._views(gate)
            loss = self._labelled_loss(outputs)
            if learner.consistency:
                ramp = learner.consistency * min(1.0, epoch / learner.warm_up)
                loss = loss + ramp * self._distance(outputs)
            gradients = torch.autograd.grad(loss, moved)
            steppers[0].step(list(gradients[: len(weights)]))
            if gate.requires_grad:
                steppers[1].step(list(gradients[len(weights) :]))
            if best is None or epoch % EVERY:
                continue
            best.see(epoch, validation_losses(self._outputs(gate), task))
            if learner.patience is not None and epoch - best.epoch >= learner.patience:
                break
        if best is not None:
            best.restore()
        for each in moved:
            each.requires_grad_(False)
        head.enter.weight.mul_(gate)

    @torch.no_grad()
    def _outputs(self, gate: torch.Tensor) -> torch.Tensor:
        """Return the outputs of all nodes, nothing dropped."""
        head = self.head
        hidden = head.mix(self.mixing, self.words(head.enter.weight * gate)) + head.enter.bias
        outputs: torch.Tensor = head.leave(hidden.relu())
        return outputs

    def _views(self, gate: torch.Tensor) -> torch.Tensor:
        """Return the outputs of all nodes in every view, shape (N, views, outputs)."""
        learner, head = self.learner, self.head
        n_views, weight = learner.n_views, head.enter.weight * gate
        if learner.feature_dropout:
            kept = self._keep(n_views, 1, len(gate), share=learner.feature_dropout)
            Z = self.words((weight * kept).flatten(0, 1)).unflatten(1, (n_views, -1))
        else:
            Z = self.words(weight)[:, None].expand(-1, n_views, -1)
        Z = Z * self._keep(len(Z), n_views, 1, share=learner.node_dropout)
        mixed = head.mix(self.mixing, Z.flatten(1)).unflatten(1, (n_views, -1))
        hidden = self.drop((mixed + head.enter.bias).relu())
        return torch.nn.functional.linear(hidden, head.leave.weight, head.leave.bias)

    def _keep(self, *shape: int, share: float) -> torch.Tensor:
        """Return zeros for a random share, and for the rest what makes up for them."""
        weight = self.head.enter.weight
        draws = torch.rand(shape, generator=self.random, device=weight.device)
        return (draws >= share).to(weight.dtype) / (1 - share)

    def _labelled_loss(self, outputs: torch.Tensor) -> torch.Tensor:
        """Return the weighted mean loss of the labelled nodes, over all views."""
        task, n_views = self.task, outputs.shape[1]
        scores = outputs[task.rows]
        if task.offsets is not None:
            scores = scores + task.offsets[:, None]
        targets = task.targets.to(scores.dtype) if task.targets.is_floating_point() else task.targets
        values = task.loss.evaluate("values", scores.flatten(0, 1), targets.repeat_interleave(n_views, 0))
        return (values.view(-1, n_views).mean(dim=1) * task.weights.to(scores.dtype)).sum()

    def _distance(self, outputs: torch.Tensor) -> torch.Tensor:
        """Return how far views are from what they believe together, the mean over nodes and views."""
        if self.offsets is not None:
            outputs = outputs + self.offsets[:, None]
        loss, learner = self.task.loss, self.learner
        beliefs = loss.evaluate("link", outputs.flatten(0, 1)).view_as(outputs)
        together = beliefs.detach().mean(dim=1)
        if learner.teacher and self.offsets is not None and bool(self.offsets.any()):
            told = loss.evaluate("link", self.offsets)
            together = (1 - learner.teacher) * together + learner.teacher * told
        together = sharpen(together, learner.temperature, loss)
        return (beliefs - together[:, None]).square().sum(dim=-1).mean()


def sharpen(beliefs: torch.Tensor, temperature: float, loss: Loss) -> torch.Tensor:
    """Return probabilities that are more certain, numbers as they are.

    Examples
    --------
    >>> from gbgnn.losses import SigmoidCrossEntropy, SoftmaxCrossEntropy
    >>> sharpen(torch.tensor([[0.25, 0.75]]), 0.5, SoftmaxCrossEntropy()).tolist()
    [[0.10000000149011612, 0.8999999761581421]]
    >>> sharpen(torch.tensor([[0.75]]), 0.5, SigmoidCrossEntropy()).tolist()
    [[0.8999999761581421]]
    """
    if loss.takes == "numbers":
        return beliefs
    raised = beliefs ** (1 / temperature)
    others = (1 - beliefs) ** (1 / temperature) if loss.takes == "binary" else None
    total = raised.sum(dim=-1, keepdim=True) if others is None else raised + others
    return raised / total.clamp_min(torch.finfo(beliefs.dtype).tiny)
