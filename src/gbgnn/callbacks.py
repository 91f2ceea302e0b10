"""Callbacks: looking on while a model is boosted and fine-tuned, and asking boosting to stop."""

from __future__ import annotations

import logging
import os
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from gbgnn._checks import as_seconds, check_integer, check_number
from gbgnn.boosting import Ensemble, History, StopReason
from gbgnn.boosting.history import Row
from gbgnn.boosting.selection import validation_key
from gbgnn.errors import GBGNNWarning, ParameterError
from gbgnn.finetuning.loop import EpochReport as EpochReport
from gbgnn.finetuning.loop import FineTuningReport as FineTuningReport
from gbgnn.model import FittedModel
from gbgnn.persistence import save
from gbgnn.problem import Problem

if TYPE_CHECKING:
    from gbgnn.cli.screen import Progress

_LOGGER = logging.getLogger("gbgnn")
_SHARE = 0.02
"""The most of the time that writing may take, when it goes by seconds."""


@dataclass(frozen=True, eq=False)
class StartReport:
    """What is known before round 1; ``n_known`` rounds will only be replayed.

    Where several models are tried, ``candidate`` says which one this is.
    """

    problem: Problem
    n_rounds: int
    n_known: int = 0
    candidate: str | None = None


@dataclass(frozen=True, eq=False)
class RoundReport:
    """What is known after a round; the tensors are the loop's own and must not be changed."""

    model: FittedModel  # as it is now: it predicts, and can be saved
    n_rounds: int  # the most there will be
    scores: torch.Tensor  # of all nodes after this round

    @property
    def t(self) -> int:
        """The round's number."""
        return len(self.model.ensemble)

    @property
    def ensemble(self) -> Ensemble:
        """The rounds so far."""
        return self.model.ensemble

    @property
    def history(self) -> History:
        """What was measured of them."""
        return self.model.history

    @property
    def row(self) -> Row:
        """The history's newest row."""
        return self.history.rows[-1]

    @property
    def validation_score(self) -> float | None:
        """The metric on the validation nodes after this round; None without such nodes."""
        value: float | None = self.row[f"val_{self.history.metric}"]
        return value

    @property
    def validation_key(self) -> tuple[float, float]:
        """How good this round is on the validation nodes: rounds are ordered by it."""
        return validation_key(self.row, self.history.metric)


class Callback:
    """Base of all callbacks; every method is optional.

    State of a run is set in ``on_start``, so that one object serves many fits. Stopping is a return
    value, never an exception::

        class StopAtPerfection(Callback):
            def on_round(self, report):
                return StopReason.REQUESTED if report.row["train_accuracy"] == 1 else None
    """

    def on_start(self, start: StartReport) -> None:
        """Look at the problem, once, before round 1."""

    def on_round(self, report: RoundReport) -> StopReason | None:
        """Look at a round that was just added; return a reason to end boosting here.

        A model that is given up, by ``StopReason.PRUNED``, is not fine-tuned either.
        """
        return None

    def on_end(self, model: FittedModel) -> None:
        """Look at the boosted model, once, after the last round."""

    def on_epoch(self, report: EpochReport) -> None:
        """Look at an epoch of fine-tuning that just ended; first, as epoch 0, at the boosted model."""

    def on_fine_tuned(self, report: FineTuningReport) -> None:
        """Look at what fine-tuning did, once, when the estimator has the model that is kept."""


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


@dataclass(eq=False)
class EarlyStopping(Callback):
    """Stop after ``n_iter_no_change`` rounds without a better metric on the validation nodes.

    Of two rounds with the same metric, the one with the lower validation loss is the better.
    """

    n_iter_no_change: int = 10

    def on_start(self, start: StartReport) -> None:
        """Check that there is something to watch."""
        check_integer("GBGNNClassifier", "n_iter_no_change", self.n_iter_no_change, 1)
        if start.problem.validation is None:
            raise ParameterError(
                "n_iter_no_change stops on validation nodes, but there are none; pass "
                "validation=(nodes, y) or validation_fraction."
            )
        self._best_key: tuple[float, float] | None = None
        self._best_t = 0

    def on_round(self, report: RoundReport) -> StopReason | None:
        """Stop when the best round is too long ago."""
        if self._best_key is None or report.validation_key > self._best_key:
            self._best_key, self._best_t = report.validation_key, report.t
        too_long = report.t - self._best_t >= self.n_iter_no_change
        return StopReason.NO_IMPROVEMENT if too_long else None


