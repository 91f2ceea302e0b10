"""Which round is the best so far, and whether it was too long ago."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from numpy.typing import NDArray

from gbgnn._checks import check_choice, check_integer
from gbgnn.boosting.callbacks import Callback, RoundReport, StartReport
from gbgnn.boosting.history import Row
from gbgnn.boosting.stopping import StopReason
from gbgnn.errors import ParameterError


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
