"""Leaderboards: systems ranked by test accuracy or R2, with time and memory, per data set and over all.

compare() makes one of gbgnn and the baselines on any data, over several splits; the experiment ``comparison``
one of the paper's models, every system run by us on the same split and machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from gbgnn import datasets
from gbgnn.cli.screen import Progress, counted, number
from gbgnn.datasets import Dataset, stratified_split
from gbgnn.errors import DataError, ParameterError
from gbgnn_lab.baselines import BASELINES
from gbgnn_lab.experiments.jobs import Experiment, Job, run_jobs, single_jobs
from gbgnn_lab.experiments.measures import Measure, find_measure
from gbgnn_lab.experiments.options import CompareOptions, Options, write_command
from gbgnn_lab.experiments.paper import (
    ACCURACY,
    DATASETS,
    VARIANTS,
    Accuracy,
    Cell,
    cite_accuracy,
    title_dataset,
)
from gbgnn_lab.experiments.records import (
    RECORDS,
    Fields,
    Record,
    RecordFile,
    check_splits,
    describe_environment,
    identify_data,
    identity_key,
    read_records,
)
from gbgnn_lab.experiments.report import (
    Entry,
    Report,
    Table,
    best_settings,
    count_failed,
    describe_failures,
    describe_origin,
    group_by_name,
)
from gbgnn_lab.experiments.systems import SYSTEMS, BoostedSystem, System, find_systems, measure

N_RUNS = 10
"""So many runs a system has by default, over all splits."""
HOW = (
    "gbgnn has the library's defaults, baselines their published settings (for citation graphs); nothing "
    "else is tuned to the data than what validation nodes choose: the epoch or round that predicts by their "
    "accuracy, or loss of numbers; the number of trees by their loss; epoch, depth, dropout and learning "
    "rate of residual networks by their AUC for two classes, else by accuracy or loss."
)
_OWN = re.compile(r"public 0 of (\d+)")
_ROWS = {cell.title: cell for variant in VARIANTS for cell in (Cell(variant), Cell(variant, fine_tune=True))}
"""The paper's rows of GB-GNN."""


def compare(options: CompareOptions, *, progress: Progress | None = None) -> Report:
    """Run every system on every split, each run in a process of its own, and rank them.

    A run that fails is shown as such. Runs are recorded as they end, so that the same call goes on where it
    was interrupted.

    Parameters
    ----------
    options
        What is compared, and where it is written.
    progress
        Receives how many runs are done, and what came of each.
    """
    jobs, notes = plan_jobs(options)
    folder = Path(options.out)
    file = RecordFile(folder / RECORDS)
    environment = describe_environment(options.device, write_command(options))
    run_jobs(jobs, file, n_jobs=options.jobs, is_alone=True, environment=environment, progress=progress)
    asked = {identity_key(identity) for job in jobs for identity in job.identities}
    records = [record for record in file.read() if record.key in asked]
    report = rank_report("Leaderboard", records, [*notes, HOW])
    return replace(report, n_failed=count_failed(records)).write(folder)


