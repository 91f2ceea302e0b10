"""Jobs, and how those that are not recorded yet are run."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Container, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch

from gbgnn._isolation import ProcessDiedError, Processes
from gbgnn.errors import GBGNNWarning
from gbgnn_lab.experiments.records import Fields, Record, RecordFile, key_of

Tell = Callable[[str], None]
"""Takes a few words on how a run goes."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a job returns: the settings of the model that was judged, and what was measured."""

    settings: Fields = field(default_factory=dict)
    results: Fields = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Job:
    """A run that is to be recorded, or several that are made together.

    Parameters
    ----------
    identities
        What makes each this run and no other, as in :class:`Record`.
    work
        Called with the identities of the runs that are not recorded yet, and ``tell=``, which takes a few
        words on how it goes. It must pickle.
    """

    identities: Sequence[Fields]
    work: Callable[..., Sequence[Outcome]]

    @classmethod
    def of_run(cls, identity: Fields, work: Callable[..., Outcome]) -> Job:
        """Return the job of a single run, whose work is called with ``tell=`` alone."""
        return cls([identity], partial(_work_alone, work))

    def without(self, known: Container[str]) -> Job:
        """Return what is left of the job when runs of these keys are recorded."""
        return replace(self, identities=[each for each in self.identities if key_of(each) not in known])


def _work_alone(work: Callable[..., Outcome], identities: Sequence[Fields], tell: Tell) -> list[Outcome]:
    return [work(tell=tell)]


class Watch:
    """Told how an experiment goes; this one takes no notice."""

    def on_stage(self, n_done: int, n_runs: int) -> None:
        """Take note of how many runs are recorded already, and how many there are."""

    def on_words(self, identity: Fields, words: str) -> None:
        """Take a few words from a run; only where runs share this process."""

    def on_record(self, record: Record) -> None:
        """Take note of a run that has ended and is recorded."""


def run_jobs(
    jobs: Sequence[Job],
    file: RecordFile,
    *,
    n_jobs: int = 1,
    is_alone: bool = False,
    environment: Fields | None = None,
    watch: Watch | None = None,
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
        What to write into every record, see :func:`~gbgnn_lab.experiments.environment.environment`.
    watch
        Told how it goes.
    """
    watch = watch or Watch()
    known = {record.key for record in file.read() if record.failure is None}
    left = [job.without(known) for job in jobs]
    todo = [job for job in left if job.identities]
    n_runs, n_left = (sum(len(job.identities) for job in some) for some in (jobs, todo))
    watch.on_stage(n_runs - n_left, n_runs)
    apart = is_alone or n_jobs > 1
    ended = _run_apart(todo, n_jobs) if apart else _run_here(todo, watch)
    with closing(ended):  # or an interrupt here would leave processes at work
        for record in ended:
            stamped = replace(record, environment=environment or {})
            file.append(stamped)
            watch.on_record(stamped)


def attempt(job: Job, tell: Tell | None = None) -> list[Record]:
    """Run a job; what it raises becomes the reason of its failure. Runs made together share its time.

    Examples
    --------
    >>> attempt(Job.of_run({"run": 0}, lambda tell: 1 / 0))[0].failure
    'ZeroDivisionError: division by zero'
    """
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", GBGNNWarning)
        try:
            outcomes, failure = job.work(job.identities, tell=tell or _ignore), None
        except Exception as error:
            outcomes, failure = [Outcome()] * len(job.identities), f"{type(error).__name__}: {error}"
    said = list(dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, GBGNNWarning)))
    seconds = _share(started, job)
    return [
        Record(
            identity,
            outcome.settings,
            outcome.results | ({"warnings": said} if said else {}),
            failure,
            seconds,
        )
        for identity, outcome in zip(job.identities, outcomes, strict=True)
    ]


def _share(started: float, job: Job) -> float:
    return round((time.perf_counter() - started) / len(job.identities), 3)


def _run_here(jobs: Sequence[Job], watch: Watch) -> Generator[Record]:
    for job in jobs:
        yield from attempt(job, partial(watch.on_words, job.identities[0]))


def _run_apart(jobs: Sequence[Job], n_jobs: int) -> Generator[Record]:
    threads = max(1, torch.get_num_threads() // n_jobs)
    with ThreadPoolExecutor(n_jobs) as pool, Processes(threads) as processes:
        futures = [pool.submit(_attempt_apart, processes, job) for job in jobs]
        try:
            for future in as_completed(futures):
                yield from future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _attempt_apart(processes: Processes, job: Job) -> list[Record]:
    started = time.perf_counter()
    try:
        records: list[Record] = processes.call(attempt, job)
    except ProcessDiedError as error:
        seconds = _share(started, job)
        return [Record(identity, failure=str(error), seconds=seconds) for identity in job.identities]
    return records


def _ignore(words: str) -> None:
    pass


def as_plain(value: Any) -> Any:
    """Return a value as JSON has it: NumPy's scalars as numbers, tuples as lists, objects as their text.

    Examples
    --------
    >>> import numpy as np
    >>> as_plain({"units": np.int64(8), "moves": ("etas",)})
    {'units': 8, 'moves': ['etas']}
    """
    if isinstance(value, dict):
        return {str(name): as_plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_plain(each) for each in value]
    if hasattr(value, "tolist"):
        return as_plain(value.tolist())
    return value if isinstance(value, (bool, int, float, str, type(None))) else repr(value)
