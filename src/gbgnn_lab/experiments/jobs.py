"""Experiments and the jobs they consist of: how those that are not recorded yet are run."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from gbgnn._files import as_plain
from gbgnn._isolation import ProcessDiedError, Processes
from gbgnn.cli.screen import Progress
from gbgnn.datasets import Dataset
from gbgnn.errors import GBGNNWarning
from gbgnn_lab.experiments.measures import find_measure
from gbgnn_lab.experiments.options import Options
from gbgnn_lab.experiments.records import Fields, Record, RecordFile, identity_key
from gbgnn_lab.experiments.report import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Tell = Callable[[str], None]
"""Takes a few words on how a run goes."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a run returns: the settings of the model that was judged, what was measured, or why it failed."""

    settings: Fields = field(default_factory=dict)
    results: Fields = field(default_factory=dict)
    failure: str | None = None


@dataclass(frozen=True, eq=False)
class Job:
    """A run, or a team of runs of one identity but for their seeds, made together.

    ``work``, which must pickle, is called with ``run=`` and returns an :class:`Outcome`; that of a team with
    ``runs=``, those that are not recorded yet, and returns one for each. It is also given ``tell=``, which
    takes a few words on how it goes.
    """

    identity: Fields  # as of the records, but for run
    runs: Sequence[int]  # their seeds
    work: Callable[..., Any]
    is_team: bool = False

    @property
    def identities(self) -> list[Fields]:
        """The identity of every run."""
        return [self.identity | {"run": run} for run in self.runs]

    def without(self, known: Container[str]) -> Job:
        """Return what is left of the job when runs of these keys are recorded."""
        left = [each["run"] for each in self.identities if identity_key(each) not in known]
        return replace(self, runs=left)


def single_jobs(identity: Fields, n_runs: int, work: Callable[..., Outcome]) -> list[Job]:
    """Return a job for each of the runs 0, 1, ..."""
    return [Job(identity, [run], work) for run in range(n_runs)]


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
    n_done = n_runs - n_left
    progress.begin("run", n_runs, n_done)
    if n_runs:
        progress.update(n_done, f"{n_left} runs to make, {n_done} recorded")

    def tell(name: str, words: str) -> None:
        progress.update(n_done, f"{name}: {words}")

    def save(records: Sequence[Record]) -> None:
        nonlocal n_done
        for record in records:
            file.append(replace(record, environment=environment or {}))
            n_done += 1
            if record.failure is not None:
                progress.note(f"{name_run(record.identity)}: failed: {record.failure}")
            progress.update(n_done, describe_record(record))

    try:
        if not is_alone and n_jobs == 1:
            for job in todo:
                save(run_job(job, partial(tell, name_run(job.identities[0]))))
            return
        threads = max(1, torch.get_num_threads() // n_jobs)
        with ThreadPoolExecutor(n_jobs) as pool, Processes(threads) as processes:
            futures = [pool.submit(_run_apart, processes, job) for job in todo]
            try:
                for future in as_completed(futures):
                    save(future.result())
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
    except KeyboardInterrupt as error:
        error.add_note(
            "interrupted; runs that had ended are recorded, and the same command goes on from there."
        )
        raise


def run_job(job: Job, tell: Tell = lambda words: None) -> list[Record]:
    """Run a job; what it raises becomes the reason of its failure. Runs made together share its time."""
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", GBGNNWarning)
        try:
            if job.is_team:
                outcomes = job.work(runs=job.runs, tell=tell)
            else:
                outcomes = [job.work(run=job.runs[0], tell=tell)]
        except Exception as error:
            outcomes = [Outcome(failure=f"{type(error).__name__}: {error}")] * len(job.runs)
    said = list(dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, GBGNNWarning)))
    return _make_records(job, started, outcomes, {"warnings": said} if said else {})


def _run_apart(processes: Processes, job: Job) -> list[Record]:
    started = time.perf_counter()
    try:
        records: list[Record] = processes.call(run_job, job)
    except ProcessDiedError as error:
        return _make_records(job, started, [Outcome(failure=str(error))] * len(job.runs), {})
    return records


def _make_records(job: Job, started: float, outcomes: Sequence[Outcome], more: Fields) -> list[Record]:
    seconds = round((time.perf_counter() - started) / len(job.runs), 3)
    return [
        Record(identity, as_plain(each.settings), as_plain(each.results | more), each.failure, seconds)
        for identity, each in zip(job.identities, outcomes, strict=True)
    ]


def describe_record(record: Record) -> str:
    """Return a run and what came of it."""
    measure = find_measure(record.identity)
    shown = [
        f"{part} {measure.write(value)}"
        for part in ("val", "test")
        if (value := record.results.get(f"{part}_{measure.name}")) is not None
    ]
    came = "failed" if record.failure is not None else ", ".join(shown) or "done"
    return f"{name_run(record.identity)}: {came}; {record.seconds:.1f} s"


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


@dataclass(frozen=True)
class Experiment:
    """Something of the paper that is done again, or beside it.

    ``stages`` makes lists of jobs of data and options. Every list is recorded before the next is asked for,
    so that later jobs may need the records of earlier ones, in the folder ``out`` of the options.
    ``tabulate`` and ``draw`` show records, the latter those of runs that did not fail, by names of files.
    """

    name: str
    stages: Callable[[Mapping[str, Dataset], Options], Iterator[Sequence[Job]]]
    tabulate: Callable[[Sequence[Record]], Report]
    defaults: Options
    quick: Options  # what is different in a quick run
    draw: Callable[[Sequence[Record]], Mapping[str, Figure]] = lambda records: {}
    borrows: Sequence[str] = ()  # experiments whose records are shown as well
    is_alone: bool = False  # whether every run needs a process of its own, for its memory to be measured

    def choose(self, asked: Options) -> Options:
        """Return what it does when this is asked for; quick results have a folder of their own."""
        if not asked.quick:
            return asked.fill(self.defaults)
        return replace(asked.fill(self.quick).fill(self.defaults), out=Path(asked.out, "quick"))
