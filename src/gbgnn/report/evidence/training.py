"""How training went: what was measured of every round, member by member where there are several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gbgnn.report.subject import Subject

Curve = list[float | None]


@dataclass(frozen=True)
class Course:
    """The rounds of one model: their numbers, and curves by the names of the history.

    ``best`` is the round that predicts, None where that is not one of these.
    """

    name: str
    rounds: list[int]
    curves: Mapping[str, Curve]
    metric: str
    best: int | None = None

    @property
    def n_rounds(self) -> int:
        """How many there are."""
        return len(self.rounds)

    def has(self, *names: str) -> bool:
        """Return whether anything was measured under one of these names."""
        return any(value is not None for name in names for value in self.curves.get(name, ()))


@dataclass(frozen=True)
class Training:
    """All models of a run with their rounds, the epochs of fine-tuning, and what was tried."""

    courses: Sequence[Course]
    epochs: Course | None = None
    tuned: Mapping[str, Any] | None = None
    leaderboard: Sequence[Mapping[str, Any]] = ()


def follow_training(subject: Subject) -> Training:
    """Return what was measured while a model was trained."""
    model = subject.model
    members = getattr(model, "members", None)
    if members is not None:
        courses = [_course(f"{i}: {own.name}", own.model) for i, own in enumerate(members, start=1)]
        return Training(courses, leaderboard=getattr(model, "leaderboard", ()))
    tuning = getattr(model, "fine_tuning", None)
    epochs = None
    if tuning is not None:
        rows = tuning["history"]
        epochs = Course("fine-tuning", [i + 1 for i in range(len(rows))], _columns(rows), model.metric.name)
    return Training([_course("", model)], epochs, tuning)


def _course(name: str, model: Any) -> Course:
    rows = list(model.history_rows)
    return Course(name, [row["round"] for row in rows], _columns(rows), model.metric.name, model.best_round)


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, Curve]:
    """Return the columns of numbers, by name."""
    names = [key for key in (rows[0] if rows else ()) if key != "round"]
    columns = {name: [row.get(name) for row in rows] for name in names}
    return {
        name: values
        for name, values in columns.items()
        if all(value is None or isinstance(value, (int, float)) for value in values)
    }
