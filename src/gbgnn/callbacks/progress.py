"""LogProgress: lines on how boosting and fine-tuning go."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

from gbgnn._checks import check_integer
from gbgnn.boosting import StopReason
from gbgnn.boosting.history import Row
from gbgnn.callbacks.base import Callback, RoundReport, StartReport
from gbgnn.finetuning.loop import EpochReport, FineTuningReport

_LOGGER = logging.getLogger("gbgnn")


@dataclass(eq=False)
class LogProgress(Callback):
    """Log a line every so often, through :mod:`logging`; what ``verbose`` turns on.

    Parameters
    ----------
    every
        Rounds, or epochs of fine-tuning, between two lines; the last one always has a line.
    """

    every: int = 1

    def on_start(self, start: StartReport) -> None:
        """Start the clock, and see that the lines reach a screen when logging is not set up."""
        check_integer("LogProgress", "every", self.every, 1)
        self._started = time.perf_counter()
        if not _LOGGER.hasHandlers():
            _LOGGER.addHandler(logging.StreamHandler())
        if _LOGGER.getEffectiveLevel() > logging.INFO:
            _LOGGER.setLevel(logging.INFO)

    def on_round(self, report: RoundReport) -> StopReason | None:
        """Log the newest row."""
        if self._is_due(report.t, report.n_rounds):
            numbers = describe_round(report.row, report.history.metric)
            self._log(f"round {report.t}/{report.n_rounds}  {numbers}")
        return None

    def on_epoch(self, report: EpochReport) -> None:
        """Log the epoch's row."""
        if self._is_due(report.epoch, report.n_epochs):
            numbers = describe_epoch(report.row, report.metric)
            self._log(f"epoch {report.epoch}/{report.n_epochs}  {numbers}")

    def on_fine_tuned(self, report: FineTuningReport) -> None:
        """Log what came of it."""
        _LOGGER.info("%s", report)

    def _is_due(self, done: int, most: int) -> bool:
        return done % self.every == 0 or done == most

    def _log(self, line: str) -> None:
        _LOGGER.info("%s  %.1f s", line, time.perf_counter() - self._started)


def describe_round(row: Row, metric: str = "accuracy") -> str:
    """Return a round's numbers in a few words.

    Examples
    --------
    >>> describe_round({"train_loss": 0.5, "train_accuracy": 0.75, "val_accuracy": None, "cosine": 0.9})
    'loss 0.5000  acc 0.750  cos 0.900'
    """
    train, cosine = f"{_shorten(metric)} {row[f'train_{metric}']:.3f}", f"cos {row['cosine']:.3f}"
    return f"loss {row['train_loss']:.4f}  {train}{_validation(row, metric)}  {cosine}"


def describe_epoch(row: Row, metric: str = "accuracy") -> str:
    """Return an epoch's numbers in a few words.

    Examples
    --------
    >>> describe_epoch({"train_loss": 0.5, "val_accuracy": 0.75})
    'loss 0.5000  val acc 0.750'
    """
    return f"loss {row['train_loss']:.4f}{_validation(row, metric)}"


def _validation(row: Row, metric: str) -> str:
    value = row[f"val_{metric}"]
    return "" if value is None else f"  val {_shorten(metric)} {value:.3f}"


def _shorten(metric: str) -> str:
    return "acc" if metric == "accuracy" else metric
