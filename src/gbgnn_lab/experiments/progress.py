"""The progress of runs, while they are made."""

from __future__ import annotations

import sys
from collections.abc import Callable

from gbgnn_lab.experiments.records import Fields, Record

Tell = Callable[[str], None]
"""Takes a few words on how a run goes."""


def ignore(words: str) -> None:
    """Ignore a message of a run."""


class Progress:
    """Receives the progress of an experiment; this one ignores it."""

    def on_stage(self, n_done: int, n_runs: int) -> None:
        """Receive how many runs are recorded already, and how many there are."""

    def on_message(self, identity: Fields, words: str) -> None:
        """Receive a few words from a run; only where runs share this process."""

    def on_record(self, record: Record) -> None:
        """Receive a run that has ended and is recorded."""


class LineProgress(Progress):
    """Writes a line per run to stderr."""

    def __init__(self) -> None:
        self.n_done = self.n_runs = 0

    def on_stage(self, n_done: int, n_runs: int) -> None:
        """Say how many runs there are."""
        self.n_done, self.n_runs = n_done, n_runs
        if n_runs:
            self.write(f"{n_runs - n_done} runs to make, {n_done} recorded")

    def on_record(self, record: Record) -> None:
        """Say what came of a run."""
        self.n_done += 1
        self.write(f"{self.n_done}/{self.n_runs}  {describe_record(record)}")

    def write(self, line: str) -> None:
        """Write a line."""
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


def describe_record(record: Record) -> str:
    """Return a run and what came of it.

    Examples
    --------
    >>> identity = {"dataset": "cora", "variant": "adj", "hidden_layers": 2, "fine_tune": False, "run": 3}
    >>> describe_record(Record(identity, results={"val_accuracy": 0.8, "test_accuracy": 0.79}, seconds=12.3))
    'cora, adj, L = 2, run 3: val 80.0, test 79.0; 12.3 s'
    """
    if record.failure is not None:
        return f"{name_run(record.identity)}: failed: {record.failure}"
    shown = [
        f"{part} {100 * value:.1f}"
        for part in ("val", "test")
        if (value := record.results.get(f"{part}_accuracy")) is not None
    ]
    return f"{name_run(record.identity)}: {', '.join(shown) or 'done'}; {record.seconds:.1f} s"


def name_run(identity: Fields) -> str:
    """Return what a run is called.

    Examples
    --------
    >>> name_run({"dataset": "cora", "split": "public", "system": "gcn", "depth": 8, "run": 0})
    'cora, gcn, depth 8, run 0'
    """
    split = identity.get("split", "public")
    words = [identity["dataset"] + ("" if split == "public" else f" ({split})")]
    words += [identity[name] for name in ("variant", "kind", "system") if name in identity]
    if "hidden_layers" in identity:
        words.append(f"L = {identity['hidden_layers']}")
    words += ["fine-tuned"] if identity.get("fine_tune") else []
    words += [f"depth {identity['depth']}"] if "depth" in identity else []
    return ", ".join([*words, f"run {identity['run']}"])
