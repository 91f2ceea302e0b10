"""Measure: by what systems are ranked, of classes accuracy and of numbers R2, and what is shown beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gbgnn_lab.experiments.paper import Accuracy
from gbgnn_lab.experiments.records import Record
from gbgnn_lab.experiments.report import summarize


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A result of test nodes, the larger the better, and how it is written."""

    name: str  # as of a record's results, less the part of the split
    title: str  # of its column
    short: str = ""  # what stands before a single value
    caption: str  # of a table over several data sets
    factor: float = 1.0  # that it is multiplied with, 100 for percent
    digits: int  # behind the point
    beside: Mapping[str, tuple[str, str]]  # other results by name: their columns, and how they are written

    @property
    def result(self) -> str:
        """The name of the result that ranks."""
        return f"test_{self.name}"

    def summarize(self, records: Iterable[Record]) -> Accuracy | None:
        """Return mean and spread over the runs that have the result; None where none has."""
        return summarize(records, self.result, factor=self.factor, digits=self.digits)

    def write(self, value: float) -> str:
        """Return a single value in words.

        Examples
        --------
        >>> MEASURES["classification"].write(0.81), MEASURES["regression"].write(0.81)
        ('81.0', 'R2 0.810')
        """
        return f"{self.short}{self.factor * value:.{self.digits}f}"


MEASURES: Mapping[str, Measure] = {
    "classification": Measure(
        name="accuracy",
        title="Test accuracy, %",
        caption="accuracy in percent",
        factor=100.0,
        digits=1,
        beside={
            "test_auc": ("AUC", ".3f"),
            "test_average_precision": ("AP", ".3f"),
            "test_log_loss": ("Log loss", ".3f"),
        },
    ),
    "regression": Measure(
        name="r2",
        title="Test R2",
        short="R2 ",
        caption="R2",
        digits=3,
        beside={"test_mae": ("MAE", ".4g"), "test_rmse": ("RMSE", ".4g")},
    ),
}
"""By the task of the data."""


def find_measure(identity: Mapping[str, Any]) -> Measure:
    """Return the measure of a run; where its identity has no task, that of classes."""
    return MEASURES[identity.get("task", "classification")]
