"""Checkpoint: the model on disk, every few rounds or seconds."""

from __future__ import annotations

import os
import time
import warnings
from dataclasses import dataclass

from gbgnn._checks import check_integer, check_number
from gbgnn.boosting import StopReason
from gbgnn.callbacks.base import Callback, RoundReport, StartReport
from gbgnn.errors import GBGNNWarning
from gbgnn.finetuning.loop import EpochReport
from gbgnn.persistence import save

_SHARE = 0.02
"""The most of the time that writing may take, when it goes by seconds."""


@dataclass(eq=False)
class Checkpoint(Callback):
    """Save the model every few rounds, and before it is fine-tuned, so that a killed run can go on.

    The file is replaced atomically, and holds boosted rounds, never tuned ones. To go on:
    ``gbgnn.load(path)``, ``set_params(warm_start=True)``, and ``fit`` with the same nodes, labels and
    graph; the result equals a run that was never killed. A file that cannot be written, on a full disk for
    example, is a warning, and training goes on.

    Parameters
    ----------
    path
        The model file.
    every
        Rounds between two writes; None goes by time alone.
    seconds
        Seconds between two writes, beside those by rounds; None goes by rounds alone. Where a write takes
        long, the next one is later, so that writing takes about a fiftieth of the time at most.
    """

    path: str | os.PathLike[str]
    every: int | None = 10
    seconds: float | None = None

    def on_start(self, start: StartReport) -> None:
        """Note how many rounds the file has already, and start the clock."""
        check_integer("Checkpoint", "every", self.every, 1, optional=True)
        if self.seconds is not None:
            check_number("Checkpoint", "seconds", self.seconds, 0)
        self._latest: RoundReport | None = None
        # A warm start replays known rounds first; a file of fewer rounds must not replace a newer one.
        self._n_saved = start.n_known
        self._due = time.monotonic() + (self.seconds or 0)

    def on_round(self, report: RoundReport) -> StopReason | None:
        """Save when it is time."""
        self._latest = report
        by_rounds = self.every is not None and report.t % self.every == 0
        by_time = self.seconds is not None and time.monotonic() >= self._due
        if by_rounds or by_time:
            self._save(report)
        return None

    def on_epoch(self, report: EpochReport) -> None:
        """Save the boosted rounds before the first step moves them."""
        if report.epoch == 0 and self._latest is not None:
            self._save(self._latest)

    def _save(self, report: RoundReport) -> None:
        if report.t <= self._n_saved:
            return
        started = time.monotonic()
        try:
            save(report.model, self.path)
        except OSError as error:
            reason = error.strerror or error
            message = f"the checkpoint {self.path} could not be written ({reason}); training goes on."
            warnings.warn(message, GBGNNWarning, stacklevel=2)
        else:
            self._n_saved = report.t
        ended = time.monotonic()
        self._due = ended + max(self.seconds or 0, (ended - started) / _SHARE)
