"""Callbacks: what may look on while boosting runs, and ask it to stop."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from numpy.typing import NDArray

from gbgnn._checks import check_choice, check_integer
from gbgnn.boosting.ensemble import Ensemble
from gbgnn.boosting.history import History, Row
from gbgnn.boosting.stopping import StopReason
from gbgnn.errors import ParameterError
from gbgnn.problem import Problem


@dataclass(frozen=True, eq=False)
class StartReport:
    """What is known before round 1.

    ``model`` is the estimator that is being fitted, if one is; ``n_known`` rounds will only be replayed.
    """

    problem: Problem
    n_rounds: int
    model: Any = None
    n_known: int = 0


@dataclass(frozen=True, eq=False)
class RoundReport:
    """What is known after a round; the tensors are the loop's own and must not be changed."""

    t: int
    n_rounds: int
    ensemble: Ensemble
    scores: torch.Tensor
    history: History

    @property
    def row(self) -> Row:
        """The history's newest row."""
        newest: Row = self.history[-1]
        return newest


@dataclass(frozen=True, eq=False)
class Boosted:
    """What boosting returns: the model, the scores of all nodes, the record, why it ended."""

    ensemble: Ensemble
    scores: torch.Tensor
    history: History
    stop: StopReason


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
        """Look at a round that was just added; return a reason to end boosting here."""
        return None

    def on_end(self, result: Boosted) -> None:
        """Look at the result, once, after the last round."""


def announce_start(callbacks: Sequence[Callback], start: StartReport) -> None:
    """Tell every callback that boosting begins."""
    for callback in callbacks:
        callback.on_start(start)


def announce_round(callbacks: Sequence[Callback], report: RoundReport) -> StopReason | None:
    """Tell every callback of a round; return the first wish to stop, or that all rounds are done."""
    wishes = [callback.on_round(report) for callback in callbacks]
    done = StopReason.ROUNDS_EXHAUSTED if report.t >= report.n_rounds else None
    return next((wish for wish in wishes if wish is not None), done)


def announce_end(callbacks: Sequence[Callback], result: Boosted) -> None:
    """Tell every callback that boosting is over."""
    for callback in callbacks:
        callback.on_end(result)


@dataclass(eq=False)
class RoundSelection(Callback):
    """Remembers the best round and its scores.

    Parameters
    ----------
    select
        ``"last"``; ``"validation"``: highest validation accuracy, the lower validation loss among
        equals; ``"gradient"``: smallest gradient norm, the paper's t*; ``"auto"``: validation where
        there are validation nodes, else last.
    """

    select: str = "auto"
    best_round: int = field(default=0, init=False)
    best_scores: torch.Tensor | None = field(default=None, init=False)
    _best_key: tuple[float, ...] | None = field(default=None, init=False, repr=False)

    def check(self, has_validation: bool) -> None:
        """Raise when the choice is unknown or needs validation nodes that are not there."""
        check_choice("GBGNNClassifier", "select", self.select, SELECTIONS)
        if self.select == "validation" and not has_validation:
            raise ParameterError(
                'select="validation" needs validation nodes; pass validation=(nodes, y) or '
                "validation_fraction."
            )

    def on_start(self, start: StartReport) -> None:
        """Forget the run before."""
        self.best_round, self.best_scores, self._best_key = 0, None, None

    def on_round(self, report: RoundReport) -> StopReason | None:
        """Keep the round if it is the best so far."""
        key = self._key(report.row)
        if self._best_key is None or key > self._best_key:
            self.best_round, self.best_scores, self._best_key = report.t, report.scores, key
        return None

    def best_scores_on_cpu(self) -> NDArray[Any]:
        """Return the scores of the best round as a NumPy array."""
        assert self.best_scores is not None
        scores: NDArray[Any] = self.best_scores.cpu().numpy()
        return scores

    def _key(self, row: Row) -> tuple[float, ...]:
        if self.select == "gradient":
            return (-row["gradient_norm"],)
        if self.select == "last" or row["val_accuracy"] is None:
            return (row["round"],)
        return validation_key(row)


SELECTIONS = ("auto", "last", "validation", "gradient")


def validation_key(row: Row) -> tuple[float, float]:
    """Order rounds by validation accuracy, equals by validation loss."""
    return (row["val_accuracy"], -row["val_loss"])


@dataclass(eq=False)
class EarlyStopping(Callback):
    """Stop after ``n_iter_no_change`` rounds without a better :func:`validation_key`."""

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
        key = validation_key(report.row)
        if self._best_key is None or key > self._best_key:
            self._best_key, self._best_t = key, report.t
        too_long = report.t - self._best_t >= self.n_iter_no_change
        return StopReason.NO_IMPROVEMENT if too_long else None


@dataclass(eq=False)
class Checkpoint(Callback):
    """Save the model every few rounds, so that a killed run can go on.

    The file is replaced atomically. To go on: ``gbgnn.load(path)``, ``set_params(warm_start=True)``,
    and ``fit`` with the same nodes, labels and graph; the result equals a run that was never killed.

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
        """Remember the estimator that is being fitted."""
        check_integer("Checkpoint", "every", self.every, 1)
        if start.model is None:
            raise ParameterError(
                "Checkpoint saves an estimator; use it with GBGNNClassifier(callbacks=[...])."
            )
        self._model = start.model
        # A warm start replays known rounds first; a file of fewer rounds must not replace a newer one.
        self._n_known = start.n_known

    def on_round(self, report: RoundReport) -> StopReason | None:
        """Save when it is time."""
        if report.t % self.every == 0 and report.t > self._n_known:
            self._model.save(self.path)
        return None


@dataclass(eq=False)
class LogProgress(Callback):
    """Log a line every so often, through :mod:`logging`; what ``verbose`` turns on.

    Parameters
    ----------
    every
        Rounds between two lines; the last round always has one.
    """

    every: int = 1

    def on_start(self, start: StartReport) -> None:
        """Start the clock, and see that the lines reach a screen when logging is not set up."""
        check_integer("LogProgress", "every", self.every, 1)
        self._started = time.perf_counter()
        logger = logging.getLogger("gbgnn")
        if not logger.hasHandlers():
            logger.addHandler(logging.StreamHandler())
        if logger.getEffectiveLevel() > logging.INFO:
            logger.setLevel(logging.INFO)

    def on_round(self, report: RoundReport) -> StopReason | None:
        """Log the newest row."""
        if report.t % self.every == 0 or report.t == report.n_rounds:
            row = report.row
            val = "" if row["val_accuracy"] is None else f"  val acc {row['val_accuracy']:.3f}"
            logging.getLogger("gbgnn").info(
                "round %d/%d  loss %.4f  acc %.3f%s  cos %.3f  %.1f s",
                report.t,
                report.n_rounds,
                row["train_loss"],
                row["train_accuracy"],
                val,
                row["cosine"],
                time.perf_counter() - self._started,
            )
        return None
