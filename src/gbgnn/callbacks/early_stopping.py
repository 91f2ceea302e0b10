"""EarlyStopping: no more rounds when validation stops improving."""

from __future__ import annotations

from dataclasses import dataclass

from gbgnn._checks import check_integer
from gbgnn.boosting import StopReason
from gbgnn.callbacks.base import Callback, RoundReport, StartReport
from gbgnn.errors import ParameterError


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
