"""LogProgress: lines on how boosting and fine-tuning go."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

from gbgnn._checks import check_integer
from gbgnn.boosting import StopReason
from gbgnn.boosting.history import Row
from gbgnn.callbacks.base import Callback, RoundReport, StartReport
from gbgnn.finetuning.reports import EpochReport, TuningReport

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
            row, metric = report.row, report.history.metric
            _LOGGER.info(
                "round %d/%d  loss %.4f  %s %.3f%s  cos %.3f  %.1f s",
                report.t,
                report.n_rounds,
                row["train_loss"],
                _short(metric),
                row[f"train_{metric}"],
                _validation(row, metric),
                row["cosine"],
                time.perf_counter() - self._started,
            )
        return None

    def on_epoch(self, report: EpochReport) -> None:
        """Log the epoch's row."""
        if self._is_due(report.epoch, report.n_epochs):
            _LOGGER.info(
                "epoch %d/%d  loss %.4f%s  %.1f s",
                report.epoch,
                report.n_epochs,
                report.row["train_loss"],
                _validation(report.row, report.metric),
                time.perf_counter() - self._started,
            )

    def on_tuned(self, report: TuningReport) -> None:
        """Log what came of it."""
        _LOGGER.info("%s", report)

    def _is_due(self, done: int, most: int) -> bool:
        return done % self.every == 0 or done == most


def _validation(row: Row, metric: str) -> str:
    value = row[f"val_{metric}"]
    return "" if value is None else f"  val {_short(metric)} {value:.3f}"


def _short(metric: str) -> str:
    return "acc" if metric == "accuracy" else metric
