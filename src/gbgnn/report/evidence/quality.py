"""How good predictions are on each part of the split, and how far chance may have moved that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from gbgnn.report.subject import Answers, Part, Subject

Statistic = Callable[[NDArray[np.int64]], float]
"""A number of some rows, which may be repeated."""

CONFIDENCE = 0.95
_RESAMPLES, _ENTRIES = 1000, 2e7
NAMES = {"classes": "accuracy", "labels": "micro-F1", "numbers": "R2"}
"""By what predictions of each kind are judged."""


@dataclass(frozen=True)
class Quality:
    """The value on one part, an interval around it, and further figures by name."""

    part: str
    n_nodes: int
    value: float | None
    low: float | None
    high: float | None
    further: Mapping[str, Any] = field(default_factory=dict)


def measure_parts(subject: Subject) -> list[Quality]:
    """Return how good the predictions are on each part; of a run without its data, what was recorded."""
    if not subject.parts:
        return [_recorded(name, figures) for name, figures in subject.recorded.items()]
    return [_measure(subject.kind, part, subject.answers[part.name]) for part in subject.parts]


def share_interval(n_right: int, n_nodes: int) -> tuple[float, float]:
    """Return Wilson's interval of a share.

    Examples
    --------
    >>> [round(end, 3) for end in share_interval(83, 100)]
    [0.745, 0.891]
    """
    found = binomtest(n_right, n_nodes).proportion_ci(CONFIDENCE, method="wilson")
    return float(found.low), float(found.high)


def resampled_interval(statistic: Statistic, n_nodes: int) -> tuple[float, float] | tuple[None, None]:
    """Return the middle of what a statistic becomes on nodes drawn anew, with replacement.

    None where it cannot be computed for every draw.
    """
    if n_nodes < 2:
        return None, None
    generator = np.random.default_rng(0)
    n_draws = int(np.clip(_ENTRIES // n_nodes, 50, _RESAMPLES))
    drawn = [statistic(generator.integers(0, n_nodes, n_nodes)) for _ in range(n_draws)]
    if not np.isfinite(drawn).all():
        return None, None
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return float(low), float(high)


def _measure(kind: str, part: Part, answers: Answers) -> Quality:
    truth, predicted = part.truth, answers.predicted
    n_nodes = len(truth)
    if kind == "classes":
        n_right = int((truth == predicted).sum())
        return Quality(part.name, n_nodes, n_right / n_nodes, *share_interval(n_right, n_nodes), part.figures)

    statistic = _micro_f1(truth, predicted) if kind == "labels" else _r2(truth, predicted)
    value = statistic(np.arange(n_nodes))
    low, high = resampled_interval(statistic, n_nodes)
    return Quality(part.name, n_nodes, value if np.isfinite(value) else None, low, high, part.figures)


def _micro_f1(truth: NDArray[Any], predicted: NDArray[Any]) -> Statistic:
    """Return F1 over all entries of some rows: of what is there and what is said, how much is both."""
    both = (truth * predicted).sum(axis=1)
    either = truth.sum(axis=1) + predicted.sum(axis=1)

    def statistic(rows: NDArray[np.int64]) -> float:
        total = either[rows].sum()
        return float(2 * both[rows].sum() / total) if total else 0.0

    return statistic


def _r2(truth: NDArray[Any], predicted: NDArray[Any]) -> Statistic:
    """Return R2 of some rows, the mean over columns; NaN where a column is constant."""
    numbers = np.asarray(truth, np.float64).reshape(len(truth), -1)
    squares = (numbers - np.asarray(predicted, np.float64).reshape(numbers.shape)) ** 2

    def statistic(rows: NDArray[np.int64]) -> float:
        spread = numbers[rows].var(axis=0)
        if not spread.all():
            return float("nan")
        return float((1 - squares[rows].mean(axis=0) / spread).mean())

    return statistic


def _recorded(name: str, figures: Mapping[str, Any]) -> Quality:
    n_nodes = int(figures.get("nodes", 0))
    accuracy = figures.get("accuracy")
    if accuracy is None or not n_nodes:
        return Quality(name, n_nodes, figures.get("r2"), None, None, figures)
    return Quality(name, n_nodes, accuracy, *share_interval(round(accuracy * n_nodes), n_nodes), figures)
