"""Experiments and the jobs they consist of: how those that are not recorded yet are run, and how they go."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Container, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from gbgnn._isolation import ProcessDiedError, Processes
from gbgnn.datasets import Dataset
from gbgnn.errors import GBGNNWarning
from gbgnn_lab.experiments.options import Options
from gbgnn_lab.experiments.records import Fields, Record, RecordFile, identity_key
from gbgnn_lab.experiments.report import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Tell = Callable[[str], None]
"""Takes a few words on how a run goes."""


class Progress:
    """Receives the progress of an experiment; this one ignores it."""

    def on_stage(self, n_done: int, n_runs: int) -> None:
        """Receive how many runs are recorded already, and how many there are."""

    def on_message(self, identity: Fields, words: str) -> None:
        """Receive a few words from a run; only where runs share this process."""

    def on_record(self, record: Record) -> None:
        """Receive a run that has ended and is recorded."""


class LineProgress(Progress):
    """Writes a line per run to stderr."""

    def __init__(self) -> None:
        self.n_done = self.n_runs = 0

    def on_stage(self, n_done: int, n_runs: int) -> None:
        """Say how many runs there are."""
        self.n_done, self.n_runs = n_done, n_runs
        if n_runs:
            self.write(f"{n_runs - n_done} runs to make, {n_done} recorded")

    def on_record(self, record: Record) -> None:
        """Say what came of a run."""
        self.n_done += 1
        self.write(f"{self.n_done}/{self.n_runs}  {describe_record(record)}")

    def write(self, line: str) -> None:
        """Write a line."""
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


def describe_record(record: Record) -> str:
    """Return a run and what came of it."""
    if record.failure is not None:
        return f"{name_run(record.identity)}: failed: {record.failure}"
    shown = [
        f"{part} {100 * value:.1f}"
        for part in ("val", "test")
        if (value := record.results.get(f"{part}_accuracy")) is not None
    ]
    return f"{name_run(record.identity)}: {', '.join(shown) or 'done'}; {record.seconds:.1f} s"


def name_run(identity: Fields) -> str:
    """Return what a run is called."""
    split = identity.get("split", "public")
    words = [identity["dataset"] + ("" if split == "public" else f" ({split})")]
    words += [identity[name] for name in ("variant", "kind", "system") if name in identity]
    if "hidden_layers" in identity:
        words.append(f"L = {identity['hidden_layers']}")
    words += ["fine-tuned"] if identity.get("fine_tune") else []
    words += [f"depth {identity['depth']}"] if "depth" in identity else []
    return ", ".join([*words, f"run {identity['run']}"])


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a run returns: the settings of the model that was judged, and what was measured."""

    settings: Fields = field(default_factory=dict)
    results: Fields = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Job:
    """Runs of one identity but for their seeds, made together.

    Parameters
    ----------
    identity
        What makes them these runs and no others, as in :class:`Record`, but for ``run``.
    runs
        Their seeds.
    work
        Called with ``runs=``, those that are not recorded yet, and ``tell=``, which takes a few words on how
        it goes; returns an :class:`Outcome` for each. It must pickle.
    """

    identity: Fields
    runs: Sequence[int]
    work: Callable[..., Sequence[Outcome]]

    @property
    def identities(self) -> list[Fields]:
        """The identity of every run."""
        return [self.identity | {"run": run} for run in self.runs]

    def without(self, known: Container[str]) -> Job:
        """Return what is left of the job when runs of these keys are recorded."""
        left = [each["run"] for each in self.identities if identity_key(each) not in known]
        return replace(self, runs=left)


def single_jobs(identity: Fields, n_runs: int, work: Callable[..., Outcome]) -> list[Job]:
    """Return a job for each of the runs 0, 1, ..., whose work is called with ``run=`` and ``tell=``."""
    return [Job(identity, [run], partial(_work_singly, work)) for run in range(n_runs)]


def _work_singly(work: Callable[..., Outcome], runs: Sequence[int], tell: Tell) -> list[Outcome]:
    return [work(run=run, tell=tell) for run in runs]


