"""The bound of the test error as a function of depth, and what would make it fall."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import linear_regression
from typing import Any


@dataclass(frozen=True)
class DepthBound:
    r"""The test-error bound of a model stopped after each round T, term by term.

    .. math:: R_{test} \le \kappa(\delta) \sqrt{2 A L_1 / \Gamma_T}
              + \frac{1}{2\delta} \sum_{t \le T} \frac{\mathfrak{R}(\mathcal{F}_t)}{A \alpha_t}
              + c_0 Q \sqrt{\min(M, U)} + \sqrt{\tfrac{SQ}{2} \log \tfrac{1}{1 - c}}

    The first term falls with depth when :math:`\Gamma_T` grows like a power of T; the second stays bounded
    when its summands decay geometrically. Both can be looked at on a finite run, not proved by it.

    Parameters
    ----------
    gamma_totals
        :math:`\Gamma_T`, per round.
    training
        The first term, per round; infinite after round 1 and where a round was not certified.
    increments
        The summands of the second term, one per round.
    partition, deviation
        The two terms that do not change with depth.
    delta, confidence, form
        What was asked for.
    """

    gamma_totals: tuple[float, ...]
    training: tuple[float, ...]
    increments: tuple[float, ...]
    partition: float
    deviation: float
    delta: float
    confidence: float
    form: str

    @property
    def complexity(self) -> tuple[float, ...]:
        """The second term, per round."""
        return tuple(accumulate(self.increments))

    @property
    def totals(self) -> tuple[float, ...]:
        """The bound, per round."""
        fixed = self.partition + self.deviation
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
        columns = zip(self.gamma_totals, self.training, self.complexity, self.totals, strict=True)
        names = ("gamma_total", "training", "complexity", "total")
        return {
            "rounds": [
                {"round": t, **{k: v if math.isfinite(v) else None for k, v in zip(names, row, strict=True)}}
                for t, row in enumerate(columns, start=1)
            ],
            "partition": self.partition,
            "deviation": self.deviation,
            "delta": self.delta,
            "confidence": self.confidence,
            "form": self.form,
            "gamma_exponent": self.gamma_exponent,
            "decay": self.decay,
            "conditions_hold": self.conditions_hold,
            "best_depth": self.best_depth,
            "is_vacuous": self.is_vacuous,
        }


def _slope(x: Sequence[float], values: Sequence[float]) -> float | None:
    """Return the least-squares slope of log(value) over x, of the positive values."""
    points = [(a, math.log(b)) for a, b in zip(x, values, strict=True) if b > 0]
    if len(points) < 3:
        return None
    return linear_regression(*zip(*points, strict=True)).slope
