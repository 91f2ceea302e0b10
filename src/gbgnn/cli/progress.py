"""Progress of long work: bars on a terminal, a few plain lines elsewhere, always on stderr.

::

    with show_progress(quiet=quiet) as progress:
        progress.begin("run", total=10)
        for done in range(1, 11):
            progress.update(done, "val 0.81")
            progress.note("run 3 failed")  # stays on the screen

``begin`` again counts something else. Fits take :class:`FitProgress` as a callback.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gbgnn.callbacks import Callback, EpochReport, FineTuningReport, RoundReport, StartReport
from gbgnn.callbacks.progress import describe_epoch, describe_round
from gbgnn.cli import screen
from gbgnn.model import FittedModel

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

N_LINES = 10


class Progress:
    """Counts without a word; its subclasses show it."""

    def begin(self, noun: str, total: int, done: int = 0) -> None:
        """Count from ``done`` to ``total`` of something, such as rounds."""

    def update(self, done: int, words: str = "", total: int | None = None) -> None:
        """Set how many are done, a few words on the newest one, and another total where that has changed."""

    def note(self, message: str) -> None:
        """Show a line that stays."""


@contextmanager
def show_progress(*, quiet: bool = False, n_lines: int | None = N_LINES) -> Iterator[Progress]:
    """Give what shows progress, and clear up after it.

    Parameters
    ----------
    quiet
        Show nothing.
    n_lines
        About how many lines to write per count, where there is no terminal; None writes one for every update.
    """
    console = screen.console(stderr=True)
    if quiet:
        yield Progress()
    elif not console.is_terminal:
        yield _Lines(n_lines)
    else:
        with screen.bar(console) as bars:
            yield _Bars(bars)


class _Bars(Progress):
    def __init__(self, bars: RichProgress) -> None:
        self._bars = bars

    def begin(self, noun: str, total: int, done: int = 0) -> None:
        self._task = self._bars.add_task(noun, total=total, completed=done, numbers="", visible=total > 0)

    def update(self, done: int, words: str = "", total: int | None = None) -> None:
        if words:
            self._bars.update(self._task, numbers=screen.escape(words))
        self._bars.update(self._task, completed=done, total=total)

    def note(self, message: str) -> None:
        self._bars.console.print(message, style="yellow", markup=False, soft_wrap=True)


class _Lines(Progress):
    def __init__(self, n_lines: int | None) -> None:
        self._n_lines = n_lines
        self._started = time.perf_counter()

    def begin(self, noun: str, total: int, done: int = 0) -> None:
        self._noun, self._total, self._first = noun, total, done
        self._begun, self._is_new = time.perf_counter(), True

    def update(self, done: int, words: str = "", total: int | None = None) -> None:
        self._total = self._total if total is None else total
        if words and (self._is_new or self._is_due(done)):
            screen.note(f"{self._noun} {done}/{self._total}  {words}  {self._times(done)}")
            self._is_new = False

    def note(self, message: str) -> None:
        screen.note(message)

    def _is_due(self, done: int) -> bool:
        """Return whether another tenth is done, or whatever share makes the wanted number of lines."""
        if self._n_lines is None:
            return True
        return done * self._n_lines // self._total > (done - 1) * self._n_lines // self._total

    def _times(self, done: int) -> str:
        """Return the time since the start and, at the pace of this count, the time that is left."""
        now = time.perf_counter()
        left = (now - self._begun) / max(1, done - self._first) * (self._total - done)
        return f"{now - self._started:.1f} s" + (f", {left:.0f} s left" if left >= 1 else "")


class FitProgress(Callback):
    """Tells a :class:`Progress` how the rounds of a fit go, and then the epochs of fine-tuning."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def on_start(self, start: StartReport) -> None:
        """Count the rounds; those that are only replayed are no news."""
        self._n_known = start.n_known
        self._progress.begin("round", start.n_rounds, start.n_known)

    def on_round(self, report: RoundReport) -> None:
        """Show the numbers of a new round."""
        if report.t > self._n_known:
            self._progress.update(report.t, describe_round(report.row, report.history.metric))

    def on_end(self, model: FittedModel) -> None:
        """Show that all rounds are there: boosting may have stopped early, or had no new one."""
        self._progress.update(len(model.ensemble), total=len(model.ensemble))

    def on_epoch(self, report: EpochReport) -> None:
        """Show the numbers of an epoch."""
        if report.epoch == 0:
            self._progress.begin("epoch", report.n_epochs)
        self._progress.update(report.epoch, describe_epoch(report.row, report.metric))

    def on_fine_tuned(self, report: FineTuningReport) -> None:
        """Show that all epochs are there."""
        self._progress.update(report.epochs, total=report.epochs)
