"""Table 1 of the paper, and its table of all variants, L = 0 to 4 (table 4), our numbers beside its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from string import ascii_lowercase
from typing import Any

from gbgnn.datasets import Dataset
from gbgnn.errors import ParameterError
from gbgnn_lab.experiments.jobs import Experiment, Job, Outcome, Tell, single_jobs
from gbgnn_lab.experiments.options import Options, Protocol
from gbgnn_lab.experiments.paper import ACCURACY, DATASETS, LAYERS, VARIANTS, Accuracy, Cell, title_dataset
from gbgnn_lab.experiments.records import DIGITS, Fields, Record, identify_data, identity_key, read_records
from gbgnn_lab.experiments.report import Entry, Report, Table
from gbgnn_lab.experiments.summaries import (
    Summary,
    count_noun,
    describe_failures,
    describe_fine_tuning,
    describe_origin,
    describe_protocol,
    group_records,
    sort_names,
    summarize,
)

TITLES = {
    "table1": "Table 1: GB-GNN with and without fine-tuning",
    "table4": "Table 4: all variants, L hidden layers",
}
_QUICK = {
    "table1": Options(runs=2, trials=5, tune_trials=5, finalists=1, space="quick"),
    "table4": Options(runs=1, trials=3, tune_trials=3, finalists=1, space="quick"),
}


def list_cells(options: Options) -> list[Cell]:
    """Return the rows that are asked for: variants with every L, and fine-tuned where L = 1 is among them."""
    return [
        cell
        for variant in options.variants
        for cell in (
            *(Cell(variant, layers) for layers in options.layers),
            *([Cell(variant, fine_tune=True)] if 1 in options.layers else []),
        )
    ]


def stages(
    name: str, borrows: Sequence[str], data: Mapping[str, Dataset], options: Options
) -> Iterator[Sequence[Job]]:
    """Yield the searches of boosting, then those of fine-tuning, which begin where the former ended.

    ``borrows`` are experiments that have searched some of the same cells: those with as many runs, and as
    many trials in the same space, are not searched again.
    """
    from gbgnn_lab.experiments import searching  # optuna, which a table alone does not need

    protocol, n_runs = options.protocol, options.runs or 0
    known = {each.name: identify_data(each) for each in data.values()}
    elsewhere = select_results(read_records(options.out, *borrows))

    def identify(cell: Cell, each: Dataset) -> Fields:
        # The ranges that a space's name stands for may change: a checksum says what was searched.
        space = searching.cell_space(cell, protocol.space, len(each.train)).checksum()[:DIGITS]
        return known[each.name] | {
            "variant": cell.variant,
            "hidden_layers": cell.hidden_layers,
            "fine_tune": cell.fine_tune,
            "protocol": protocol.to_document(fine_tune=cell.fine_tune),
            "space": space,
        }

    wanted = [
        (cell, each)
        for each in data.values()
        for cell in list_cells(options)
        if not _is_covered(elsewhere.get((cell, each.name)), identify(cell, each), n_runs)
    ]
    boosted = {(cell.boosted, each.name): each for cell, each in wanted}
    runs = list(range(n_runs))
    # A population is for the runs of a cell together; otherwise each is a job of its own.
    teams = [[run] for run in runs] if protocol.population is None else [runs]
    yield [
        Job(
            identify(cell, each),
            team,
            partial(searching.search, cell, each, protocol=protocol, device=options.device),
        )
        for (cell, _), each in boosted.items()
        for team in teams
    ]
    found = {record.key: record for record in read_records(options.out, *borrows, name)}
    yield [
        job
        for cell, each in wanted
        if cell.fine_tune
        for first in [[found[identity_key(identify(cell.boosted, each) | {"run": run})] for run in runs]]
        for job in single_jobs(
            identify(cell, each),
            n_runs,
            partial(_search_fine_tuning, cell, each, protocol, options.device, first),
        )
    ]


def tabulate(name: str, borrows: Sequence[str], out: Path) -> Report:
    """Return the table of all cells that have records, borrowed ones included."""
    records = read_records(out, *borrows, name)
    known = {cell for cell, _ in select_results(records)}
    names = sort_names((record["dataset"] for record in records), DATASETS)
    return tabulate_accuracy(TITLES[name], [cell for cell in ACCURACY if cell in known], names, records)


def _search_fine_tuning(
    cell: Cell, data: Dataset, protocol: Protocol, device: Any, first: Sequence[Record], run: int, tell: Tell
) -> Outcome:
    """Search from where the first stage of the same run ended."""
    from gbgnn_lab.experiments.searching import search_fine_tuning

    if first[run].failure is not None:
        raise ParameterError(
            f"there is nothing to fine-tune: the search without fine-tuning failed ({first[run].failure})"
        )
    return search_fine_tuning(cell, data, run, protocol, first[run].results["finalists"], device, tell)


def _is_covered(result: CellResult | None, identity: Fields, n_runs: int) -> bool:
    """Return whether a result makes another search needless."""
    if result is None:
        return False
    first, protocol = result.records[0], identity["protocol"]
    return (
        all(first[part] == identity[part] for part in ("dataset", "split", "data", "space"))
        and all(first["protocol"][part] == protocol[part] for part in ("seeds_per_trial", "confirm"))
        and first["protocol"]["trials"] >= protocol["trials"]
        and sum(record.failure is None for record in result.records) >= n_runs
    )


@dataclass(frozen=True, eq=False)
class CellResult:
    """Our runs of a cell on a data set, all of one protocol."""

    cell: Cell
    dataset: str
    records: Sequence[Record]

    @property
    def place(self) -> str:
        """The cell and the data set, in words."""
        return f"{self.cell} on {title_dataset(self.dataset)}"

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
    """Return the results by cell and data set: of several that with most runs, then trials, then the last."""
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
    notes = [*_describe_verdict(shown), *_describe_protocols(shown, marks)]
    for result in shown:
        notes += describe_failures(result.records, result.place)
    notes += describe_origin([record for result in shown for record in result.records])
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
    least = "smallest lead" if lowest >= 0 else "furthest below"
    return [
        f"The paper's mean is reached in {n_reached} of {count_noun(len(compared), 'cell')} "
        f"({least}: {where.place}, {lowest:+.1f})."
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


def _define(name: str, borrows: Sequence[str], variants: Sequence[str], layers: Sequence[int]) -> Experiment:
    return Experiment(
        name,
        partial(stages, name, borrows),
        partial(tabulate, name, borrows),
        Options(datasets=tuple(DATASETS), variants=tuple(variants), layers=tuple(layers), runs=10),
        _QUICK[name],
    )


TABLE1 = _define("table1", (), ("adj", "kta"), (1,))
TABLE4 = _define("table4", ("table1",), tuple(VARIANTS), LAYERS)
