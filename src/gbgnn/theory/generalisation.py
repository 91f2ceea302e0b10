"""Bounds of the error on unlabelled nodes, every term by itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate
from statistics import linear_regression
from typing import Any

# What a DepthBound says beside its rounds.
_REPORTED = (
    *("partition", "deviation", "imbalance", "delta", "confidence", "form"),
    *("gamma_exponent", "decay", "conditions_hold", "best_depth", "is_vacuous"),
)


@dataclass(frozen=True)
class GeneralisationBound:
    """``test error <= training + sum(complexities) + partition + deviation + imbalance``.

    It holds with the asked confidence where the labelled nodes were drawn as is assumed.
    """

    # The mean ramp of the labelled nodes, from 1 at the wrong sign to 0 at the margin; in the older forms the
    # share of them within the margin.
    training: float
    # What each round may contribute by chance: its step times the Rademacher complexity of what it chose from
    # divided by twice the margin (not as printed). In the sharp form of all classes, with the factor 1/c.
    complexities: tuple[float, ...]
    deviation: float  # the price of the confidence
    # What was asked for.
    delta: float
    confidence: float
    form: str
    steps: str
    partition: float = 0.0  # c_0 Q sqrt(min(M, U)), which the older forms pay and the sharp one does not
    imbalance: float = 0.0  # the price of strata that were not all labelled by the same share
    label: Any = None  # the class that is told from the rest; None: the bound is of the whole prediction
    # Of several classes, one bound each. The sum of their errors bounds the error of the prediction.
    per_class: tuple[GeneralisationBound, ...] = ()
    assumption_holds: bool | None = None  # whether labelled nodes were drawn as is assumed; None: not known
    notes: tuple[str, ...] = ()  # what the number rests on

    @property
    def complexity(self) -> float:
        """The complexities, summed over the rounds."""
        return math.fsum(self.complexities)

    @property
    def total(self) -> float:
        """The bound of the test error."""
        return self.training + self.complexity + self.partition + self.deviation + self.imbalance

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
            *([f"  partition               {self.partition:.4g}"] if self.partition else []),
            f"  deviation               {self.deviation:.4g}",
            *([f"  imbalance of strata     {self.imbalance:.4g}"] if self.imbalance else []),
        ]
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])


def sum_of_classes(
    parts: tuple[GeneralisationBound, ...], confidence: float, notes: tuple[str, ...]
) -> GeneralisationBound:
    """Bound the error of the largest score by the errors of telling each class from the rest.

    Where every score has the right sign, positive for its class and negative for the others, the largest is
    the right one; so a wrong prediction is an error of some class.
    """
    terms = ("training", "partition", "deviation")
    sums: dict[str, Any] = {name: math.fsum(getattr(part, name) for part in parts) for name in terms}
    return replace(
        parts[0],
        **sums,
        complexities=tuple(map(math.fsum, zip(*(part.complexities for part in parts), strict=True))),
        confidence=confidence,
        label=None,
        per_class=parts,
        notes=notes,
    )


@dataclass(frozen=True)
class DepthBound:
    r"""The test-error bound of a model stopped after each round T, term by term.

    .. math:: R_{test} \le \kappa(\delta) \sqrt{2 A L_1 / \Gamma_T}
              + \frac{1}{2\delta c} \sum_{t \le T} \frac{\mathfrak{R}(\mathcal{F}_t)}{A \alpha_t}
              + \sqrt{\tfrac{SQ}{2} \log \tfrac{1}{\delta'}}

    The first term falls with depth when :math:`\Gamma_T` grows like a power of T; the second stays bounded
    when its summands decay geometrically. Both can be looked at on a finite run, not proved by it.
    """

    gamma_totals: tuple[float, ...]  # Gamma_T, per round
    training: tuple[float, ...]  # the first term; infinite after round 1 and where a round was not certified
    increments: tuple[float, ...]  # the summands of the second term
    # The terms that do not change with depth.
    partition: float
    deviation: float
    # What was asked for.
    delta: float
    confidence: float
    form: str
    imbalance: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def complexity(self) -> tuple[float, ...]:
        """The second term, per round."""
        return tuple(accumulate(self.increments))

    @property
    def totals(self) -> tuple[float, ...]:
        """The bound, per round."""
        fixed = self.partition + self.deviation + self.imbalance
        return tuple(a + b + fixed for a, b in zip(self.training, self.complexity, strict=True))

    @property
    def is_vacuous(self) -> bool:
        """Whether the bound says nothing at any depth."""
        return min(self.totals) >= 1

    @property
    def best_depth(self) -> int:
        """The depth with the smallest bound, the first among equals."""
        return 1 + self.totals.index(min(self.totals))

    @property
    def gamma_exponent(self) -> float | None:
        r"""The exponent fitted to :math:`\Gamma_T \propto T^\varepsilon`; above 0 the first term falls.

        None on fewer than three rounds with a positive :math:`\Gamma_T`.
        """
        return _slope([math.log(T) for T in range(1, len(self.gamma_totals) + 1)], self.gamma_totals)

    @property
    def decay(self) -> float | None:
        """The fitted ratio of the second term's summands to those before; below 1 their sum is bounded."""
        slope = _slope(list(range(len(self.increments))), self.increments)
        return None if slope is None else math.exp(slope)

    @property
    def conditions_hold(self) -> bool:
        """Whether both conditions hold on this run: Gamma grows like a power, the summands decay."""
        exponent, decay = self.gamma_exponent, self.decay
        return exponent is not None and exponent > 0 and decay is not None and decay < 1

    @property
    def falls(self) -> bool:
        """Whether the bound was at its smallest at full depth."""
        return self.best_depth == len(self.totals)

    def to_dict(self) -> dict[str, Any]:
        """Return everything, JSON-ready (None is infinite)."""
        names = ("gamma_total", "training", "complexity", "total")
        rounds: list[dict[str, Any]] = []
        for row in zip(self.gamma_totals, self.training, self.complexity, self.totals, strict=True):
            told = {k: v if math.isfinite(v) else None for k, v in zip(names, row, strict=True)}
            rounds.append({"round": 1 + len(rounds), **told})
        facts = {name: getattr(self, name) for name in _REPORTED}
        return {"rounds": rounds, **facts, "notes": list(self.notes)}


def _slope(x: Sequence[float], values: Sequence[float]) -> float | None:
    """Return the least-squares slope of log(value) over x, of the positive values."""
    points = [(a, math.log(b)) for a, b in zip(x, values, strict=True) if b > 0]
    if len(points) < 3:
        return None
    return linear_regression(*zip(*points, strict=True)).slope
