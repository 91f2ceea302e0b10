"""Table 1 of the paper, and its table of all variants, L = 0 to 4 (table 4), our numbers beside its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from string import ascii_lowercase

from gbgnn.cli.screen import counted
from gbgnn.datasets import Dataset
from gbgnn_lab.experiments.jobs import Experiment, Job
from gbgnn_lab.experiments.options import Options
from gbgnn_lab.experiments.paper import ACCURACY, DATASETS, LAYERS, VARIANTS, Accuracy, Cell, title_dataset
from gbgnn_lab.experiments.records import DIGITS, Fields, Record, identify_data, identity_key, read_records
from gbgnn_lab.experiments.report import (
    Entry,
    Report,
    Table,
    count_failed,
    describe_failures,
    describe_origin,
    sort_names,
    summarize,
    tell_numbers,
)

_SPACES = {
    "paper": "the paper's space",
    "default": "the narrower default space",
    "quick": "a space of small models",
}


def list_cells(options: Options) -> list[Cell]:
    """Return the rows that are asked for: variants with every L, and fine-tuned where L = 1 is among them."""
    cells = []
    for variant in options.variants:
        cells += [Cell(variant, layers) for layers in options.layers]
        cells += [Cell(variant, fine_tune=True)] if 1 in options.layers else []
    return cells


def stages(
    name: str, borrows: Sequence[str], data: Mapping[str, Dataset], options: Options
) -> Iterator[Sequence[Job]]:
    """Yield the searches of boosting, then those of fine-tuning, which begin where the former ended.

    ``borrows`` are experiments that have searched some of the same cells: those with as many runs, and as
    many trials in the same space, are not searched again.
    """
    from gbgnn_lab.experiments import searching  # optuna, which a table alone does not need

    protocol, runs = options.protocol, list(range(options.runs or 0))
    known = {each.name: identify_data(each) for each in data.values()}
    elsewhere = select_results(read_records(options.out, *borrows))

    def identify(cell: Cell, each: Dataset) -> Fields:
        # The ranges that a space's name stands for may change: a checksum says what was searched.
        space = searching.cell_space(cell, protocol.space, len(each.train)).checksum()[:DIGITS]
        told = protocol.to_document(fine_tune=cell.fine_tune)
        return {**known[each.name], **asdict(cell), "protocol": told, "space": space}

    wanted = [
        (cell, each)
        for each in data.values()
        for cell in list_cells(options)
        if not _is_covered(elsewhere.get((cell, each.name)), identify(cell, each), len(runs))
    ]
    # A population is for the runs of a cell together; otherwise each is a job of its own.
    teams = [[run] for run in runs] if protocol.population is None else [runs]
    boosted = {(cell.boosted, each.name): each for cell, each in wanted}
    how: Fields = {"protocol": protocol, "device": options.device}
    jobs = []
    for (cell, _), each in boosted.items():
        search = partial(searching.search, cell, each, **how)
        jobs += [Job(identify(cell, each), team, search, is_team=True) for team in teams]
    yield jobs
    found = {record.key: record for record in read_records(options.out, *borrows, name)}
    jobs = []
    for cell, each in wanted:
        for run in runs if cell.fine_tune else ():
            first = found[identity_key(identify(cell.boosted, each) | {"run": run})]
            fine_tune = partial(searching.search_fine_tuning, cell, each, first=first, **how)
            jobs.append(Job(identify(cell, each), [run], fine_tune))
    yield jobs


def _is_covered(result: CellResult | None, identity: Fields, n_runs: int) -> bool:
    """Return whether a result makes another search needless."""
    if result is None:
        return False
    first, protocol = result.records[0], identity["protocol"]
    return (
        all(first[part] == identity[part] for part in ("dataset", "split", "data", "space"))
        and all(first["protocol"][part] == protocol[part] for part in ("seeds_per_trial", "confirm"))
        and first["protocol"]["trials"] >= protocol["trials"]
        and result.extent[0] >= n_runs
    )


@dataclass(frozen=True, eq=False)
class CellResult:
    """Our runs of a cell on a data set, all of one protocol."""

    cell: Cell
    dataset: str
    records: Sequence[Record]

    @property
    def extent(self) -> tuple[int, int]:
        """How many runs have a result, and of how many trials."""
        return len(self.records) - count_failed(self.records), self.records[0]["protocol"]["trials"]

    @property
    def place(self) -> str:
        """The cell and the data set, in words."""
        return f"{self.cell} on {title_dataset(self.dataset)}"

    @property
    def summary(self) -> Accuracy | None:
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
        protocol = self.records[0]["protocol"]
        seeds = "" if protocol["seeds_per_trial"] == 1 else f" with {protocol['seeds_per_trial']} seeds each"
        at_once = "" if protocol["population"] is None else f", {protocol['population']} at a time"
        said = (
            f"{counted(len(self.records), 'run')}, each a search of {counted(protocol['trials'], 'trial')}"
            f"{seeds} (TPE, median stopping{at_once}) in {_SPACES[protocol['space']]}"
        )
        if protocol["confirm"]:
            said += (
                f"; the best {protocol['confirm']} were trained again with five other seeds, and the "
                "settings and number of rounds with the best mean validation accuracy taken"
            )
        return f"{said}."

    @property
    def fine_tuning(self) -> str:
        """The protocol of fine-tuning in a sentence, empty where there is none."""
        protocol = self.records[0]["protocol"]
        if "tune_trials" not in protocol:
            return ""
        n_best, trials = protocol["finalists"], counted(protocol["tune_trials"], "trial")
        start = "model of the best trial" if n_best == 1 else f"models of the {n_best} best trials"
        return f"Fine-tuning (FT): from the {start}, a search of {trials}."

    def make_entry(self, mark: str) -> Entry:
        """Return the cell of a table: ours, and the paper's in brackets; strong where ours is no lower."""
        ours = "failed" if self.summary is None else str(self.summary)
        theirs = f" ({self.printed})" if self.printed else ""
        is_reached = self.difference is not None and self.difference >= 0
        return Entry(ours + theirs, strong=is_reached, mark=mark)

    def make_row(self) -> Fields:
        """Return the numbers for a program."""
        return {
            **asdict(self.cell),
            "dataset": self.dataset,
            **tell_numbers(self.records),
            "paper_mean": self.printed and self.printed.mean,
            "paper_std": self.printed and self.printed.std,
            "difference": self.difference,
            **self.records[0]["protocol"],
        }