def plan_jobs(options: CompareOptions) -> tuple[list[Job], list[str]]:
    """Return the jobs, and sentences per data set: on its splits, and on who is left out."""
    asked = find_systems(options.systems)
    jobs, notes = [], []
    for name in options.names:
        splits = load_splits(options, name)
        systems, left_out = choose_able(asked, splits[0])
        runs = options.runs or max(1, N_RUNS // len(splits))
        for data in splits:
            check_splits(data)
            known = identify_data(data)
            for system in systems:
                work = partial(measure, system, data, options.device)
                jobs += single_jobs(known | {"system": system.name}, runs, work)
        named = " to ".join(dict.fromkeys((splits[0].split_name, splits[-1].split_name)))
        notes.append(
            f"{data.name}: {counted(len(splits), 'split')} ({named}; {len(data.train):,} training, "
            f"{len(data.val):,} validation and {len(data.test):,} test nodes), {counted(runs, 'seed')} each."
        )
        if left_out:
            others = ", ".join(system.name for system in left_out)
            notes.append(f"{data.name}: {data.task_reason}. Left out, as they are for classes: {others}.")
    return jobs, notes


def choose_able(systems: Sequence[System], data: Dataset) -> tuple[list[System], list[System]]:
    """Return the systems that can predict what the data asks for, and the others; some must be able to."""
    able = [system for system in systems if system.predicts_numbers or not data.is_regression]
    if not able:
        known = ", ".join(name for name, system in SYSTEMS.items() if system.predicts_numbers)
        raise ParameterError(
            f"{data.name} has numbers to predict, and {', '.join(system.name for system in systems)} can "
            f"tell classes only; take some of {known}."
        )
    return able, [system for system in systems if system not in able]


def load_splits(options: CompareOptions, name: str) -> list[Dataset]:
    """Return a data set once for every split; the graph is the same object in all of them."""

    def load(**how: Any) -> Dataset:
        more = {"normalize_features": options.normalize, **options.data_options, **how}
        return datasets.load(name, data_dir=options.data_dir, **more)

    most = options.splits
    if options.split is not None:
        drawn = [load(split=options.split, seed=k) for k in range(most)]
        return [drawn[0].with_split(each.split, each.split_name) for each in drawn]
    data, n_own = load(), 0
    try:
        found = _OWN.fullmatch(load(split=0).split_name)
        n_own = int(found[1]) if found else 0
    except (ParameterError, DataError):  # no choice of splits came with the data, and none can be made
        pass
    if n_own > 1:
        own = [load(split=k) for k in range(min(n_own, most))]
        return [data.with_split(each.split, each.split_name) for each in own]
    if not data.split_name.startswith("stratified"):
        return [data]
    return [data.with_split(stratified_split(data.y, seed=k), f"stratified, seed {k}") for k in range(most)]


@dataclass(frozen=True, eq=False)
class RankedSystem:
    """A system's runs on a data set, and its place among the others."""

    system: str
    records: Sequence[Record]
    summary: Accuracy | None  # of what the measure says: test accuracy in percent, or R2
    rank: int | None  # systems of equal mean share the better place; None when every run failed
    cited: float | None  # a published accuracy in percent

    @property
    def measure(self) -> Measure:
        """By what it is ranked."""
        return find_measure(self.records[0].identity)

    @property
    def title(self) -> str:
        """What to call it in a table."""
        return SYSTEMS[self.system].title if self.system in SYSTEMS else self.system

    def mean(self, result: str) -> float | None:
        """Return the mean of a result over the runs that have one."""
        values = [r.results[result] for r in self.records if r.results.get(result) is not None]
        return fmean(values) if values else None

    @property
    def devices(self) -> str:
        """Where it was trained, GPU or CPU; seconds compare in one place only."""
        machines = [record.environment.get("machine", {}) for record in self.records]
        return " and ".join(dict.fromkeys("GPU" if machine.get("gpu") else "CPU" for machine in machines))

    def make_entry(self) -> Entry:
        """Return what it is ranked by for a table."""
        return Entry("failed" if self.summary is None else str(self.summary), strong=self.rank == 1)

    def make_cells(self) -> dict[str, Entry]:
        """Return its row of a board, by column."""
        memory = self.mean("memory")
        return {
            "Rank": Entry(number(self.rank, "d")),
            "Model": Entry(self.title),
            self.measure.title: self.make_entry(),
            **{
                title: Entry(number(self.mean(name), form))
                for name, (title, form) in self.measure.beside.items()
            },
            "Cited": Entry(number(self.cited, ".1f")),
            "Runs": Entry(str(len(self.records) - count_failed(self.records))),
            "Seconds": Entry(number(self.mean("fit_seconds"), ".2f")),
            "Peak MiB": Entry(number(None if memory is None else memory / 2**20, ",.0f")),
            "On": Entry(self.devices),
        }

    def make_row(self) -> Fields:
        """Return the numbers for a program."""
        measure, seconds, memory = self.measure, self.mean("fit_seconds"), self.mean("memory")
        parts = {} if self.summary is None else {"mean": self.summary.mean, "std": self.summary.std}
        return {
            "dataset": self.records[0]["dataset"],
            "system": self.system,
            "rank": self.rank,
            "measure": measure.name,
            **{
                name: None if (value := parts.get(name)) is None else round(value, measure.digits + 2)
                for name in ("mean", "std")
            },
            "runs": len(self.records),
            "failed": count_failed(self.records),
            **{name: mean for name in measure.beside if (mean := self.mean(name)) is not None},
            "cited": self.cited,
            "seconds": None if seconds is None else round(seconds, 3),
            "memory": None if memory is None else round(memory),
            "on": self.devices,
        }


def rank_systems(records: Sequence[Record], *, is_cited: bool = False) -> list[RankedSystem]:
    """Return the systems of one data set, the best first, those without a result last."""
    runs = group_by_name(records, "system", SYSTEMS)
    measure = find_measure(records[0].identity)
    summaries = {name: measure.summarize(found) for name, found in runs.items()}
    means = [summary.mean for summary in summaries.values() if summary is not None]
    ranked = []
    for name, summary in summaries.items():
        rank = None if summary is None else 1 + sum(mean > summary.mean for mean in means)
        cited = cite(name, records[0]["dataset"]) if is_cited else None
        ranked.append(RankedSystem(name, runs[name], summary, rank, cited))
    return sorted(ranked, key=lambda each: (each.rank is None, each.rank))


def rank_report(
    title: str, records: Sequence[Record], notes: Sequence[str] = (), *, is_cited: bool = False
) -> Report:
    """Return a board per data set, and one over all where there are several."""
    by_name = group_by_name(records, "dataset", DATASETS)
    boards = {name: rank_systems(found, is_cited=is_cited) for name, found in by_name.items()}
    tables, reasons, data = [], [], []
    for name, board in boards.items():
        machines = {device for each in board for device in each.devices.split(" and ")}
        is_shown = {"Cited": is_cited, "On": len(machines) > 1}
        is_shown |= {
            title: any(each.mean(key) is not None for each in board)
            for key, (title, _) in board[0].measure.beside.items()
        }
        rows = [each.make_cells() for each in board]
        columns = [column for column in rows[0] if is_shown.get(column, True)]
        cells = [[row[column] for column in columns] for row in rows]
        tables.append(Table(title_dataset(name), columns, cells, n_left=2))
        for each in board:
            reasons += describe_failures(each.records, f"{each.title} on {title_dataset(name)}")
            data.append(each.make_row())
    if len(boards) > 1:
        tables.insert(0, _make_overview(boards))
    how = (
        "Seconds and memory are means over runs, of training and prediction: memory is the peak beyond what "
        "the process, or on a GPU torch, held when training began. They compare among rows of one kind of "
        "machine only, where a board has both."
    )
    return Report(title, tables, [*notes, how, *reasons, *describe_origin(records)], data)


def _make_overview(boards: Mapping[str, Sequence[RankedSystem]]) -> Table:
    """Return a row per system, ordered by mean rank; who lacks a result somewhere has none."""
    titles = {each.system: each.title for board in boards.values() for each in board}
    rows = []
    for system, title in titles.items():
        places = [next((each for each in board if each.system == system), None) for board in boards.values()]
        ranks = [each.rank for each in places if each is not None and each.rank is not None]
        mean = fmean(ranks) if len(ranks) == len(boards) else None
        cells = [Entry("-") if each is None else each.make_entry() for each in places]
        rows.append((mean, [Entry(title), *cells, Entry(number(mean, ".1f"))]))
    rows.sort(key=lambda row: (row[0] is None, row[0]))
    captions = dict.fromkeys(board[0].measure.caption for board in boards.values())
    return Table(
        f"Test {' or '.join(captions)} over {counted(len(boards), 'data set')}",
        ["Model", *map(title_dataset, boards), "Mean rank"],
        [cells for _, cells in rows],
    )


def _plan_comparison(data: Mapping[str, Dataset], options: Options) -> Iterator[Sequence[Job]]:
    """Yield a job for each system and seed: those asked for, and the paper's variants as they were found."""
    searched = read_records(options.out, "table1", "table4")
    jobs = []
    for each in data.values():
        known = identify_data(each)
        # Those of a name always have the same settings; those of a search are another system with each.
        named: list[tuple[System, Fields]] = [(system, {}) for system in find_systems(options.systems)]
        found = [(system, {"settings": dict(system.settings)}) for system in list_searched(searched, known)]
        for system, settings in [*named, *found]:
            identity = {**known, "system": system.name, **settings}
            jobs += single_jobs(identity, options.runs or 0, partial(measure, system, each, options.device))
    yield jobs


def list_searched(records: Sequence[Record], known: Mapping[str, object]) -> list[BoostedSystem]:
    """Return the paper's variants with the settings of their best search on this data, where there is one."""
    best = {title: best_settings(records, {**known, **asdict(cell)}) for title, cell in _ROWS.items()}
    return [BoostedSystem(title, title, found) for title, found in best.items() if found is not None]


def cite(system: str, dataset: str) -> float | None:
    """Return the accuracy that the paper prints or cites, else that of the system's own paper."""
    if system in _ROWS:
        printed = ACCURACY[_ROWS[system]].get(dataset)
        return None if printed is None else printed.mean
    own = BASELINES[system].cited if system in BASELINES else {}
    return {**own, **cite_accuracy(system)}.get(dataset)


def _tabulate_comparison(records: Sequence[Record]) -> Report:
    """Return the boards, and where the paper cites other numbers than the papers it cites have."""
    notes = [
        "Every run is trained on the training nodes of the same split; the epoch or round that predicts is "
        "chosen by validation accuracy. Baselines have their published settings. gbgnn: the library's "
        "defaults, the same for all data sets. GB-GNN: the paper's variants, with the settings of the best "
        "of our searches of that cell (table1, table4), by validation accuracy.",
        "Cited: as Oono and Suzuki print it, else from the system's own paper.",
    ]
    for system in dict.fromkeys(record["system"] for record in records if record["system"] in BASELINES):
        baseline = BASELINES[system]
        others = ", ".join(
            f"{baseline.cited[name]:.1f} on {DATASETS[name]} ({value:.1f})"
            for name, value in cite_accuracy(system).items()
            if baseline.cited.get(name, value) != value
        )
        if others:
            notes.append(f"{baseline.title}: {baseline.cited_from} has {others}; in brackets what is cited.")
    return rank_report("Comparison of models", records, notes, is_cited=True)


COMPARISON = Experiment(
    "comparison",
    _plan_comparison,
    _tabulate_comparison,
    Options(datasets=tuple(DATASETS), runs=10),
    Options(
        datasets=("cora",),
        systems=("gbgnn", "gbgnn-samme_r", "gcn", "sgc", "tagcn", "appnp", "graphsage", "label_propagation"),
        runs=2,
    ),
    is_alone=True,
)
