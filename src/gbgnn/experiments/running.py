"""Jobs, and how those that are not recorded yet are run."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch

from gbgnn.errors import GBGNNWarning
from gbgnn.experiments.isolation import ProcessDiedError, Processes
from gbgnn.experiments.records import Fields, Record, RecordFile, key_of

Tell = Callable[[str], None]
"""Takes a few words on how a run goes."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a job returns: the settings of the model that was judged, and what was measured."""

    settings: Fields = field(default_factory=dict)
    results: Fields = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Job:
    """A run that is to be recorded.

    Parameters
    ----------
    identity
        What makes it this run and no other, as in :class:`Record`.
    work
        Called with ``tell=``, which takes a few words on how it goes. It must pickle.
    """

    identity: Fields
    work: Callable[..., Outcome]


class Watch:
    """Told how an experiment goes; this one takes no notice."""

    def on_stage(self, n_done: int, n_jobs: int) -> None:
        """Take note of how many jobs are recorded already, and how many there are."""

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
        How many to run at once, each in a process of its own when more than one.
    is_alone
        Give each a process of its own in any case, so that its memory can be measured.
    environment
        What to write into every record, see :func:`~gbgnn.experiments.environment.environment`.
    watch
        Told how it goes.
    """
    watch = watch or Watch()
    known = {record.key for record in file.read() if record.failure is None}
    todo = [job for job in jobs if key_of(job.identity) not in known]
    watch.on_stage(len(jobs) - len(todo), len(jobs))
    apart = is_alone or n_jobs > 1
    ended = _run_apart(todo, n_jobs) if apart else _run_here(todo, watch)
    with closing(ended):  # or an interrupt here would leave processes at work
        for record in ended:
            stamped = replace(record, environment=environment or {})
            file.append(stamped)
            watch.on_record(stamped)


def attempt(job: Job, tell: Tell | None = None) -> Record:
    """Run a job; what it raises becomes the reason of its failure.

    Examples
    --------
    >>> attempt(Job({"run": 0}, lambda tell: 1 / 0)).failure
    'ZeroDivisionError: division by zero'
    """
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", GBGNNWarning)
        try:
            outcome, failure = job.work(tell=tell or _ignore), None
        except Exception as error:
            outcome, failure = Outcome(), f"{type(error).__name__}: {error}"
    results = dict(outcome.results)
    said = dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, GBGNNWarning))
    if said:
        results["warnings"] = list(said)
    seconds = round(time.perf_counter() - started, 3)
    return Record(job.identity, outcome.settings, results, failure, seconds)


def _run_here(jobs: Sequence[Job], watch: Watch) -> Generator[Record]:
    for job in jobs:
        yield attempt(job, partial(watch.on_words, job.identity))


def _run_apart(jobs: Sequence[Job], n_jobs: int) -> Generator[Record]:
    threads = max(1, torch.get_num_threads() // n_jobs)
    with ThreadPoolExecutor(n_jobs) as pool, Processes(threads) as processes:
        futures = [pool.submit(_attempt_apart, processes, job) for job in jobs]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _attempt_apart(processes: Processes, job: Job) -> Record:
    started = time.perf_counter()
    try:
        record: Record = processes.call(attempt, job)
    except ProcessDiedError as error:
        seconds = round(time.perf_counter() - started, 3)
        return Record(job.identity, failure=str(error), seconds=seconds)
    return record


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
