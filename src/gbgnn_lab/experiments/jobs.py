"""Jobs, and how those that are not recorded yet are run."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Container, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial

import torch

from gbgnn._isolation import ProcessDiedError, Processes
from gbgnn.errors import GBGNNWarning
from gbgnn_lab.experiments.progress import Progress, Tell, ignore
from gbgnn_lab.experiments.records import Fields, Record, RecordFile, identity_key


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
    stays.

    Parameters
    ----------
    jobs
        What there is to do.
    file
        Where it is recorded.
    n_jobs
        How many jobs at once, each in a process of its own when more than one.
    is_alone
        Give each a process of its own in any case, so that its memory can be measured.
    environment
        What to write into every record, see :func:`~gbgnn_lab.experiments.records.describe_environment`.
    progress
        Receives how many runs are done, and what came of each.
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
    """Run a job; what it raises becomes the reason of its failure. Runs made together share its time.

    Examples
    --------
    >>> run_job(Job({}, [0], lambda runs, tell: 1 / 0))[0].failure
    'ZeroDivisionError: division by zero'
    """
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", GBGNNWarning)
        try:
            outcomes, failure = job.work(runs=job.runs, tell=tell or ignore), None
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
