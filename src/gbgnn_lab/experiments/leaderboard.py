"""Leaderboards: systems ranked by test accuracy, with time and memory, per data set and over all.

compare() makes one of gbgnn and the baselines on any data, over several splits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from gbgnn import datasets
from gbgnn.datasets import Dataset, stratified_split
from gbgnn.errors import DataError, ParameterError
from gbgnn_lab.experiments.jobs import Job, Progress, run_jobs, single_jobs
from gbgnn_lab.experiments.options import CompareOptions
from gbgnn_lab.experiments.paper import DATASETS, title_dataset
from gbgnn_lab.experiments.records import (
    RECORDS,
    Record,
    RecordFile,
    check_splits,
    describe_environment,
    identify_data,
    identity_key,
)
from gbgnn_lab.experiments.report import Entry, Report, Table
from gbgnn_lab.experiments.summaries import (
    Summary,
    count_noun,
    describe_failures,
    describe_origin,
    group_records,
    sort_names,
    summarize,
)
from gbgnn_lab.experiments.systems import TITLES, find_systems, measure

N_RUNS = 10
"""So many runs a system has by default, over all splits."""
HOW = (
    "gbgnn has the library's defaults, baselines their published settings (for citation graphs); nothing "
    "is tuned to the data. The epoch or round that predicts is chosen by validation accuracy."
)
_OWN = re.compile(r"public 0 of (\d+)")
Cite = Callable[[str, str], float | None]
"""From a system and a data set to a published accuracy in percent, if there is one."""


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
    environment = describe_environment(options.device, options.command())
    run_jobs(jobs, file, n_jobs=options.jobs, is_alone=True, environment=environment, progress=progress)
    asked = {identity_key(identity) for job in jobs for identity in job.identities}
    records = [record for record in file.read() if record.key in asked]
    report = rank_report("Leaderboard", records, TITLES, [*notes, HOW])
    return replace(report, n_failed=sum(record.failure is not None for record in records)).write(folder)


def plan_jobs(options: CompareOptions) -> tuple[list[Job], list[str]]:
    """Return the jobs, and a sentence per data set on its splits."""
    systems = find_systems(options.systems)
    jobs, notes = [], []
    for name in options.names:
        splits = load_splits(options, name)
        runs = options.runs or max(1, N_RUNS // len(splits))
        for data in splits:
            check_splits(data)
            known = identify_data(data)
            for system in systems:
                work = partial(measure, system, data, options.device)
                jobs += single_jobs(known | {"system": system.name}, runs, work)
        sizes = (
            f"{len(data.train):,} training, {len(data.val):,} validation and {len(data.test):,} test nodes"
        )
        named = " to ".join(dict.fromkeys((splits[0].split_name, splits[-1].split_name)))
        notes.append(
            f"{data.name}: {count_noun(len(splits), 'split')} ({named}; {sizes}), "
            f"{count_noun(runs, 'seed')} each."
        )
    return jobs, notes


def load_splits(options: CompareOptions, name: str) -> list[Dataset]:
    """Return a data set once for every split; the graph is the same object in all of them."""
    most = options.splits
    if options.split is not None:
        drawn = [_load(options, name, split=options.split, seed=k) for k in range(most)]
        return [drawn[0].with_split(each.split, each.split_name) for each in drawn]
    data, n_own = _load(options, name), _count_own_splits(options, name)
    if n_own > 1:
        own = [_load(options, name, split=k) for k in range(min(n_own, most))]
        return [data.with_split(each.split, each.split_name) for each in own]
    if not data.split_name.startswith("stratified"):
        return [data]
    return [data.with_split(stratified_split(data.y, seed=k), f"stratified, seed {k}") for k in range(most)]


def _load(options: CompareOptions, name: str, **how: Any) -> Dataset:
    return datasets.load(
        name,
        data_dir=options.data_dir,
        normalize_features=options.normalize,
        **{**options.data_options, **how},
    )


def _count_own_splits(options: CompareOptions, name: str) -> int:
    """Return how many splits came with the data, as far as it offers a choice of them."""
    try:
        found = _OWN.fullmatch(_load(options, name, split=0).split_name)
    except (ParameterError, DataError):  # no choice, and none can be made
        return 0
    return int(found[1]) if found else 0


@dataclass(frozen=True, eq=False)
class RankedSystem:
    """A system's runs on a data set, and its place among the others."""

    system: str
    title: str
    records: Sequence[Record]
    summary: Summary | None  # test accuracy in percent
    rank: int | None  # systems of equal mean share the better place; None when every run failed

    def mean(self, result: str) -> float | None:
        """Return the mean of a result over the runs that have one."""
        values = [r.results[result] for r in self.records if r.results.get(result) is not None]
        return fmean(values) if values else None

    @property
    def devices(self) -> list[str]:
        """Where it was trained, GPU or CPU; seconds compare in one place only."""
        machines = [record.environment.get("machine", {}) for record in self.records]
        return list(dict.fromkeys("GPU" if machine.get("gpu") else "CPU" for machine in machines))

    def make_row(self, dataset: str, published: float | None) -> dict[str, Any]:
        """Return the numbers for a program."""
        summary, seconds, memory = self.summary, self.mean("fit_seconds"), self.mean("memory")
        return {
            "dataset": dataset,
            "system": self.system,
            "rank": self.rank,
            "mean": None if summary is None else round(summary.mean, 3),
            "std": None if summary is None or summary.std is None else round(summary.std, 3),
            "runs": len(self.records),
            "failed": sum(record.failure is not None for record in self.records),
            "cited": published,
            "seconds": None if seconds is None else round(seconds, 3),
            "memory": None if memory is None else round(memory),
            "on": " and ".join(self.devices),
        }


