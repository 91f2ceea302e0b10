"""FineTuner: the settings of fine-tuning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sklearn.base import BaseEstimator

from gbgnn._checks import check_choice, check_integer, check_number
from gbgnn._optimizers import OPTIMIZERS
from gbgnn.errors import ParameterError, suggest
from gbgnn.finetuning.network import MOVES
from gbgnn.finetuning.representations import parse_bytes
from gbgnn.learners import Learner


@dataclass(kw_only=True, eq=False, repr=False)
class FineTuner(BaseEstimator):
    """Settings of fine-tuning: gradient steps on the loss of the labelled nodes.

    Parameters
    ----------
    epochs
        Passes over the labelled nodes.
    optimizer, learning_rate, momentum
        ``"sgd"``, ``"adam"`` or ``"rmsprop"`` with its step and its momentum (Adam has none). The numbers of
        the hops take steps of ``learning_rate`` over the number of rounds, because a representation is a
        product of as many hops; the steps of the rounds are moved in proportion to their size.
    weight_decay
        L2 penalty on the learners; steps and hops have none.
    batch_size
        Labelled nodes per step, drawn without replacement; None takes all at once.
    patience
        Stop when this many epochs have brought no better metric on the validation nodes, nor an equal one
        with a lower loss; None takes all ``epochs``. Either way, where there are validation nodes the
        fine-tuned model is that of the best epoch.
    moves
        What is fine-tuned: some of ``"learners"``, ``"etas"`` (the steps of the rounds) and
        ``"aggregation"`` (the coefficients of KTA, the mixing ratios of InputInjection and Lazy; other hops
        have nothing to move).
    memory_limit
        Bytes to be used beside the model, the features and P, or text such as ``"2GB"``. Where they suffice,
        what the labelled nodes see of the graph is computed once; otherwise again and again, a few nodes at
        a time, with the same result. Arrays are counted: the process may hold some tens of megabytes more.
    keep
        ``"best"``: the better of the boosted and the fine-tuned model by the metric on the validation nodes,
        then by their loss; without validation nodes, the fine-tuned one. ``"tuned"``: that in any case.

    Examples
    --------
    >>> FineTuner(epochs=20, moves=("learners", "etas"))
    FineTuner(epochs=20, moves=('learners', 'etas'))
    """

    epochs: int = 100
    optimizer: str = "adam"
    learning_rate: float = 1e-3
    momentum: float = 0.0
    weight_decay: float = 1e-3
    batch_size: int | None = None
    patience: int | None = None
    moves: Sequence[str] = MOVES
    memory_limit: int | str = 2 * 2**30
    keep: str = "best"

    def check(self, *, has_validation: bool) -> None:
        """Raise when a setting is out of range, or needs validation nodes that are not there."""
        owner = "FineTuner"
        check_integer(owner, "epochs", self.epochs, 0)
        check_choice(owner, "optimizer", self.optimizer, OPTIMIZERS)
        check_number(owner, "learning_rate", self.learning_rate, 0, open_low=True)
        check_number(owner, "momentum", self.momentum, 0, 1, open_high=True)
        check_number(owner, "weight_decay", self.weight_decay, 0)
        check_integer(owner, "batch_size", self.batch_size, 1, optional=True)
        check_integer(owner, "patience", self.patience, 1, optional=True)
        check_choice(owner, "keep", self.keep, ("best", "tuned"))
        parse_bytes(owner, "memory_limit", self.memory_limit)
        self._check_moves()
        if self.patience is not None and not has_validation:
            raise ParameterError(
                "FineTuner.patience stops on validation nodes, but there are none; pass validation= or "
                "validation_fraction, or set patience=None."
            )

    def _check_moves(self) -> None:
        if isinstance(self.moves, str) or not self.moves or len(set(self.moves)) < len(self.moves):
            raise ParameterError(
                f"FineTuner.moves must be one or more of {', '.join(MOVES)}, each once, as a sequence such "
                f'as ("learners", "etas"); got {self.moves!r}.'
            )
        for name in self.moves:
            if name not in MOVES:
                hint = suggest(name, MOVES) if isinstance(name, str) else ""
                raise ParameterError(
                    f"FineTuner.moves must be of {', '.join(MOVES)}; got {name!r} among them.{hint}"
                )


def as_fine_tuner(value: Any) -> FineTuner | None:
    """Return the fine-tuner that ``fine_tune`` stands for: None and False are none, True the default one."""
    if value is None or value is False:
        return None
    if value is True:
        return FineTuner()
    if not isinstance(value, FineTuner):
        raise ParameterError(f"fine_tune must be None, True or a FineTuner object; got {value!r}.")
    return value


def check_fine_tuning(
    tuner: FineTuner, learner: Learner, *, keep_learners: bool, has_validation: bool
) -> None:
    """Raise, before any work is done, when fine-tuning could not work afterwards."""
    tuner.check(has_validation=has_validation)
    if not learner.is_differentiable:
        raise ParameterError(
            f"fine_tune moves learners along gradients, which {learner!r} has none of; use MLP(), or "
            "fine_tune=None."
        )
    if not keep_learners:
        raise ParameterError("fine_tune needs the fitted learners; set keep_learners=True.")
