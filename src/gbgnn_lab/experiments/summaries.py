"""What recorded runs come to: means in percent, and sentences on how and where they were made."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any, TypeVar

from gbgnn_lab.experiments.records import Record

_SPACES = {
    "paper": "the paper's space",
    "default": "the narrower default space",
    "quick": "a space of small models",
}
_SHOWN = ("gbgnn", "torch", "optuna", "torch_geometric")

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class Summary:
    """Mean, and sample standard deviation (None for a single run)."""

    mean: float
    std: float | None

    def __str__(self) -> str:
        return f"{self.mean:.1f}" if self.std is None else f"{self.mean:.1f} ± {self.std:.1f}"


def summarize(records: Iterable[Record], result: str = "test_accuracy") -> Summary | None:
    """Return the summary of a result of the runs that have one, in percent; None where none has."""
    values = [100 * record.results[result] for record in records if record.results.get(result) is not None]
    if not values:
        return None
    return Summary(fmean(values), stdev(values) if len(values) > 1 else None)


def group_records(records: Iterable[Record], key: Callable[[Record], K]) -> dict[K, list[Record]]:
    """Return the records by key, in the order in which keys first come."""
    groups: dict[K, list[Record]] = {}
    for record in records:
        groups.setdefault(key(record), []).append(record)
    return groups


def sort_names(names: Iterable[str], known: Iterable[str]) -> list[str]:
    """Return each name once: the known ones in their order, then the others by the alphabet."""
    place = {name: i for i, name in enumerate(known)}
    return sorted(set(names), key=lambda name: (place.get(name, len(place)), name))


def describe_failures(records: Iterable[Record], where: str = "") -> list[str]:
    """Return why runs failed, each reason once, with how often."""
    reasons = group_records((r for r in records if r.failure is not None), lambda record: str(record.failure))
    start = f"Failed, {where}: " if where else "Failed, "
    return [f"{start}{count_noun(len(found), 'run')}: {reason}" for reason, found in reasons.items()]


def best_settings(records: Iterable[Record]) -> dict[str, Any] | None:
    """Return the settings of the search with the best validation accuracy, the first among equals."""
    judged = [record for record in records if record.failure is None]
    if not judged:
        return None
    return dict(max(judged, key=lambda record: float(record.results["search_accuracy"])).settings)


def describe_protocol(protocol: Mapping[str, Any], n_runs: int) -> str:
    """Return a recorded protocol in a sentence."""
    seeds = "" if protocol["seeds_per_trial"] == 1 else f" with {protocol['seeds_per_trial']} seeds each"
    at_once = "" if protocol["population"] is None else f", {protocol['population']} at a time"
    trials = f"{count_noun(protocol['trials'], 'trial')}{seeds}"
    said = (
        f"{count_noun(n_runs, 'run')}, each a search of {trials} (TPE, median stopping{at_once}) in "
        f"{_SPACES[protocol['space']]}"
    )
    if protocol["confirm"]:
        said += (
            f"; the best {protocol['confirm']} were trained again with five other seeds, and the settings "
            "and number of rounds with the best mean validation accuracy taken"
        )
    return f"{said}."


def describe_fine_tuning(protocol: Mapping[str, Any]) -> str | None:
    """Return what a protocol says of fine-tuning in a sentence, or None where it says nothing."""
    if "tune_trials" not in protocol:
        return None
    n_best = protocol["finalists"]
    start = "model of the best trial" if n_best == 1 else f"models of the {n_best} best trials"
    return f"Fine-tuning (FT): from the {start}, a search of {count_noun(protocol['tune_trials'], 'trial')}."


def describe_origin(records: Sequence[Record]) -> list[str]:
    """Return machines, versions, dates, time and commands of recorded runs, in sentences."""
    stamps = [record.environment for record in records if record.environment]
    if not stamps:
        return []
    machines = _list_unique(_describe_machine(stamp["machine"]) for stamp in stamps)
    versions = _list_unique(_describe_versions(stamp["versions"]) for stamp in stamps)
    dates = sorted({stamp["date"] for stamp in stamps})
    days = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    spent = format_duration(sum(record.seconds for record in records))
    commands = [f"`{command}`" for command in _list_unique(stamp["command"] for stamp in stamps)]
    return [
        f"Made on {' and on '.join(machines)}, with {' and with '.join(versions)}; {days}; {spent} of runs.",
        f"Command{'s' if len(commands) > 1 else ''}: {', '.join(commands)}",
    ]


def format_duration(seconds: float) -> str:
    """Return a time in the unit that suits it."""
    for size, unit in ((3600, "hours"), (60, "minutes")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} seconds"


def count_noun(n: int, noun: str) -> str:
    """Return a count with its noun."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def _describe_machine(machine: Mapping[str, Any]) -> str:
    threads = machine.get("threads", machine["cores"])
    used = "" if threads == machine["cores"] else f" ({count_noun(threads, 'thread')} used)"
    words = [machine["cpu"], count_noun(machine["cores"], "core") + used, machine["gpu"]]
    return ", ".join(word for word in words if word)


def _describe_versions(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {versions[name]}" for name in _SHOWN if name in versions)


def _list_unique(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(words))