def rank_systems(records: Sequence[Record], titles: Mapping[str, str]) -> list[RankedSystem]:
    """Return the systems of one data set, the best first, those without a result last."""
    runs = group_records(records, lambda record: str(record["system"]))
    summaries = {name: summarize(runs[name]) for name in sort_names(runs, titles)}
    means = [summary.mean for summary in summaries.values() if summary is not None]
    ranked = []
    for name, summary in summaries.items():
        rank = None if summary is None else 1 + sum(mean > summary.mean for mean in means)
        ranked.append(RankedSystem(name, titles.get(name, name), runs[name], summary, rank))
    return sorted(ranked, key=lambda each: (each.rank is None, each.rank))


def rank_report(
    title: str,
    records: Sequence[Record],
    titles: Mapping[str, str],
    notes: Sequence[str] = (),
    cite: Cite | None = None,
) -> Report:
    """Return a board per data set, and one over all where there are several."""
    found = group_records(records, lambda record: str(record["dataset"]))
    boards = {name: rank_systems(found[name], titles) for name in sort_names(found, DATASETS)}
    tables = [_make_board(name, board, cite) for name, board in boards.items()]
    if len(boards) > 1:
        tables.insert(0, _make_overview(boards))
    reasons: list[str] = []
    data = []
    for name, board in boards.items():
        for each in board:
            reasons += describe_failures(each.records, f"{each.title} on {title_dataset(name)}")
            data.append(each.make_row(name, None if cite is None else cite(each.system, name)))
    how = (
        "Seconds and memory are means over runs, of training and prediction: memory is the peak beyond what "
        "the process, or on a GPU torch, held when training began. They compare among rows of one kind of "
        "machine only, where a board has both."
    )
    return Report(title, tables, [*notes, how, *reasons, *describe_origin(records)], data)


def _make_board(name: str, board: Sequence[RankedSystem], cite: Cite | None) -> Table:
    rows = []
    has_devices = len({device for each in board for device in each.devices}) > 1
    for each in board:
        memory, seconds = each.mean("memory"), each.mean("fit_seconds")
        published = None if cite is None else cite(each.system, name)
        n_judged = sum(record.failure is None for record in each.records)
        rows.append(
            [
                Entry("-" if each.rank is None else str(each.rank)),
                Entry(each.title),
                _make_entry(each),
                *([] if cite is None else [Entry("-" if published is None else f"{published:.1f}")]),
                Entry(str(n_judged)),
                Entry("-" if seconds is None else f"{seconds:.2f}"),
                Entry("-" if memory is None else f"{memory / 2**20:,.0f}"),
                *([Entry(" and ".join(each.devices))] if has_devices else []),
            ]
        )
    columns = ["Rank", "Model", "Test accuracy, %", *([] if cite is None else ["Cited"])]
    columns += ["Runs", "Seconds", "Peak MiB", *(["On"] if has_devices else [])]
    return Table(title_dataset(name), columns, rows, n_left=2)


def _make_overview(boards: Mapping[str, Sequence[RankedSystem]]) -> Table:
    """Return a row per system, ordered by mean rank; who lacks a result somewhere has none."""
    places = {name: {each.system: each for each in board} for name, board in boards.items()}
    systems = dict.fromkeys(system for place in places.values() for system in place)
    rows = []
    for system in systems:
        found = [place.get(system) for place in places.values()]
        ranks = [each.rank for each in found if each is not None and each.rank is not None]
        mean = fmean(ranks) if len(ranks) == len(places) else None
        title = next(each.title for each in found if each is not None)
        cells = [_make_entry(each) for each in found]
        rows.append((mean, [Entry(title), *cells, Entry("-" if mean is None else f"{mean:.1f}")]))
    rows.sort(key=lambda row: (row[0] is None, row[0]))
    columns = ["Model", *map(title_dataset, boards), "Mean rank"]
    return Table(
        f"Test accuracy in percent over {count_noun(len(boards), 'data set')}",
        columns,
        [cells for _, cells in rows],
    )


def _make_entry(ranked: RankedSystem | None) -> Entry:
    if ranked is None:
        return Entry("-")
    if ranked.summary is None:
        return Entry("failed")
    return Entry(str(ranked.summary), strong=ranked.rank == 1)
