"""FunctionalGradient: the paper's Algorithm 1, with its certificate."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from gbgnn._checks import check_choice, check_integer, check_number
from gbgnn._line_search import find_step
from gbgnn.boosting.rules import BoostingRule, Vote, check_classes, label_task, normalized
from gbgnn.boosting.selection import StopReason
from gbgnn.boosting.voting import LabelVoting, OutputVoting, Voting
from gbgnn.errors import GBGNNWarning, ParameterError
from gbgnn.losses import LOSSES, Loss, SquaredError
from gbgnn.rounds import RoundContext, WeakTask, for_rows
from gbgnn.tasks import Task
from gbgnn.theory import WeakLearnings


@dataclass(kw_only=True, eq=False, repr=False)
class FunctionalGradient(BoostingRule):
    r"""Step along learners that follow the negative gradient of the loss (Algorithm 1).

    A learner with outputs f is used when Z = f / M satisfies the weak learning condition: the cosine
    between Z and :math:`g = -\nabla L` is positive (or above ``min_cosine``). Its step is
    :math:`\eta = \nu / (A \alpha) = \nu \langle Z, g\rangle / (A \|Z\|^2)`, which guarantees
    :math:`L_{t-1} - L_t \ge \nu (2 - \nu) \frac{M}{2A} \cos^2 \|g\|^2`; A is the
    loss's ``smoothness``: 1/2 for softmax, 1/4 for sigmoid, 2 for the squared error, 1 for Huber's. A loss
    without one (absolute, quantile, Poisson) is searched along f for its minimum, and :math:`\eta` is the
    share :math:`\nu` of the way there: it falls in every round, by how much is not promised.

    Parameters
    ----------
    loss
        ``"softmax"``, any number of classes; ``"sigmoid"``, two classes and one score, the paper's
        setting, or several labels per node; ``"squared"``, ``"absolute"``, ``"huber"``, ``"quantile"`` or
        ``"poisson"``, numbers; a :class:`~gbgnn.losses.Loss` of one's own; ``"auto"`` takes what suits the
        task, sigmoid for two classes.
    target
        ``"gradient"``: the learner fits the negative gradient, a regression. ``"labels"``: it fits the
        classes, each node weighted by the size of its gradient, and votes for them; with two
        classes that is the same search, in AdaBoost's words. ``"loss"``: it makes the loss of the scores so
        far plus its outputs small, by its own means and as early as its validation nodes say, and a step is
        the share :math:`\nu` of that.
    learning_rate
        The shrinkage :math:`\nu`, in (0, 2): below 1 later rounds, which see further, keep more of
        the work. From 2 on nothing is guaranteed; beyond 1 not where the step is searched for.
    min_cosine
        The least cosine a learner must reach, in [0, 1).
    retries
        How often a learner that fails the condition is trained again from a fresh initialisation.
    on_failure
        What happens then: ``"stop"`` ends boosting; ``"warn"`` adds nothing this round and goes on.

    Examples
    --------
    >>> FunctionalGradient(learning_rate=0.5)
    FunctionalGradient(learning_rate=0.5)
    """

    loss: str | Loss = "auto"
    target: str = "gradient"
    learning_rate: float = 0.3
    min_cosine: float = 0.0
    retries: int = 3
    on_failure: str = "stop"

    def check(self, task: Task) -> None:
        """Raise when a setting is out of range, or the loss does not fit the task."""
        owner = "FunctionalGradient"
        if not isinstance(self.loss, Loss):
            check_choice(owner, "loss", self.loss, ("auto", *LOSSES))
        check_choice(owner, "target", self.target, ("gradient", "labels", "loss"))
        check_number(owner, "learning_rate", self.learning_rate, 0, 2, open_low=True, open_high=True)
        check_number(owner, "min_cosine", self.min_cosine, 0, 1, open_high=True)
        check_integer(owner, "retries", self.retries, 0)
        check_choice(owner, "on_failure", self.on_failure, ("stop", "warn"))
        loss = self.loss_for(task)
        loss.check()
        task.n_outputs(loss)
        if loss.smoothness is None and self.learning_rate > 1:
            raise ParameterError(
                f"{owner}.learning_rate must be in (0, 1] under {type(loss).__name__}, whose steps are "
                f"searched for; got {self.learning_rate!r}."
            )
        if self.target == "labels":
            check_classes(self, task)

    def loss_for(self, task: Task) -> Loss:
        """Return the loss that is minimised."""
        if isinstance(self.loss, Loss):
            return self.loss
        return task.default_loss if self.loss == "auto" else LOSSES[self.loss]()

    def voting_for(self, task: Task) -> Voting:
        """Return outputs as they are, or votes for the classes that were fitted."""
        loss = self.loss_for(task)
        n_outputs = task.n_outputs(loss)
        if self.target == "labels":
            return LabelVoting(n_outputs, task.n_columns, loss=loss)
        return OutputVoting(n_outputs, loss)

    @property
    def uses_offsets(self) -> bool:
        """Whether learners minimise the loss itself."""
        return self.target == "loss"

    def ask(self, context: RoundContext, state: Any) -> WeakTask:
        """Ask for the negative gradient, for the classes weighted by its size, or for a smaller loss."""
        train, val, residuals = context.train, context.problem.validation, context.training.residuals
        if self.target == "labels":
            # A tiny floor keeps a fitted row from dividing zero by zero.
            sizes = train.weights * residuals.abs().sum(dim=-1).clamp_min(1e-300)
            return label_task(context, normalized(sizes))
        loss, val_targets = context.training.loss, None
        if self.target == "loss":
            return WeakTask(
                rows=train.rows,
                targets=train.targets,
                weights=train.weights.expand(residuals.shape[:-1]),
                n_outputs=residuals.shape[-1],
                loss=loss,
                val_rows=None if val is None else val.rows,
                val_targets=None if val is None else val.targets,
                offsets=context.scores[..., train.rows, :],
                val_offsets=None if val is None else context.scores[..., val.rows, :],
            )
        if val is not None:
            val_targets = -loss.evaluate("gradient", context.scores[..., val.rows, :].double(), val.targets)
        return WeakTask(
            rows=train.rows,
            targets=residuals,
            weights=train.weights.expand(residuals.shape[:-1]),
            n_outputs=residuals.shape[-1],
            loss=SquaredError(),
            val_rows=None if val is None else val.rows,
            val_targets=val_targets,
        )

    def vote(
        self, direction: torch.Tensor, quality: WeakLearnings, context: RoundContext, state: Any
    ) -> Vote:
        """Return the step 1/(A alpha), or one searched for; refuse a learner that fails the condition."""
        # What rounding alone can make of a right angle is none.
        rounding = 8 * torch.finfo(direction.dtype).eps
        is_met = (quality.cosine > rounding) & (quality.cosine >= self.min_cosine)
        eta = torch.where(is_met, self._step(direction, quality, context), 0.0)
        has_vanished = is_met | (quality.gradient_norm == 0)
        reason = torch.where(
            has_vanished, StopReason.GRADIENT_VANISHED.code, StopReason.WEAK_LEARNING_FAILED.code
        )
        refusal = torch.where(eta > 0, 0, reason)
        return Vote(eta, direction, quality, _weighted_error(direction, context), refusal)

    def _step(self, direction: torch.Tensor, quality: WeakLearnings, context: RoundContext) -> torch.Tensor:
        """Return the step that smoothness allows, shrunk, or without it the share of a line search."""
        training, smoothness = context.training, context.training.loss.smoothness
        if self.target == "loss":  # what was fitted is the step
            return torch.full_like(quality.alpha, 1.0) * self.learning_rate
        if smoothness is not None:
            return self.learning_rate / (smoothness * quality.alpha)
        train, rows = training.train, direction[..., training.train.rows, :].double()

        def slope(eta: torch.Tensor) -> torch.Tensor:
            reached = training.scores + for_rows(eta, rows) * rows
            gradient = training.loss.evaluate("gradient", reached, train.targets)
            return ((gradient * rows).sum(dim=-1) * train.weights).sum(dim=-1)

        return self.learning_rate * find_step(slope, (1 / quality.alpha).nan_to_num(nan=1.0, posinf=1.0))

    @property
    def max_attempts(self) -> int:
        """One try and the retries."""
        return 1 + self.retries

    def on_exhausted(self, vote: Vote) -> Vote:
        """Go on without this round's learner when asked to warn; otherwise the refusal stands."""
        failed = vote.refusal == StopReason.WEAK_LEARNING_FAILED.code
        if self.on_failure == "stop" or not bool(failed.any()):
            return vote
        warnings.warn(
            f"no learner met the weak learning condition in {self.max_attempts} attempts; "
            "this round adds nothing.",
            GBGNNWarning,
            stacklevel=2,
        )
        return replace(
            vote, eta=torch.where(failed, 0.0, vote.eta), refusal=torch.where(failed, 0, vote.refusal)
        )


def _weighted_error(direction: torch.Tensor, context: RoundContext) -> torch.Tensor | None:
    """Return the share, by size of gradient, of the labelled nodes that the direction gets wrong."""
    train, task = context.train, context.problem.task
    decided = task.decide(direction[..., train.rows, :], partial(context.training.loss.evaluate, "link"))
    wrong = task.misses(decided, train.targets)
    if wrong is None:
        return None
    sizes = context.training.residuals.abs().sum(dim=-1) * train.weights
    return ((sizes * wrong).sum(dim=-1) / sizes.sum(dim=-1)).nan_to_num(0.0)  # no gradient: 0 / 0
