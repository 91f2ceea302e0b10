"""Callbacks: what may look on while a model is boosted and fine-tuned, and ask boosting to stop."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from gbgnn._checks import check_integer
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


@dataclass(frozen=True, eq=False)
class EpochReport:
    """What is known after an epoch of fine-tuning; epoch 0 is the boosted model, before the first step.

    Parameters
    ----------
    epoch, n_epochs
        How many epochs are done, and the most there will be.
    row
        ``epoch``, ``train_loss``, ``val_loss`` and ``val_accuracy`` (None without validation nodes),
        ``seconds``.
    """

    epoch: int
    n_epochs: int
    row: Row


@dataclass(frozen=True, eq=False)
class TuningReport:
    """What came of fine-tuning; as text, a sentence.

    Parameters
    ----------
    before, after
        Loss and accuracy of the boosted and of the tuned model.
    kept
        Which of them predicts: ``"boosted"`` or ``"tuned"``.
    epochs
        How many were taken.

    Examples
    --------
    >>> before, after = {"val_accuracy": 0.8, "val_loss": 0.6}, {"val_accuracy": 0.82, "val_loss": 0.5}
    >>> print(TuningReport(before, after, kept="tuned", epochs=9))
    fine-tuned 9 epochs: val accuracy 0.8000 to 0.8200, val loss 0.6000 to 0.5000; the tuned model was kept
    """

    before: dict[str, float]
    after: dict[str, float]
    kept: str
    epochs: int

    def __str__(self) -> str:
        part = "val" if "val_loss" in self.after else "train"
        changes = [
            f"{part} {what} {self.before[f'{part}_{what}']:.4f} to {self.after[f'{part}_{what}']:.4f}"
            for what in ("accuracy", "loss")
        ]
        noun = "epoch" if self.epochs == 1 else "epochs"
        return f"fine-tuned {self.epochs} {noun}: {', '.join(changes)}; the {self.kept} model was kept"


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

    def on_epoch(self, report: EpochReport) -> None:
        """Look at an epoch of fine-tuning that just ended; first, as epoch 0, at the boosted model."""

    def on_tuned(self, report: TuningReport) -> None:
        """Look at what fine-tuning did, once, when the estimator has the model that is kept."""


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


def announce_epoch(callbacks: Sequence[Callback], report: EpochReport) -> None:
    """Tell every callback of an epoch."""
    for callback in callbacks:
        callback.on_epoch(report)


def announce_tuned(callbacks: Sequence[Callback], report: TuningReport) -> None:
    """Tell every callback that fine-tuning is over."""
    for callback in callbacks:
        callback.on_tuned(report)


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
        """Remember the estimator that is being fitted."""
        check_integer("Checkpoint", "every", self.every, 1)
        if start.model is None:
            raise ParameterError(
                "Checkpoint saves an estimator; use it with GBGNNClassifier(callbacks=[...])."
            )
        self._model = start.model
        # A warm start replays known rounds first; a file of fewer rounds must not replace a newer one.
        self._n_saved = start.n_known

    def on_round(self, report: RoundReport) -> StopReason | None:
        """Save when it is time."""
        if report.t % self.every == 0:
            self._save(report.t)
        return None

    def on_epoch(self, report: EpochReport) -> None:
        """Save the boosted rounds before the first step moves them."""
        if report.epoch == 0:
            self._save(len(self._model.ensemble_))

    def _save(self, n_rounds: int) -> None:
        if n_rounds > self._n_saved:
            self._model.save(self.path)
            self._n_saved = n_rounds
