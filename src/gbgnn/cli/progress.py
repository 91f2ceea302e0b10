"""Progress of a fit: a bar on a terminal, a few plain lines elsewhere, always on stderr."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gbgnn.callbacks import Callback, EpochReport, RoundReport, StartReport, TuningReport
from gbgnn.cli import screen
from gbgnn.model import FittedModel

if TYPE_CHECKING:
    from rich.progress import Progress

N_LINES = 10


@contextmanager
def watching(*, quiet: bool) -> Iterator[list[Callback]]:
    """Give the callbacks that show a fit's progress, and clear up after them."""
    console = screen.console(stderr=True)
    if quiet:
        yield []
    elif not console.is_terminal:
        yield [Lines()]
    else:
        with screen.bar(console) as progress:
            yield [Bar(progress)]


class Bar(Callback):
    """Moves a bar of rounds, then one of epochs, and renews the numbers beside them."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def on_start(self, start: StartReport) -> None:
        """Draw the empty bar."""
        self._task = self._progress.add_task("round", total=start.n_rounds, numbers="")

    def on_round(self, report: RoundReport) -> None:
        """Move on."""
        self._progress.update(
            self._task, completed=report.t, numbers=describe(report.row, report.history.metric)
        )

    def on_end(self, model: FittedModel) -> None:
        """Fill the bar: boosting may have stopped early, or had no new round to tell of."""
        n_rounds = len(model.ensemble)
        self._progress.update(self._task, completed=n_rounds, total=n_rounds)

    def on_epoch(self, report: EpochReport) -> None:
        """Draw the second bar, or move it on."""
        if report.epoch == 0:
            self._task = self._progress.add_task("epoch", total=report.n_epochs, numbers="")
        self._progress.update(
            self._task, completed=report.epoch, numbers=describe_epoch(report.row, report.metric)
        )

    def on_tuned(self, report: TuningReport) -> None:
        """Fill the second bar."""
        self._progress.update(self._task, total=report.epochs)


class Lines(Callback):
    """Writes about ten lines on the rounds, and as many on the epochs."""

    def on_start(self, start: StartReport) -> None:
        """Start the clock."""
        self._started = time.perf_counter()

    def on_round(self, report: RoundReport) -> None:
        """Write a line when another tenth of the rounds is done."""
        if report.t == 1 or is_tenth(report.t, report.n_rounds):
            self._write(f"round {report.t}/{report.n_rounds}  {describe(report.row, report.history.metric)}")

    def on_epoch(self, report: EpochReport) -> None:
        """Write a line before the first epoch, and when another tenth of them is done."""
        if report.epoch == 0 or is_tenth(report.epoch, report.n_epochs):
            self._write(
                f"epoch {report.epoch}/{report.n_epochs}  {describe_epoch(report.row, report.metric)}"
            )

    def _write(self, text: str) -> None:
        screen.note(f"{text}  {time.perf_counter() - self._started:.1f} s")


def is_tenth(done: int, most: int) -> bool:
    """Return whether another tenth is done.

    Examples
    --------
    >>> [done for done in range(1, 26) if is_tenth(done, 25)]
    [3, 5, 8, 10, 13, 15, 18, 20, 23, 25]
    """
    return done * N_LINES // most > (done - 1) * N_LINES // most


def describe(row: dict[str, Any], metric: str = "accuracy") -> str:
    """Return a round's numbers in a few words.

    Examples
    --------
    >>> describe({"train_loss": 0.5, "train_accuracy": 0.75, "val_accuracy": None, "cosine": 0.9})
    'loss 0.5000  train 0.750  cosine 0.900'
    """
    train, cosine = f"train {row[f'train_{metric}']:.3f}", f"cosine {row['cosine']:.3f}"
    return f"loss {row['train_loss']:.4f}  {train}{_validation(row, metric)}  {cosine}"


def describe_epoch(row: dict[str, Any], metric: str = "accuracy") -> str:
    """Return an epoch's numbers in a few words.

    Examples
    --------
    >>> describe_epoch({"train_loss": 0.5, "val_accuracy": 0.75})
    'loss 0.5000  val 0.750'
    """
    return f"loss {row['train_loss']:.4f}{_validation(row, metric)}"


def _validation(row: dict[str, Any], metric: str) -> str:
    value = row[f"val_{metric}"]
    return "" if value is None else f"  val {value:.3f}"
