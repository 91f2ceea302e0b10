"""What recorded runs come to: means, sentences, and reports written as Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from gbgnn._files import write_text
from gbgnn.cli.screen import counted
from gbgnn_lab.experiments.paper import Accuracy
from gbgnn_lab.experiments.records import Fields, Record

_SHOWN = ("gbgnn", "torch", "optuna", "torch_geometric")
# The signs that LaTeX takes for commands.
_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        **{sign: f"\\{sign}" for sign in "&%$#_{}"},
        "±": r"$\pm$",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": "$<$",
        ">": "$>$",
    }
)


def summarize(
    records: Iterable[Record], result: str = "test_accuracy", *, factor: float = 100.0, digits: int = 1
) -> Accuracy | None:
    """Return the summary of a result of the runs that have one, in percent; None where none has."""
    values = [factor * record.results[result] for record in records if record.results.get(result) is not None]
    if not values:
        return None
    return Accuracy(fmean(values), stdev(values) if len(values) > 1 else None, digits)


def count_failed(records: Iterable[Record]) -> int:
    """Return how many runs have failed."""
    return sum(record.failure is not None for record in records)


def tell_numbers(records: Sequence[Record]) -> Fields:
    """Return how many runs there are, how many failed, and their test accuracy, for a program."""
    summary = summarize(records)
    return {
        "runs": len(records),
        "failed": count_failed(records),
        "mean": None if summary is None else round(summary.mean, 3),
        "std": None if summary is None or summary.std is None else round(summary.std, 3),
    }


def group_records(records: Iterable[Record], *parts: str) -> dict[Any, list[Record]]:
    """Return the records by a part of their identity, or by several, in the order of the first of each."""
    groups: dict[Any, list[Record]] = {}
    for record in records:
        groups.setdefault(itemgetter(*parts)(record), []).append(record)
    return groups


def group_by_name(records: Iterable[Record], part: str, known: Iterable[str]) -> dict[str, list[Record]]:
    """Return the records by a part of their identity: the known names in their order, then the others."""
    groups = group_records(records, part)
    return {name: groups[name] for name in sort_names(groups, known)}


def sort_names(names: Iterable[str], known: Iterable[str]) -> list[str]:
    """Return each name once: the known ones in their order, then the others by the alphabet."""
    place = {name: i for i, name in enumerate(known)}
    return sorted(set(names), key=lambda name: (place.get(name, len(place)), name))


def best_settings(records: Iterable[Record], identity: Mapping[str, Any]) -> Fields | None:
    """Return the settings of the best search of an identity, the first among equals; None without any."""
    searched = [
        record
        for record in records
        if record.failure is None and all(record[part] == value for part, value in identity.items())
    ]
    best = max(searched, key=lambda record: float(record.results["search_accuracy"]), default=None)
    return None if best is None else dict(best.settings)


def describe_failures(records: Iterable[Record], where: str = "") -> list[str]:
    """Return why runs failed, each reason once, with how often."""
    reasons = Counter(record.failure for record in records if record.failure is not None)
    start = f"Failed, {where}: " if where else "Failed, "
    return [f"{start}{counted(n, 'run')}: {reason}" for reason, n in reasons.items()]


def describe_origin(records: Sequence[Record]) -> list[str]:
    """Return machines, versions, dates, time and commands of recorded runs, in sentences."""
    stamps = [record.environment for record in records if record.environment]
    if not stamps:
        return []
    machines = dict.fromkeys(_describe_machine(stamp["machine"]) for stamp in stamps)
    versions = dict.fromkeys(
        ", ".join(f"{name} {stamp['versions'][name]}" for name in _SHOWN if name in stamp["versions"])
        for stamp in stamps
    )
    dates = sorted({stamp["date"] for stamp in stamps})
    days = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    spent = format_duration(sum(record.seconds for record in records))
    commands = dict.fromkeys(f"`{stamp['command']}`" for stamp in stamps)
    return [
        f"Made on {' and on '.join(machines)}, with {' and with '.join(versions)}; {days}; {spent} of runs.",
        f"Command{'s' if len(commands) > 1 else ''}: {', '.join(commands)}",
    ]


def _describe_machine(machine: Mapping[str, Any]) -> str:
    threads = machine.get("threads", machine["cores"])
    used = "" if threads == machine["cores"] else f" ({counted(threads, 'thread')} used)"
    words = [machine["cpu"], counted(machine["cores"], "core") + used, machine["gpu"]]
    return ", ".join(word for word in words if word)


def format_duration(seconds: float) -> str:
    """Return a time in the unit that suits it."""
    for size, unit in ((3600, "hours"), (60, "minutes")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} seconds"


@dataclass(frozen=True)
class Entry:
    """A cell of a table."""

    text: str
    strong: bool = False
    mark: str = ""  # a letter that points to a note

    def markdown(self) -> str:
        """Return it for Markdown."""
        text = self.text.replace("|", "\\|")
        return (f"**{text}**" if self.strong else text) + (f" <sup>{self.mark}</sup>" if self.mark else "")

    def latex(self) -> str:
        """Return it for LaTeX."""
        text = self.text.translate(_LATEX)
        return (f"\\textbf{{{text}}}" if self.strong else text) + (f"$^{{{self.mark}}}$" if self.mark else "")


@dataclass(frozen=True)
class Table:
    """Headings and rows of entries; the first columns are text, and go left."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Entry]]
    n_left: int = 1

    def markdown(self) -> str:
        """Return it in Markdown."""
        sides = ["---" if i < self.n_left else "---:" for i in range(len(self.columns))]
        lines = [self.columns, sides, *([entry.markdown() for entry in row] for row in self.rows)]
        return "\n".join(["| " + " | ".join(line) + " |" for line in lines])

    def latex(self) -> str:
        """Return it in LaTeX, for the package booktabs."""
        sides = "l" * self.n_left + "r" * (len(self.columns) - self.n_left)
        columns = [column.translate(_LATEX) for column in self.columns]
        rows = [[entry.latex() for entry in row] for row in self.rows]
        return "\n".join(
            [
                r"\begin{table}",
                r"  \centering",
                f"  \\caption{{{self.caption.translate(_LATEX)}}}",
                f"  \\begin{{tabular}}{{{sides}}}",
                r"    \toprule",
                f"    {' & '.join(columns)} \\\\",
                r"    \midrule",
                *(f"    {' & '.join(row)} \\\\" for row in rows),
                r"    \bottomrule",
                r"  \end{tabular}",
                r"\end{table}",
            ]
        )