def run_jobs(
    jobs: Sequence[Job],
    file: RecordFile,
    *,
    n_jobs: int = 1,
    is_alone: bool = False,
    environment: Fields | None = None,
    progress: Progress | None = None,
) -> None:
    """Run the jobs that are not recorded, or that failed when they were, and record each as it ends.

    A run that fails is recorded with the reason, and the others go on. Ctrl-C ends all; what is recorded
    stays. ``n_jobs`` are run at once, each in a process of its own when more than one; with ``is_alone`` in
    any case, so that its memory can be measured. ``environment`` is written into every record.
    """
    progress = progress or Progress()
    known = {record.key for record in file.read() if record.failure is None}
    todo = [job for job in (each.without(known) for each in jobs) if job.runs]
    n_runs, n_left = (sum(len(job.runs) for job in some) for some in (jobs, todo))
    progress.on_stage(n_runs - n_left, n_runs)

    def save(records: Sequence[Record]) -> None:
        for record in records:
            stamped = replace(record, environment=environment or {})
            file.append(stamped)
            progress.on_record(stamped)

    if is_alone or n_jobs > 1:
        with closing(_run_in_processes(todo, n_jobs)) as ended:  # or an interrupt would leave some at work
            for records in ended:
                save(records)
        return
    for job in todo:
        save(run_job(job, partial(progress.on_message, job.identities[0])))


def run_job(job: Job, tell: Tell | None = None) -> list[Record]:
    """Run a job; what it raises becomes the reason of its failure. Runs made together share its time."""
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", GBGNNWarning)
        try:
            outcomes, failure = job.work(runs=job.runs, tell=tell or (lambda words: None)), None
        except Exception as error:
            outcomes, failure = [Outcome()] * len(job.runs), f"{type(error).__name__}: {error}"
    said = list(dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, GBGNNWarning)))
    seconds = _share(started, job)
    more = {"warnings": said} if said else {}
    return [
        Record(identity, outcome.settings, outcome.results | more, failure, seconds)
        for identity, outcome in zip(job.identities, outcomes, strict=True)
    ]


def _share(started: float, job: Job) -> float:
    return round((time.perf_counter() - started) / len(job.runs), 3)


def _run_in_processes(jobs: Sequence[Job], n_jobs: int) -> Generator[list[Record]]:
    threads = max(1, torch.get_num_threads() // n_jobs)
    with ThreadPoolExecutor(n_jobs) as pool, Processes(threads) as processes:
        futures = [pool.submit(_run_in_process, processes, job) for job in jobs]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _run_in_process(processes: Processes, job: Job) -> list[Record]:
    started = time.perf_counter()
    try:
        records: list[Record] = processes.call(run_job, job)
    except ProcessDiedError as error:
        seconds = _share(started, job)
        return [Record(identity, failure=str(error), seconds=seconds) for identity in job.identities]
    return records


@dataclass(frozen=True)
class Experiment:
    """Something of the paper that is done again, or beside it.

    Parameters
    ----------
    name
        What it is called in a command, and its folder.
    stages
        From data and options, ``out`` among them, to lists of jobs. Every list is recorded before the next is
        asked for, so that later jobs may need the records of earlier ones.
    tabulate
        From the folder of all results to tables.
    defaults, quick
        What it does when nothing else is asked for, and what is different in a quick run.
    draw
        From the folder of all results to figures, by the names of their files; needs matplotlib.
    is_alone
        Whether every run needs a process of its own, for its memory to be measured.
    """

    name: str
    stages: Callable[[Mapping[str, Dataset], Options], Iterator[Sequence[Job]]]
    tabulate: Callable[[Path], Report]
    defaults: Options
    quick: Options
    draw: Callable[[Path], Mapping[str, Figure]] | None = None
    is_alone: bool = False

    def choose(self, asked: Options) -> Options:
        """Return what it does when this is asked for; quick results have a folder of their own."""
        if not asked.quick:
            return asked.fill(self.defaults)
        return replace(asked.fill(self.quick).fill(self.defaults), out=Path(asked.out, "quick"))
