"""StopReason: why boosting ended, as a value that carries its own sentence."""

from __future__ import annotations

from enum import StrEnum


class StopReason(StrEnum):
    """Why the loop ended.

    Examples
    --------
    >>> StopReason.ROUNDS_EXHAUSTED.message
    'all rounds were trained'
    """

    ROUNDS_EXHAUSTED = "rounds_exhausted"
    NO_IMPROVEMENT = "no_improvement"
    NO_BETTER_THAN_CHANCE = "no_better_than_chance"
    WEAK_LEARNING_FAILED = "weak_learning_failed"
    GRADIENT_VANISHED = "gradient_vanished"
    DIVERGED = "diverged"
    REQUESTED = "requested"
    PRUNED = "pruned"
    INTERRUPTED = "interrupted"

    @property
    def message(self) -> str:
        """The reason in words."""
        return _MESSAGES[self]

    @property
    def code(self) -> int:
        """A number for it, from 1, by which tensors hold reasons; 0 is none."""
        return list(StopReason).index(self) + 1

    @classmethod
    def from_code(cls, code: int) -> StopReason | None:
        """Return the reason with this number, or None for 0."""
        return list(cls)[code - 1] if code else None


_MESSAGES = {
    StopReason.ROUNDS_EXHAUSTED: "all rounds were trained",
    StopReason.NO_IMPROVEMENT: "validation stopped improving",
    StopReason.NO_BETTER_THAN_CHANCE: "a learner was no better than chance",
    StopReason.WEAK_LEARNING_FAILED: "a learner did not point along the negative gradient",
    StopReason.GRADIENT_VANISHED: "the training loss has no gradient left",
    StopReason.DIVERGED: "a learner returned NaN or infinity",
    StopReason.REQUESTED: "a callback asked for it",
    StopReason.PRUNED: "a search gave the model up",
    StopReason.INTERRUPTED: "training was interrupted",
}
