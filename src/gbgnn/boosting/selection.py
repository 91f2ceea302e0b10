"""Why boosting ends, and which round is the best so far."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

import torch

from gbgnn._checks import check_choice
from gbgnn.errors import ParameterError

SELECTIONS = ("auto", "last", "validation", "gradient")


class StopReason(StrEnum):
    """Why the loop ended, and its ``message``, the reason in words.

    Examples
    --------
    >>> StopReason.ROUNDS_EXHAUSTED.message
    'all rounds were trained'
    """

    message: str

    ROUNDS_EXHAUSTED = "rounds_exhausted", "all rounds were trained"
    NO_IMPROVEMENT = "no_improvement", "validation stopped improving"
    NO_BETTER_THAN_CHANCE = "no_better_than_chance", "a learner was no better than chance"
    WEAK_LEARNING_FAILED = "weak_learning_failed", "a learner did not point along the negative gradient"
    GRADIENT_VANISHED = "gradient_vanished", "the training loss has no gradient left"
    DIVERGED = "diverged", "a learner returned NaN or infinity"
    REQUESTED = "requested", "a callback asked for it"
    PRUNED = "pruned", "a search gave the model up"
    TIME_IS_UP = "time_is_up", "the time limit was reached"
    INTERRUPTED = "interrupted", "training was interrupted"

    def __new__(cls, value: str, message: str = "") -> Self:
        """Make a reason of its name and its sentence."""
        reason = str.__new__(cls, value)
        reason._value_, reason.message = value, message
        return reason

    @property
    def code(self) -> int:
        """A number for it, from 1, by which tensors hold reasons; 0 is none."""
        return list(StopReason).index(self) + 1

    @classmethod
    def from_code(cls, code: int) -> StopReason | None:
        """Return the reason with this number, or None for 0."""
        return list(cls)[code - 1] if code else None


@dataclass(frozen=True, eq=False)
class BestRound:
    """The round that predicts, as far as rounds are trained: its number, its scores, how good it is."""

    t: int
    scores: torch.Tensor
    key: tuple[float, ...]


def check_selection(select: str, has_validation: bool) -> None:
    """Raise when the choice of the round is unknown or needs validation nodes that are not there."""
    check_choice("GBGNNClassifier", "select", select, SELECTIONS)
    if select == "validation" and not has_validation:
        raise ParameterError(
            'select="validation" needs validation nodes; pass validation=(nodes, y) or validation_fraction.'
        )


def better_round(
    best: BestRound | None, row: dict[str, Any], scores: torch.Tensor, select: str, metric: str = "accuracy"
) -> BestRound:
    """Return the better of the best round so far and the newest, whose row and scores are given."""
    key = selection_key(row, select, metric)
    return best if best is not None and best.key >= key else BestRound(row["round"], scores, key)


def selection_key(row: dict[str, Any], select: str, metric: str) -> tuple[float, ...]:
    """Order rounds by how good they are; see ``select`` of :class:`~gbgnn.GBGNNClassifier`."""
    if select == "gradient":
        return (-row["gradient_norm"],)
    if select == "last" or row["val_loss"] is None:
        return (row["round"],)
    return validation_key(row, metric)


def validation_key(row: dict[str, Any], metric: str) -> tuple[float, float]:
    """Order rounds and epochs by their metric on the validation nodes, equals by their validation loss."""
    value: float = row[f"val_{metric}"]
    # What a metric cannot say is no better than anything: scikit-learn's may answer with NaN.
    return (-math.inf if math.isnan(value) else value, -row["val_loss"])
