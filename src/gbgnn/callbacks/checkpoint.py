"""Checkpoint: the model on disk, every few rounds."""

from __future__ import annotations

import os
from dataclasses import dataclass

from gbgnn._checks import check_integer
from gbgnn.boosting import StopReason
from gbgnn.callbacks.base import Callback, RoundReport, StartReport
from gbgnn.finetuning.reports import EpochReport
from gbgnn.persistence import save


@dataclass(eq=False)
class Checkpoint(Callback):
    """Save the model every few rounds, and before it is fine-tuned, so that a killed run can go on.

    The file is replaced atomically, and holds boosted rounds, never tuned ones. To go on:
    ``gbgnn.load(path)``, ``set_params(warm_start=True)``, and ``fit`` with the same nodes, labels and
    graph; the result equals a run that was never killed.

    Parameters
    ----------
    path
        The model file.
    every
        Rounds between two writes.
    """

    path: str | os.PathLike[str]
    every: int = 10

    def on_start(self, start: StartReport) -> None:
        """Note how many rounds the file has already."""
        check_integer("Checkpoint", "every", self.every, 1)
        self._latest: RoundReport | None = None
        # A warm start replays known rounds first; a file of fewer rounds must not replace a newer one.
        self._n_saved = start.n_known

    def on_round(self, report: RoundReport) -> StopReason | None:
        """Save when it is time."""
        self._latest = report
        if report.t % self.every == 0:
            self._save(report)
        return None

    def on_epoch(self, report: EpochReport) -> None:
        """Save the boosted rounds before the first step moves them."""
        if report.epoch == 0 and self._latest is not None:
            self._save(self._latest)

    def _save(self, report: RoundReport) -> None:
        if report.t > self._n_saved:
            save(report.model, self.path)
            self._n_saved = report.t
