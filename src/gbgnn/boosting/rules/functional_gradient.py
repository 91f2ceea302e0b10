"""FunctionalGradient: the paper's Algorithm 1, with its certificate."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import torch

from gbgnn._checks import check_choice, check_integer, check_number
from gbgnn.boosting.diagnostics import direction_quality
from gbgnn.boosting.rules.base import (
    BoostingRule,
    Vote,
    average_codes,
    class_codes,
    label_task,
    normalized,
)
from gbgnn.boosting.stopping import StopReason
from gbgnn.errors import GBGNNWarning, ParameterError
from gbgnn.learners import WeakTask
from gbgnn.losses import Loss, SigmoidCrossEntropy, SoftmaxCrossEntropy
from gbgnn.problem import Problem

_LOSSES: dict[str, type[Loss]] = {"softmax": SoftmaxCrossEntropy, "sigmoid": SigmoidCrossEntropy}


@dataclass(kw_only=True, eq=False, repr=False)
class FunctionalGradient(BoostingRule):
    r"""Step along learners that follow the negative gradient of the cross entropy (Algorithm 1).

    A learner with outputs f is used when Z = f / M satisfies the weak learning condition: the cosine
    between Z and :math:`g = -\nabla L` is positive (or above ``min_cosine``). Its step is
    :math:`\eta = \nu / (A \alpha) = \nu \langle Z, g\rangle / (A \|Z\|^2)`, which guarantees
    :math:`L_{t-1} - L_t \ge \nu (2 - \nu) \frac{M}{2A} \cos^2 \|g\|^2`; A is 1/2 for softmax, 1/4 for
    sigmoid.

    Parameters
    ----------
    loss
        ``"softmax"``, any number of classes; ``"sigmoid"``, two classes and one score, the paper's
        setting; ``"auto"`` takes sigmoid for two classes.
    target
        ``"gradient"``: the learner fits the negative gradient, a regression. ``"labels"``: it fits the
        labels, each node weighted by the size of its gradient, and votes for classes; with two
        classes that is the same search, in AdaBoost's words.
    learning_rate
        The shrinkage :math:`\nu`, in (0, 2): below 1 later rounds, which see further, keep more of
        the work. From 2 on nothing is guaranteed.
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

    loss: str = "auto"
    target: str = "gradient"
    learning_rate: float = 0.3
    min_cosine: float = 0.0
    retries: int = 3
    on_failure: str = "stop"

    def loss_for(self, n_classes: int) -> Loss:
        """Return the loss that is minimised."""
        name = ("sigmoid" if n_classes == 2 else "softmax") if self.loss == "auto" else self.loss
        return _LOSSES[name]()

    def check(self, n_classes: int) -> None:
        """Raise when a setting is out of range, or the sigmoid loss meets more than two classes."""
        owner = "FunctionalGradient"
        check_choice(owner, "loss", self.loss, ("auto", *_LOSSES))
        check_choice(owner, "target", self.target, ("gradient", "labels"))
        check_number(owner, "learning_rate", self.learning_rate, 0, 2, open_low=True, open_high=True)
        check_number(owner, "min_cosine", self.min_cosine, 0, 1, open_high=True)
        check_integer(owner, "retries", self.retries, 0)
        check_choice(owner, "on_failure", self.on_failure, ("stop", "warn"))
        if self.loss == "sigmoid" and n_classes != 2:
            raise ParameterError(
                f'FunctionalGradient(loss="sigmoid") is for two classes; got {n_classes}. Use loss="softmax".'
            )

    def task(self, importance: torch.Tensor, scores: torch.Tensor, problem: Problem) -> WeakTask:
        """Ask for the negative gradient, or for the labels weighted by its size."""
        loss = self.loss_for(problem.n_classes)
        train, val = problem.train, problem.validation
        residuals = loss.residuals(scores[train.rows], train.targets)
        if self.target == "labels":
            # The rounds' importance is in the gradient; a tiny floor keeps a fitted row from
            # dividing zero by zero.
            sizes = train.weights * residuals.abs().sum(dim=1).clamp_min(1e-300)
            return label_task(normalized(sizes), problem)
        return WeakTask(
            rows=train.rows,
            targets=residuals,
            weights=train.weights,
            n_outputs=residuals.shape[1],
            val_rows=None if val is None else val.rows,
            val_targets=None if val is None else loss.residuals(scores[val.rows], val.targets),
        )

    def direction(self, output: torch.Tensor, n_classes: int) -> torch.Tensor:
        """Point where the learner points, or at the classes it votes for."""
        if self.target == "gradient":
            return output
        return self._columns(class_codes(output.argmax(dim=1), n_classes, like=output), n_classes)

    @property
    def votes_for_one_class(self) -> bool:
        """Whether learners fit the labels."""
        return self.target == "labels"

    def soft_direction(self, output: torch.Tensor, n_classes: int) -> torch.Tensor:
        """Point where the learner points, or at every class as far as it is believed in."""
        if self.target == "gradient":
            return output
        return self._columns(average_codes(output, n_classes), n_classes)

    def _columns(self, codes: torch.Tensor, n_classes: int) -> torch.Tensor:
        return codes[:, -self.loss_for(n_classes).n_outputs(n_classes) :]  # sigmoid: the last column

    def vote(self, direction: torch.Tensor, task: WeakTask, scores: torch.Tensor, problem: Problem) -> Vote:
        """Return the step 1/(A alpha), or refuse a learner that fails the condition."""
        loss = self.loss_for(problem.n_classes)
        quality = direction_quality(direction, scores, problem, loss)
        error = _weighted_error(direction, scores, problem, loss)
        if quality.gradient_norm == 0:
            return Vote(0.0, direction, error, StopReason.GRADIENT_VANISHED)
        if quality.alpha is None or quality.cosine < self.min_cosine:
            return Vote(0.0, direction, error, StopReason.WEAK_LEARNING_FAILED)
        eta = self.learning_rate / (loss.smoothness * quality.alpha)
        return Vote(eta, direction, error, None if eta > 0 else StopReason.GRADIENT_VANISHED)

    def advance(self, importance: torch.Tensor, vote: Vote, problem: Problem) -> torch.Tensor:
        """Remember nothing: the scores say what is left to do."""
        return importance

    @property
    def max_attempts(self) -> int:
        """One try and the retries."""
        return 1 + self.retries

    @property
    def adds_outputs(self) -> bool:
        """Whether learners fit the gradient: those that fit labels vote for classes instead."""
        return self.target == "gradient"

    def settle(self, vote: Vote) -> Vote:
        """Go on without this round's learner when asked to warn; otherwise the refusal stands."""
        if vote.refusal is StopReason.WEAK_LEARNING_FAILED and self.on_failure == "warn":
            warnings.warn(
                f"no learner met the weak learning condition in {self.max_attempts} attempts; "
                "this round adds nothing.",
                GBGNNWarning,
                stacklevel=2,
            )
            return replace(vote, eta=0.0, refusal=None)
        return vote


def _weighted_error(direction: torch.Tensor, scores: torch.Tensor, problem: Problem, loss: Loss) -> float:
    """Return the share, by size of gradient, of the labelled nodes that the direction gets wrong."""
    train = problem.train
    sizes = loss.residuals(scores[train.rows], train.targets).abs().sum(dim=1) * train.weights
    wrong = loss.predict(direction[train.rows]) != train.targets
    return float((sizes * wrong).sum() / sizes.sum()) if float(sizes.sum()) > 0 else 0.0
