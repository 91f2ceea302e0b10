"""The paper's tables of accuracies, our numbers beside its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from string import ascii_lowercase
from typing import Any

from gbgnn_lab.experiments.paper import ACCURACY, Accuracy, Cell, title_dataset
from gbgnn_lab.experiments.records import Record, identity_key
from gbgnn_lab.experiments.report import Entry, Report, Table
from gbgnn_lab.experiments.summaries import (
    Summary,
    count_noun,
    describe_failures,
    describe_fine_tuning,
    describe_origin,
    describe_protocol,
    group_records,
    summarize,
)


@dataclass(frozen=True, eq=False)
class CellResult:
    """Our runs of a cell on a data set, all of one protocol."""

    cell: Cell
    dataset: str
    records: Sequence[Record]

    @property
    def summary(self) -> Summary | None:
        """Test accuracy in percent; None when every run failed."""
        return summarize(self.records)

    @property
    def printed(self) -> Accuracy | None:
        """What the paper has, if anything."""
        return ACCURACY[self.cell].get(self.dataset)

    @property
    def difference(self) -> float | None:
        """How far our mean is above the paper's, both to a tenth of a point, as the paper prints them."""
        if self.summary is None or self.printed is None:
            return None
        return round(round(self.summary.mean, 1) - self.printed.mean, 1)

    @property
    def protocol(self) -> str:
        """The protocol of boosting and the number of runs, in a sentence."""
        return describe_protocol(self.records[0]["protocol"], len(self.records))

    @property
    def fine_tuning(self) -> str | None:
        """The protocol of fine-tuning, in a sentence."""
        return describe_fine_tuning(self.records[0]["protocol"])

    def make_entry(self, mark: str) -> Entry:
        """Return the cell of a table: ours, and the paper's in brackets; strong where ours is no lower."""
        ours = "failed" if self.summary is None else str(self.summary)
        theirs = f" ({self.printed.mean} ± {self.printed.std})" if self.printed else ""
        is_reached = self.difference is not None and self.difference >= 0
        return Entry(ours + theirs, strong=is_reached, mark=mark)

    def make_row(self) -> dict[str, Any]:
        """Return the numbers for a program."""
        protocol, summary, printed = self.records[0]["protocol"], self.summary, self.printed
        return {
            "variant": self.cell.variant,
            "hidden_layers": self.cell.hidden_layers,
            "fine_tune": self.cell.fine_tune,
            "dataset": self.dataset,
            "runs": len(self.records),
            "failed": sum(record.failure is not None for record in self.records),
            "mean": None if summary is None else round(summary.mean, 3),
            "std": None if summary is None or summary.std is None else round(summary.std, 3),
            "paper_mean": None if printed is None else printed.mean,
            "paper_std": None if printed is None else printed.std,
            "difference": self.difference,
            **protocol,
        }


def select_results(records: Iterable[Record]) -> dict[tuple[Cell, str], CellResult]:
    """Return the results by cell and data set: of several that with most runs, then trials, then the last.

    Examples
    --------
    >>> protocol = {"trials": 9, "population": None, "seeds_per_trial": 1, "confirm": 0, "space": "paper"}
    >>> cell = {"variant": "adj", "hidden_layers": 1, "fine_tune": False, "dataset": "cora"}
    >>> run = Record(cell | {"run": 0, "protocol": protocol}, results={"test_accuracy": 0.8})
    >>> select_results([run])[Cell("adj"), "cora"].difference
    0.1
    """
    best: dict[tuple[Cell, str], CellResult] = {}
    for (cell, dataset, _), found in group_records(records, _group_key).items():
        result, known = CellResult(cell, dataset, found), best.get((cell, dataset))
        if known is None or _measure_extent(result) >= _measure_extent(known):
            best[cell, dataset] = result
    return best


def tabulate_accuracy(
    title: str, cells: Sequence[Cell], datasets: Sequence[str], records: Iterable[Record]
) -> Report:
    """Return a table of cells by data sets; a cell without records is left empty."""
    found = select_results(records)
    shown = [found[cell, name] for cell in cells for name in datasets if (cell, name) in found]
    protocols = list(dict.fromkeys(result.protocol for result in shown))
    marks = dict(zip(protocols, ascii_lowercase if len(protocols) > 1 else [""], strict=False))
    has_layers = any(cell.hidden_layers != 1 for cell in cells)
    rows = []
    for cell in cells:
        head = [Entry(cell.title), *([Entry(str(cell.hidden_layers))] if has_layers else [])]
        of_cell = [found.get((cell, name)) for name in datasets]
        rows.append([*head, *(Entry("-") if r is None else r.make_entry(marks[r.protocol]) for r in of_cell)])
    columns = ["Model", *(["L"] if has_layers else []), *(title_dataset(name) for name in datasets)]
    table = Table(
        "Test accuracy in percent, mean ± standard deviation over runs; in brackets the paper's. Bold: our "
        "mean is at least the paper's, to a tenth of a point.",
        columns,
        rows,
        n_left=2 if has_layers else 1,
    )
    used = [record for result in shown for record in result.records]
    notes = [
        *_describe_verdict(shown),
        *_describe_protocols(shown, marks),
        *_describe_failed(shown),
        *describe_origin(used),
    ]
    return Report(title, [table], notes, [result.make_row() for result in shown])


def _group_key(record: Record) -> tuple[Cell, str, str]:
    cell = Cell(record["variant"], record["hidden_layers"], record["fine_tune"])
    # The same name and protocol on other data, on another split or in another space is another result.
    rest = [record["protocol"], *(record.identity.get(part) for part in ("data", "split", "space"))]
    return cell, record["dataset"], identity_key(rest)


def _measure_extent(result: CellResult) -> tuple[int, int]:
    n_judged = sum(record.failure is None for record in result.records)
    return n_judged, result.records[0]["protocol"]["trials"]


def _describe_verdict(shown: Sequence[CellResult]) -> list[str]:
    compared = [(r.difference, r) for r in shown if r.difference is not None]
    if not compared:
        return []
    n_reached = sum(difference >= 0 for difference, _ in compared)
    lowest, where = min(compared, key=lambda pair: pair[0])
    there = f"{where.cell} on {title_dataset(where.dataset)}"
    least = "smallest lead" if lowest >= 0 else "furthest below"
    return [
        f"The paper's mean is reached in {n_reached} of {count_noun(len(compared), 'cell')} "
        f"({least}: {there}, {lowest:+.1f})."
    ]


def _describe_protocols(shown: Sequence[CellResult], marks: dict[str, str]) -> list[str]:
    how = (
        "Settings, and the round that predicts, are chosen by validation accuracy; the search is not given "
        "the test labels."
    )
    said = []
    for text, mark in marks.items():
        second = dict.fromkeys(
            result.fine_tuning for result in shown if result.protocol == text and result.fine_tuning
        )
        said.append(" ".join([f"{mark}: {text}" if mark else text, *filter(None, second)]))
    return [*said, how]


def _describe_failed(shown: Sequence[CellResult]) -> list[str]:
    said = []
    for result in shown:
        where = f"{result.cell} on {title_dataset(result.dataset)}"
        said += [f"Failed, {where}: {reason}" for reason in describe_failures(result.records)]
    return said
