"""Bounds of the error on unlabelled nodes, every term by itself."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any


@dataclass(frozen=True)
class GeneralisationBound:
    r"""``test error <= training + sum(complexities) + partition + deviation``, with the asked confidence.

    Parameters
    ----------
    training
        Share of the labelled nodes within the margin ``delta``.
    complexities
        What each round may contribute by chance: its step times the Rademacher complexity of what it chose
        from (divided by twice the margin in the corrected form).
    partition
        The price of seeing one random choice of labelled nodes, :math:`c_0 Q \sqrt{\min(M, U)}`.
    deviation
        The price of the confidence.
    delta, confidence, form, steps
        What was asked for.
    label
        The class that is told from the rest; None where the bound is of the whole prediction.
    per_class
        Of several classes, one bound each. The sum of their errors bounds the error of the prediction.
    notes
        What the number rests on.
    """

    training: float
    complexities: tuple[float, ...]
    partition: float
    deviation: float
    delta: float
    confidence: float
    form: str
    steps: str
    label: Any = None
    per_class: tuple[GeneralisationBound, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def complexity(self) -> float:
        """The complexities, summed over the rounds."""
        return math.fsum(self.complexities)

    @property
    def total(self) -> float:
        """The bound of the test error."""
        return self.training + self.complexity + self.partition + self.deviation

    @property
    def is_vacuous(self) -> bool:
        """Whether the bound says nothing, because every error is at most 1."""
        return self.total >= 1

    def to_dict(self) -> dict[str, Any]:
        """Return everything, JSON-ready."""
        return {
            **asdict(self),
            "complexity": self.complexity,
            "total": self.total,
            "is_vacuous": self.is_vacuous,
            "per_class": [part.to_dict() for part in self.per_class],
        }

    def __str__(self) -> str:
        verdict = "vacuous: it says nothing" if self.is_vacuous else "it says something"
        lines = [
            f"test error <= {self.total:.4g} with confidence {self.confidence:g} ({verdict})",
            f"  training, margin {self.delta:g}   {self.training:.4g}",
            f"  complexity of {len(self.complexities)} rounds   {self.complexity:.4g}",
            f"  partition               {self.partition:.4g}",
            f"  deviation               {self.deviation:.4g}",
        ]
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])


def sum_of_classes(
    parts: tuple[GeneralisationBound, ...], confidence: float, notes: tuple[str, ...]
) -> GeneralisationBound:
    """Bound the error of the largest score by the errors of telling each class from the rest.

    Where every score has the right sign, positive for its class and negative for the others, the largest is
    the right one; so a wrong prediction is an error of some class.
    """
    return replace(
        parts[0],
        training=math.fsum(part.training for part in parts),
        complexities=tuple(map(math.fsum, zip(*(part.complexities for part in parts), strict=True))),
        partition=math.fsum(part.partition for part in parts),
        deviation=math.fsum(part.deviation for part in parts),
        confidence=confidence,
        label=None,
        per_class=parts,
        notes=notes,
    )
