"""Sentences below a table: by which protocol its numbers were made, on which machine, by which command."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gbgnn_lab.experiments.records import Record

_SPACES = {
    "paper": "the paper's space",
    "default": "the narrower default space",
    "quick": "a space of small models",
}
_SHOWN = ("gbgnn", "torch", "optuna", "torch_geometric")


def describe_protocol(protocol: Mapping[str, Any], n_runs: int) -> str:
    """Return a recorded protocol in a sentence.

    Examples
    --------
    >>> protocol = {"trials": 200, "population": 64, "seeds_per_trial": 1, "confirm": 0, "space": "paper"}
    >>> describe_protocol(protocol, 10)
    "10 runs, each a search of 200 trials (TPE, median stopping, 64 at a time) in the paper's space."
    """
    seeds = "" if protocol["seeds_per_trial"] == 1 else f" with {protocol['seeds_per_trial']} seeds each"
    at_once = "" if protocol["population"] is None else f", {protocol['population']} at a time"
    trials = f"{counted(protocol['trials'], 'trial')}{seeds}"
    said = (
        f"{counted(n_runs, 'run')}, each a search of {trials} (TPE, median stopping{at_once}) in "
        f"{_SPACES[protocol['space']]}"
    )
    if protocol["confirm"]:
        said += (
            f"; the best {protocol['confirm']} were trained again with five other seeds, and the settings "
            "and number of rounds with the best mean validation accuracy taken"
        )
    return f"{said}."


def describe_tuning(protocol: Mapping[str, Any]) -> str | None:
    """Return what a protocol says of fine-tuning in a sentence, or None where it says nothing.

    Examples
    --------
    >>> describe_tuning({"finalists": 3, "tune_trials": 50})
    'Fine-tuning (FT): from the models of the 3 best trials, a search of 50 trials.'
    """
    if "tune_trials" not in protocol:
        return None
    n_best = protocol["finalists"]
    start = "model of the best trial" if n_best == 1 else f"models of the {n_best} best trials"
    return f"Fine-tuning (FT): from the {start}, a search of {counted(protocol['tune_trials'], 'trial')}."


def origin(records: Sequence[Record]) -> list[str]:
    """Return machines, versions, dates, time and commands of recorded runs, in sentences.

    Examples
    --------
    >>> machine = {"cpu": "Abacus", "cores": 2, "gpu": None}
    >>> made = {"machine": machine, "versions": {"gbgnn": "1.0"}, "date": "2026-01-02"}
    >>> origin([Record({"run": 0}, seconds=90.0, environment=made | {"command": "gbgnn fit"})])
    ['Made on Abacus, 2 cores, with gbgnn 1.0; 2026-01-02; 1.5 minutes of runs.', 'Command: `gbgnn fit`']
    """
    stamps = [record.environment for record in records if record.environment]
    if not stamps:
        return []
    machines = _each(_machine(stamp["machine"]) for stamp in stamps)
    versions = _each(_versions(stamp["versions"]) for stamp in stamps)
    dates = sorted({stamp["date"] for stamp in stamps})
    days = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    spent = duration(sum(record.seconds for record in records))
    commands = [f"`{command}`" for command in _each(stamp["command"] for stamp in stamps)]
    return [
        f"Made on {' and on '.join(machines)}, with {' and with '.join(versions)}; {days}; {spent} of runs.",
        f"Command{'s' if len(commands) > 1 else ''}: {', '.join(commands)}",
    ]


def duration(seconds: float) -> str:
    """Return a time in the unit that suits it.

    Examples
    --------
    >>> duration(59.94), duration(90), duration(7200)
    ('59.9 seconds', '1.5 minutes', '2.0 hours')
    """
    for size, unit in ((3600, "hours"), (60, "minutes")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} seconds"


def counted(n: int, noun: str) -> str:
    """Return a count with its noun.

    Examples
    --------
    >>> counted(1, "run"), counted(1000, "trial")
    ('1 run', '1,000 trials')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def _machine(machine: Mapping[str, Any]) -> str:
    threads = machine.get("threads", machine["cores"])
    used = "" if threads == machine["cores"] else f" ({counted(threads, 'thread')} used)"
    words = [machine["cpu"], counted(machine["cores"], "core") + used, machine["gpu"]]
    return ", ".join(word for word in words if word)


def _versions(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {versions[name]}" for name in _SHOWN if name in versions)


def _each(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(words))
