"""Which round is the best so far."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from gbgnn._checks import check_choice
from gbgnn.boosting.history import Row
from gbgnn.errors import ParameterError

SELECTIONS = ("auto", "last", "validation", "gradient")


@dataclass(frozen=True, eq=False)
class BestRound:
    """The round that predicts, as far as rounds are trained: its number, its scores, how good it is."""

    t: int
    scores: torch.Tensor
    key: tuple[float, ...]


@dataclass(frozen=True)
class RoundSelection:
    """How the round that predicts is chosen.

    Parameters
    ----------
    select
        ``"last"``; ``"validation"``: the best value of the metric on the validation nodes, the lower
        validation loss among equals; ``"gradient"``: smallest gradient norm, the paper's t*; ``"auto"``:
        validation where there are validation nodes, else last.
    metric
        Name of the metric.

    Examples
    --------
    >>> best = None
    >>> for t, loss in enumerate((0.4, 0.3, 0.5), start=1):
    ...     row = {"round": t, "val_accuracy": 0.9, "val_loss": loss}
    ...     best = RoundSelection().better(best, row, torch.empty(0))
    >>> best.t
    2
    """

    select: str = "auto"
    metric: str = "accuracy"

    def check(self, has_validation: bool) -> None:
        """Raise when the choice is unknown or needs validation nodes that are not there."""
        check_choice("GBGNNClassifier", "select", self.select, SELECTIONS)
        if self.select == "validation" and not has_validation:
            raise ParameterError(
                'select="validation" needs validation nodes; pass validation=(nodes, y) or '
                "validation_fraction."
            )

    def better(self, best: BestRound | None, row: Row, scores: torch.Tensor) -> BestRound:
        """Return the better of the best round so far and the newest, whose row and scores are given."""
        key = self._key(row)
        return best if best is not None and best.key >= key else BestRound(row["round"], scores, key)

    def _key(self, row: Row) -> tuple[float, ...]:
        if self.select == "gradient":
            return (-row["gradient_norm"],)
        if self.select == "last" or row["val_loss"] is None:
            return (row["round"],)
        return validation_key(row, self.metric)


def validation_key(row: dict[str, Any], metric: str) -> tuple[float, float]:
    """Order rounds and epochs by their metric on the validation nodes, equals by their validation loss.

    Examples
    --------
    >>> validation_key({"val_r2": 0.5, "val_loss": 0.2}, "r2")
    (0.5, -0.2)
    """
    value: float = row[f"val_{metric}"]
    # What a metric cannot say is no better than anything: scikit-learn's may answer with NaN.
    return (-math.inf if math.isnan(value) else value, -row["val_loss"])
