"""Progress of a fit: a bar on a terminal, a few plain lines elsewhere, always on stderr."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gbgnn.boosting import Callback, RoundReport, StartReport
from gbgnn.cli import screen

if TYPE_CHECKING:
    from rich.progress import Progress

N_LINES = 10


@contextmanager
def watching(*, quiet: bool) -> Iterator[list[Callback]]:
    """Give the callbacks that show a fit's progress, and clear up after them."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Column

    console = screen.console(stderr=True)
    if quiet:
        yield []
    elif not console.is_terminal:
        yield [Lines()]
    else:
        columns = (
            TextColumn("round", table_column=Column(no_wrap=True)),
            MofNCompleteColumn(table_column=Column(no_wrap=True)),
            BarColumn(bar_width=min(30, max(5, console.width - 75))),
            TextColumn("{task.fields[numbers]}", table_column=Column(no_wrap=True)),
            TimeRemainingColumn(compact=True, elapsed_when_finished=True, table_column=Column(no_wrap=True)),
        )
        with Progress(*columns, console=console) as progress:
            yield [Bar(progress)]


class Bar(Callback):
    """Moves a bar and renews the numbers beside it."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def on_start(self, start: StartReport) -> None:
        """Draw the empty bar."""
        self._task = self._progress.add_task("rounds", total=start.n_rounds, numbers="")

    def on_round(self, report: RoundReport) -> None:
        """Move on."""
        self._progress.update(self._task, completed=report.t, numbers=describe(report.row))


class Lines(Callback):
    """Writes about ten lines in all."""

    def on_start(self, start: StartReport) -> None:
        """Start the clock."""
        self._started = time.perf_counter()

    def on_round(self, report: RoundReport) -> None:
        """Write a line when another tenth of the rounds is done."""
        tenth = report.t * N_LINES // report.n_rounds > (report.t - 1) * N_LINES // report.n_rounds
        if tenth or report.t == 1:
            seconds = time.perf_counter() - self._started
            screen.note(f"round {report.t}/{report.n_rounds}  {describe(report.row)}  {seconds:.1f} s")


def describe(row: dict[str, Any]) -> str:
    """Return a round's numbers in a few words.

    Examples
    --------
    >>> describe({"train_loss": 0.5, "train_accuracy": 0.75, "val_accuracy": None, "cosine": 0.9})
    'loss 0.5000  train 0.750  cosine 0.900'
    """
    val = "" if row["val_accuracy"] is None else f"  val {row['val_accuracy']:.3f}"
    return f"loss {row['train_loss']:.4f}  train {row['train_accuracy']:.3f}{val}  cosine {row['cosine']:.3f}"