@dataclass(eq=False)
class TimeLimit(Callback):
    """End boosting with the first round that ends after ``deadline``, by :func:`time.monotonic`.

    At least one round is trained, and a round that has begun is finished.
    """

    deadline: float

    def on_round(self, report: RoundReport) -> StopReason | None:
        """Stop when the time is up."""
        return StopReason.TIME_IS_UP if time.monotonic() >= self.deadline else None


@dataclass(eq=False)
class LogProgress(Callback):
    """Log a line every so often, through :mod:`logging`; what ``verbose`` turns on."""

    every: int = 1  # rounds, or epochs of fine-tuning, between two lines; the last one always has a line

    def on_start(self, start: StartReport) -> None:
        """Start the clock, and see that the lines reach a screen when logging is not set up."""
        check_integer("LogProgress", "every", self.every, 1)
        self._started = time.perf_counter()
        if not _LOGGER.hasHandlers():
            _LOGGER.addHandler(logging.StreamHandler())
        if _LOGGER.getEffectiveLevel() > logging.INFO:
            _LOGGER.setLevel(logging.INFO)
        if start.candidate is not None:
            _LOGGER.info("%s", start.candidate)

    def on_round(self, report: RoundReport) -> StopReason | None:
        """Log the newest row."""
        self._log("round", report.t, report.n_rounds, _describe(report.row, report.history.metric))
        return None

    def on_epoch(self, report: EpochReport) -> None:
        """Log the epoch's row."""
        self._log("epoch", report.epoch, report.n_epochs, _describe(report.row, report.metric))

    def on_fine_tuned(self, report: FineTuningReport) -> None:
        """Log what came of it."""
        _LOGGER.info("%s", report)

    def _log(self, noun: str, done: int, most: int, words: str) -> None:
        if done % self.every == 0 or done == most:
            seconds = time.perf_counter() - self._started
            _LOGGER.info("%s %d/%d  %s  %.1f s", noun, done, most, words, seconds)


class ShowProgress(Callback):
    """Tell the command's counter how the rounds of a fit go, and then the epochs of fine-tuning."""

    def __init__(self, counter: Progress) -> None:
        self._counter = counter

    def on_start(self, start: StartReport) -> None:
        """Count the rounds; those that are only replayed are no news."""
        self._n_known = start.n_known
        noun = "round" if start.candidate is None else f"{start.candidate}: round"
        self._counter.begin(noun, start.n_rounds, start.n_known)

    def on_round(self, report: RoundReport) -> StopReason | None:
        """Show the numbers of a new round."""
        if report.t > self._n_known:
            self._counter.update(report.t, _describe(report.row, report.history.metric))
        return None

    def on_end(self, model: FittedModel) -> None:
        """Show that all rounds are there: boosting may have stopped early, or had no new one."""
        self._counter.update(len(model.ensemble), total=len(model.ensemble))

    def on_epoch(self, report: EpochReport) -> None:
        """Show the numbers of an epoch."""
        if report.epoch == 0:
            self._counter.begin("epoch", report.n_epochs)
        self._counter.update(report.epoch, _describe(report.row, report.metric))

    def on_fine_tuned(self, report: FineTuningReport) -> None:
        """Show that all epochs are there."""
        self._counter.update(report.epochs, total=report.epochs)


def list_callbacks(model: Any, deadline: float | None = None) -> list[Callback]:
    """Return the callbacks of an estimator, and those that its settings stand for."""
    found: list[Callback] = list(model.callbacks)
    if model.n_iter_no_change is not None:
        found.append(EarlyStopping(model.n_iter_no_change))
    if deadline is not None:
        found.append(TimeLimit(deadline))
    if model.verbose:
        found.append(LogProgress(model.verbose))
    return found


def find_deadline(model: Any) -> float | None:
    """Return when the time of a fit that begins now is up, by :func:`time.monotonic`; None without limit."""
    if model.time_limit is None:
        return None
    return time.monotonic() + as_seconds(type(model).__name__, "time_limit", model.time_limit)


def announce(callbacks: Sequence[Callback], event: str, report: Any) -> StopReason | None:
    """Tell every callback of an event, by the name of its method; return the first wish to stop."""
    wishes = [getattr(callback, event)(report) for callback in callbacks]
    return next((wish for wish in wishes if wish is not None), None)


def _describe(row: Row, metric: str) -> str:
    """Return what a round or an epoch has of loss, metric and cosine, in a few words."""
    name = "acc" if metric == "accuracy" else metric
    words = {"loss": "train_loss", name: f"train_{metric}", f"val {name}": f"val_{metric}", "cos": "cosine"}
    known = {word: row[column] for word, column in words.items() if row.get(column) is not None}
    return "  ".join(f"{word} {value:{'.4f' if word == 'loss' else '.3f'}}" for word, value in known.items())