@dataclass(frozen=True)
class Report:
    """What an experiment has come to."""

    title: str
    tables: Sequence[Table]  # each under its caption when there are several
    notes: Sequence[str] = ()  # sentences below: what was done, by which protocol, on which machine
    data: Sequence[Fields] = ()  # a flat dictionary per number or group of numbers, for programs
    n_failed: int = 0  # how many runs have failed, and have not been made good since
    folder: Path | None = None  # where it was written, once it is
    files: tuple[Path, ...] = ()
    missing: str | None = None  # why there are no figures

    def markdown(self) -> str:
        """Return it in Markdown."""
        parts = [f"# {self.title}"]
        for table in self.tables:
            parts += [table.caption] if len(self.tables) == 1 else [f"## {table.caption}"]
            parts.append(table.markdown())
        return "\n\n".join([*parts, *self.notes]) + "\n"

    def latex(self) -> str:
        """Return it in LaTeX, notes as comments."""
        notes = [f"% {note}" for note in self.notes]
        return "\n".join([f"% {self.title}", *(table.latex() for table in self.tables), *notes]) + "\n"

    def csv(self) -> str:
        """Return the numbers as CSV."""
        names = list(dict.fromkeys(name for row in self.data for name in row))
        out = io.StringIO()
        writer = csv.DictWriter(out, names, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.data)
        return out.getvalue()

    def write(self, folder: Path) -> Report:
        """Write ``table.md``, ``table.tex`` and ``table.csv``; return the report with where they are."""
        texts = {"table.md": self.markdown(), "table.tex": self.latex(), "table.csv": self.csv()}
        for name, text in texts.items():
            write_text(folder / name, text)
        return replace(self, folder=folder, files=tuple(folder / name for name in texts))