def select_results(records: Iterable[Record]) -> dict[tuple[Cell, str], CellResult]:
    """Return the results by cell and data set: of several that with most runs, then trials, then the last."""
    groups: dict[tuple[Cell, str, str], list[Record]] = {}
    for record in records:
        cell = Cell(record["variant"], record["hidden_layers"], record["fine_tune"])
        # The same name and protocol on other data, on another split or in another space is another result.
        rest = [record["protocol"], *(record.identity.get(part) for part in ("data", "split", "space"))]
        groups.setdefault((cell, record["dataset"], identity_key(rest)), []).append(record)
    best: dict[tuple[Cell, str], CellResult] = {}
    for (cell, dataset, _), found in groups.items():
        result = CellResult(cell, dataset, found)
        if result.extent >= best.get((cell, dataset), result).extent:
            best[cell, dataset] = result
    return best


def tabulate(title: str, records: Sequence[Record]) -> Report:
    """Return a table of the recorded cells by data sets; one without records is left empty."""
    found = select_results(records)
    datasets = sort_names((name for _, name in found), DATASETS)
    cells = [cell for cell in ACCURACY if any((cell, name) in found for name in datasets)]
    shown = [found[cell, name] for cell in cells for name in datasets if (cell, name) in found]
    protocols = list(dict.fromkeys(result.protocol for result in shown))
    marks = dict(zip(protocols, ascii_lowercase if len(protocols) > 1 else [""], strict=False))
    has_layers = any(cell.hidden_layers != 1 for cell in cells)
    rows = []
    for cell in cells:
        head = [Entry(cell.title), *([Entry(str(cell.hidden_layers))] if has_layers else [])]
        of_cell = [found.get((cell, name)) for name in datasets]
        rows.append([*head, *(Entry("-") if r is None else r.make_entry(marks[r.protocol]) for r in of_cell)])
    table = Table(
        "Test accuracy in percent, mean ± standard deviation over runs; in brackets the paper's. Bold: our "
        "mean is at least the paper's, to a tenth of a point.",
        ["Model", *(["L"] if has_layers else []), *map(title_dataset, datasets)],
        rows,
        n_left=2 if has_layers else 1,
    )
    notes = _describe_verdict(shown)
    for protocol, mark in marks.items():
        tuning = dict.fromkeys(result.fine_tuning for result in shown if result.protocol == protocol)
        notes.append(" ".join([f"{mark}: {protocol}" if mark else protocol, *filter(None, tuning)]))
    notes.append(
        "Settings, and the round that predicts, are chosen by validation accuracy; the search is not given "
        "the test labels."
    )
    for result in shown:
        notes += describe_failures(result.records, result.place)
    notes += describe_origin([record for result in shown for record in result.records])
    return Report(title, [table], notes, [result.make_row() for result in shown])


def _describe_verdict(shown: Sequence[CellResult]) -> list[str]:
    compared = [(r.difference, r) for r in shown if r.difference is not None]
    if not compared:
        return []
    n_reached = sum(difference >= 0 for difference, _ in compared)
    lowest, where = min(compared, key=lambda pair: pair[0])
    least = "smallest lead" if lowest >= 0 else "furthest below"
    return [
        f"The paper's mean is reached in {n_reached} of {counted(len(compared), 'cell')} "
        f"({least}: {where.place}, {lowest:+.1f})."
    ]


TABLE1 = Experiment(
    "table1",
    partial(stages, "table1", ()),
    partial(tabulate, "Table 1: GB-GNN with and without fine-tuning"),
    Options(datasets=tuple(DATASETS), variants=("adj", "kta"), layers=(1,), runs=10),
    Options(runs=2, trials=5, tune_trials=5, finalists=1, space="quick"),
)
TABLE4 = Experiment(
    "table4",
    partial(stages, "table4", ("table1",)),
    partial(tabulate, "Table 4: all variants, L hidden layers"),
    Options(datasets=tuple(DATASETS), variants=tuple(VARIANTS), layers=LAYERS, runs=10),
    Options(runs=1, trials=3, tune_trials=3, finalists=1, space="quick"),
    borrows=("table1",),
)
