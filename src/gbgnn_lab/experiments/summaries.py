"""Means and standard deviations of recorded runs, in percent."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TypeVar

from gbgnn_lab.experiments.records import Record

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class Summary:
    """Mean, sample standard deviation (None for a single run) and number of runs."""

    mean: float
    std: float | None
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Summary:
        """Summarise numbers, at least one.

        Examples
        --------
        >>> print(Summary.of([80.0, 81.0]), Summary.of([80.0]))
        80.5 ± 0.7 80.0
        """
        return cls(fmean(values), stdev(values) if len(values) > 1 else None, len(values))

    def __str__(self) -> str:
        return f"{self.mean:.1f}" if self.std is None else f"{self.mean:.1f} ± {self.std:.1f}"


def summarize(records: Iterable[Record], result: str = "test_accuracy") -> Summary | None:
    """Return the summary of a result of the runs that have one, in percent; None where none has."""
    values = [100 * record.results[result] for record in records if record.results.get(result) is not None]
    return Summary.of(values) if values else None


def grouped(records: Iterable[Record], key: Callable[[Record], K]) -> dict[K, list[Record]]:
    """Return the records by key, in the order in which keys first come."""
    groups: dict[K, list[Record]] = {}
    for record in records:
        groups.setdefault(key(record), []).append(record)
    return groups


def in_order(names: Iterable[str], known: Iterable[str]) -> list[str]:
    """Return each name once: the known ones in their order, then the others by the alphabet.

    Examples
    --------
    >>> in_order(["b", "gcn", "a", "sgc", "b"], ["sgc", "gcn", "gat"])
    ['sgc', 'gcn', 'a', 'b']
    """
    place = {name: i for i, name in enumerate(known)}
    return sorted(set(names), key=lambda name: (place.get(name, len(place)), name))


def failures(records: Iterable[Record]) -> list[str]:
    """Return why runs failed, each reason once, with how often.

    Examples
    --------
    >>> failures([Record({"run": 0}, failure="out of memory."), Record({"run": 1}, failure="out of memory.")])
    ['2 runs: out of memory.']
    """
    reasons = grouped((r for r in records if r.failure is not None), lambda record: str(record.failure))
    return [f"{len(found)} run{'s' if len(found) > 1 else ''}: {reason}" for reason, found in reasons.items()]
