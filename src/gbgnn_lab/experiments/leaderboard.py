"""compare(): a leaderboard of gbgnn and the baselines on any data, over several splits."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from gbgnn import datasets
from gbgnn._checks import check_integer
from gbgnn.datasets import Dataset, stratified_split
from gbgnn.errors import DataError, ParameterError
from gbgnn_lab.experiments.boards import board_page
from gbgnn_lab.experiments.environment import environment
from gbgnn_lab.experiments.experiment import RECORDS, Report
from gbgnn_lab.experiments.judging import check_judgeable, identify
from gbgnn_lab.experiments.provenance import counted
from gbgnn_lab.experiments.records import RecordFile, key_of
from gbgnn_lab.experiments.running import Job, Watch, run_jobs
from gbgnn_lab.experiments.systems import SYSTEMS, System, find_systems, measure

N_RUNS = 10
"""So many runs a system has by default, over all splits."""
_OWN = re.compile(r"public 0 of (\d+)")


@dataclass(frozen=True, kw_only=True)
class Contest:
    """What is compared, and on what.

    Parameters
    ----------
    names
        Names or paths of data sets.
    systems
        Names of systems, of :data:`~gbgnn_lab.experiments.systems.SYSTEMS`; none stands for all.
    splits
        The most splits of each data set: its own where it has several; drawn ones, stratified, where it has
        none; a single one of its own is the only one.
    runs
        Seeds per split; None takes as many as make ten runs, and at least one.
    split
        ``"random"`` or ``"stratified"`` draws splits in any case.
    device, jobs
        Where to train, and how many runs at once.
    data_dir, normalize, data_options
        As in :func:`gbgnn.datasets.load`.

    Examples
    --------
    >>> Contest(names=("cora",), systems=("gbgnn", "gcn"), splits=5, split="random").command()
    'gbgnn compare cora --system gbgnn --system gcn --splits 5 --split random'
    """

    names: tuple[str, ...]
    systems: tuple[str, ...] = ()
    splits: int = 10
    runs: int | None = None
    split: str | None = None
    device: str = "auto"
    jobs: int = 1
    data_dir: str | None = None
    normalize: bool | None = None
    data_options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_integer("Contest", "splits", self.splits, 1)
        check_integer("Contest", "runs", self.runs, 1, optional=True)
        check_integer("Contest", "jobs", self.jobs, 1)
        if not self.names:
            raise ParameterError("there is no data to compare on; name at least one data set.")

    def command(self) -> str:
        """Return the command that asks for the same."""
        words = ["gbgnn", "compare", *self.names]
        for name in self.systems:
            words += ["--system", name]
        plain = {"splits": 10, "runs": None, "split": None, "device": "auto", "jobs": 1}
        for name, usual in plain.items():
            if getattr(self, name) != usual:
                words += [f"--{name}", str(getattr(self, name))]
        if self.normalize is not None:
            words.append("--normalize" if self.normalize else "--no-normalize")
        for name, value in self.data_options.items():
            words += ["--data-option", f"{name}={value}"]
        return shlex.join(words)

    def load(self, name: str, **how: Any) -> Dataset:
        """Return a data set."""
        return datasets.load(
            name,
            data_dir=self.data_dir,
            normalize_features=self.normalize,
            **{**self.data_options, **how},
        )

    def load_splits(self, name: str) -> list[Dataset]:
        """Return a data set once for every split; the graph is the same object in all of them."""
        if self.split is not None:
            drawn = [self.load(name, split=self.split, seed=k) for k in range(self.splits)]
            return [drawn[0].with_split(each.split, each.split_name) for each in drawn]
        data, n_own = self.load(name), self._n_own(name)
        if n_own > 1:
            own = [self.load(name, split=k) for k in range(min(n_own, self.splits))]
            return [data.with_split(each.split, each.split_name) for each in own]
        if not data.split_name.startswith("stratified"):
            return [data]
        return [
            data.with_split(stratified_split(data.y, seed=k), f"stratified, seed {k}")
            for k in range(self.splits)
        ]

    def _n_own(self, name: str) -> int:
        """Return how many splits came with the data, as far as it offers a choice of them."""
        try:
            found = _OWN.fullmatch(self.load(name, split=0).split_name)
        except (ParameterError, DataError):  # no choice, and none can be made
            return 0
        return int(found[1]) if found else 0


def compare(contest: Contest, out: str | os.PathLike[str], *, watch: Watch | None = None) -> Report:
    """Run every system on every split, each run in a process of its own, and rank them.

    A run that fails is shown as such. Runs are recorded as they end, so that the same call goes on where it
    was interrupted.

    Parameters
    ----------
    contest
        What is compared.
    out
        Folder for the records and tables.
    watch
        Told how it goes.
    """
    systems, folder = find_systems(contest.systems), Path(out)
    jobs, notes = _jobs(contest, systems)
    file = RecordFile(folder / RECORDS)
    stamp = environment(contest.device, contest.command())
    run_jobs(jobs, file, n_jobs=contest.jobs, is_alone=True, environment=stamp, watch=watch)
    asked = {key_of(identity) for job in jobs for identity in job.identities}
    records = [record for record in file.read() if record.key in asked]
    how = (
        "gbgnn has the library's defaults, baselines their published settings (for citation graphs); nothing "
        "is tuned to the data. The epoch or round that predicts is chosen by validation accuracy."
    )
    titles = {name: system.title for name, system in SYSTEMS.items()}
    page = board_page("Leaderboard", records, titles, [*notes, how])
    n_failed = sum(record.failure is not None for record in records)
    return Report(page, folder, tuple(page.write(folder)), n_failed)


def _jobs(contest: Contest, systems: Sequence[System]) -> tuple[list[Job], list[str]]:
    """Return the jobs, and a sentence per data set on its splits."""
    jobs, notes = [], []
    for name in contest.names:
        splits = contest.load_splits(name)
        runs = contest.runs or max(1, N_RUNS // len(splits))
        for data in splits:
            check_judgeable(data)
            known = identify(data)
            jobs += [
                Job.of_run(
                    {**known, "system": system.name, "run": run},
                    partial(measure, system, data, run, contest.device),
                )
                for system in systems
                for run in range(runs)
            ]
        sizes = (
            f"{len(data.train):,} training, {len(data.val):,} validation and {len(data.test):,} test nodes"
        )
        named = " to ".join(dict.fromkeys((splits[0].split_name, splits[-1].split_name)))
        notes.append(
            f"{data.name}: {counted(len(splits), 'split')} ({named}; {sizes}), {counted(runs, 'seed')} each."
        )
    return jobs, notes
