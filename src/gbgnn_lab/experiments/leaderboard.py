"""compare(): a leaderboard of gbgnn and the baselines on any data, over several splits."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from gbgnn import datasets
from gbgnn.datasets import Dataset, stratified_split
from gbgnn.errors import DataError, ParameterError
from gbgnn_lab.experiments.evaluation import check_splits, identify_data
from gbgnn_lab.experiments.jobs import Job, run_jobs, single_jobs
from gbgnn_lab.experiments.options import CompareOptions
from gbgnn_lab.experiments.progress import Progress
from gbgnn_lab.experiments.ranking import rank_report
from gbgnn_lab.experiments.records import RECORDS, RecordFile, describe_environment, identity_key
from gbgnn_lab.experiments.report import Report
from gbgnn_lab.experiments.summaries import count_noun
from gbgnn_lab.experiments.systems import TITLES, find_systems, measure

N_RUNS = 10
"""So many runs a system has by default, over all splits."""
HOW = (
    "gbgnn has the library's defaults, baselines their published settings (for citation graphs); nothing "
    "is tuned to the data. The epoch or round that predicts is chosen by validation accuracy."
)
_OWN = re.compile(r"public 0 of (\d+)")


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
