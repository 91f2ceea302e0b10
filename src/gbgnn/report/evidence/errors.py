"""Where predictions err: which class is taken for which, how far numbers are off, label by label."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gbgnn.report.subject import Answers, Part, Subject

OTHER = "unknown in training"


@dataclass(frozen=True, eq=False)
class Confusion:
    """How many nodes of each class (rows) are taken for which (columns); all that are rare as one.

    ``names`` are those of the rows; columns have the same, but for a class that training never saw.
    """

    names: list[str]
    counts: NDArray[np.int64]

    @property
    def recall(self) -> NDArray[np.float64]:
        """The share of each class that is found; NaN of a class without nodes."""
        totals = self.counts.sum(axis=1)
        with np.errstate(invalid="ignore"):
            found: NDArray[np.float64] = np.diag(self.counts) / totals
        return found

    def worst(self) -> tuple[str, str, int] | None:
        """Return the commonest mistake: the class, what it is taken for, how often; None without any."""
        wrong = self.counts - np.diag(np.diag(self.counts))
        i, j = np.unravel_index(wrong.argmax(), wrong.shape)
        return (self.names[i], self.names[j], int(wrong[i, j])) if wrong[i, j] else None


@dataclass(frozen=True, eq=False)
class LabelQuality:
    """How one of several labels is told: on how many nodes it is, and how often that is said rightly."""

    name: str
    n_nodes: int
    n_said: int
    precision: float | None
    recall: float | None


@dataclass(frozen=True, eq=False)
class Residuals:
    """True and predicted numbers of a column, and the usual sizes of the errors."""

    name: str
    truth: NDArray[np.float64]
    predicted: NDArray[np.float64]

    @property
    def errors(self) -> NDArray[np.float64]:
        """Predicted less true."""
        return self.predicted - self.truth

    @property
    def mean_absolute(self) -> float:
        """Their mean size."""
        return float(np.abs(self.errors).mean())

    @property
    def bias(self) -> float:
        """Their mean."""
        return float(self.errors.mean())


def confuse(subject: Subject, part: Part, *, n_most: int = 25) -> Confusion:
    """Count which class is taken for which; of very many classes the commonest, the others as one."""
    answers = subject.answers[part.name]
    known = subject.model.classes
    n = len(known)
    places = [np.searchsorted(known, each).clip(max=n - 1) for each in (part.truth, answers.predicted)]
    places[0] = np.where(known[places[0]] == part.truth, places[0], n)  # a class that training never saw
    names = [*subject.titles, OTHER]
    sizes = np.bincount(places[0], minlength=n + 1)
    kept = np.flatnonzero((np.arange(n + 1) < n) | (sizes > 0))
    if len(kept) > n_most:
        most = np.sort(np.argsort(-sizes, kind="stable")[: n_most - 1])
        to = np.full(n + 1, len(most))
        to[most] = np.arange(len(most))
        names = [*(names[i] for i in most), f"{n + 1 - len(most)} rarer classes"]
    else:
        to = np.cumsum(np.isin(np.arange(n + 1), kept)) - 1
        names = [names[i] for i in kept]
    size = len(names)
    counts = np.bincount(to[places[0]] * size + to[places[1]], minlength=size * size)
    return Confusion(names, counts.reshape(size, size))


def judge_labels(subject: Subject, part: Part) -> list[LabelQuality]:
    """Return how each of several labels is told."""
    found = []
    said = subject.answers[part.name].predicted
    for name, truth, own in zip(subject.titles, part.truth.T, said.T, strict=True):
        n_right = int((truth * own).sum())
        n_is, n_said = int(truth.sum()), int(own.sum())
        found.append(
            LabelQuality(
                name, n_is, n_said, n_right / n_said if n_said else None, n_right / n_is if n_is else None
            )
        )
    return found


def compare_numbers(part: Part, answers: Answers) -> list[Residuals]:
    """Return true beside predicted numbers, column by column."""
    truth = np.asarray(part.truth, np.float64).reshape(len(part.truth), -1)
    predicted = np.asarray(answers.predicted, np.float64).reshape(len(part.truth), -1)
    names = ["y"] if truth.shape[1] == 1 else [f"y {k}" for k in range(truth.shape[1])]
    return [Residuals(*each) for each in zip(names, truth.T, predicted.T, strict=True)]
