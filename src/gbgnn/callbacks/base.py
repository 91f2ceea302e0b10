"""Callbacks: what may look on while a model is boosted and fine-tuned, and ask boosting to stop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from gbgnn.boosting import Ensemble, History, StopReason
from gbgnn.boosting.history import Row
from gbgnn.boosting.selection import validation_key
from gbgnn.finetuning.loop import EpochReport, FineTuningReport
from gbgnn.model import FittedModel
from gbgnn.problem import Problem


@dataclass(frozen=True, eq=False)
class StartReport:
    """What is known before round 1; ``n_known`` rounds will only be replayed."""

    problem: Problem
    n_rounds: int
    n_known: int = 0


@dataclass(frozen=True, eq=False)
class RoundReport:
    """What is known after a round; the tensors are the loop's own and must not be changed.

    Parameters
    ----------
    model
        The model as it is now: it predicts, and can be saved.
    n_rounds
        The most rounds there will be.
    scores
        Scores of all nodes after this round.
    """

    model: FittedModel
    n_rounds: int
    scores: torch.Tensor

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
        newest: Row = self.history[-1]
        return newest

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


def announce_start(callbacks: Sequence[Callback], start: StartReport) -> None:
    """Tell every callback that boosting begins."""
    for callback in callbacks:
        callback.on_start(start)


def announce_round(callbacks: Sequence[Callback], report: RoundReport) -> StopReason | None:
    """Tell every callback of a round; return the first wish to stop."""
    wishes = [callback.on_round(report) for callback in callbacks]
    return next((wish for wish in wishes if wish is not None), None)


def announce_end(callbacks: Sequence[Callback], model: FittedModel) -> None:
    """Tell every callback that boosting is over."""
    for callback in callbacks:
        callback.on_end(model)


def announce_epoch(callbacks: Sequence[Callback], report: EpochReport) -> None:
    """Tell every callback of an epoch."""
    for callback in callbacks:
        callback.on_epoch(report)


def announce_fine_tuned(callbacks: Sequence[Callback], report: FineTuningReport) -> None:
    """Tell every callback that fine-tuning is over."""
    for callback in callbacks:
        callback.on_fine_tuned(report)
