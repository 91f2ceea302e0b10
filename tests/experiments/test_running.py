from __future__ import annotations

import os
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gbgnn.errors import GBGNNWarning
from gbgnn.experiments.records import Record, RecordFile
from gbgnn.experiments.running import Job, Outcome, Watch, as_plain, attempt, run_jobs


class Told(Watch):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.stages: list[tuple[int, int]] = []
        self.words: list[str] = []
        self.ended: list[int] = []

    def on_stage(self, n_done: int, n_jobs: int) -> None:
        self.stages.append((n_done, n_jobs))

    def on_words(self, identity: Any, words: str) -> None:
        self.words.append(f"{identity['run']}: {words}")

    def on_record(self, record: Record) -> None:
        self.ended.append(record["run"])


@pytest.fixture
def file(tmp_path: Path) -> RecordFile:
    return RecordFile(tmp_path / "records.jsonl")


def jobs(n: int, work: Any = None) -> list[Job]:
    return [Job.of_run({"run": run}, partial(work or half, run)) for run in range(n)]


def half(run: int, tell: Any) -> Outcome:
    tell("begun")
    return Outcome({"run": run}, {"half": run / 2})


def brittle(run: int, tell: Any) -> Outcome:
    if run == 1:
        raise ValueError("one is too few")
    return half(run, tell)


def interrupted(run: int, tell: Any) -> Outcome:
    if run == 2:
        raise KeyboardInterrupt
    return half(run, tell)


def deadly(run: int, tell: Any) -> Outcome:
    if run == 1:
        os._exit(7)
    return half(run, tell)


def own_process(run: int, tell: Any) -> Outcome:
    return Outcome(results={"process": os.getpid()})


def test_every_job_is_recorded_with_what_made_it(file):
    told = Told()
    run_jobs(jobs(3), file, environment={"date": "today"}, watch=told)
    records = file.read()
    assert [record.results["half"] for record in records] == [0.0, 0.5, 1.0]
    assert all(record.environment == {"date": "today"} for record in records)
    assert (told.stages, told.ended, told.words) == (
        [(0, 3)],
        [0, 1, 2],
        ["0: begun", "1: begun", "2: begun"],
    )


def test_what_is_recorded_is_not_run_again(file):
    run_jobs(jobs(2), file)
    told = Told()
    run_jobs(jobs(4), file, watch=told)
    assert (told.stages, told.ended) == ([(2, 4)], [2, 3])


def test_a_failure_is_recorded_and_tried_again(file):
    run_jobs(jobs(3, brittle), file)
    assert [record.failure for record in file.read()] == [None, "ValueError: one is too few", None]
    told = Told()
    run_jobs(jobs(3), file, watch=told)
    assert told.ended == [1]
    assert [record.failure for record in file.read()] == [None, None, None]


def test_an_interrupt_keeps_what_had_ended(file):
    with pytest.raises(KeyboardInterrupt):
        run_jobs(jobs(4, interrupted), file)
    assert [record["run"] for record in file.read()] == [0, 1]


def test_processes_of_their_own_give_the_same_records(file, tmp_path):
    other = RecordFile(tmp_path / "other.jsonl")
    run_jobs(jobs(4), file)
    run_jobs(jobs(4), other, n_jobs=2)
    apart = sorted(other.read(), key=lambda record: record["run"])
    assert [(r.identity, r.results) for r in apart] == [(r.identity, r.results) for r in file.read()]


def test_a_run_that_kills_its_process_is_a_failure_of_that_run(file):
    run_jobs(jobs(3, deadly), file, n_jobs=2)
    records = {record["run"]: record.failure for record in file.read()}
    assert records == {0: None, 1: "the process ended with code 7.", 2: None}


def test_alone_means_in_another_process(file):
    run_jobs(jobs(2, own_process), file, is_alone=True)
    numbers = {record.results["process"] for record in file.read()}
    assert len(numbers) == 2
    assert os.getpid() not in numbers


def test_an_interrupt_in_a_process_ends_all(file):
    with pytest.raises(KeyboardInterrupt):
        run_jobs(jobs(4, interrupted), file, is_alone=True)
    assert 2 not in [record["run"] for record in file.read()]


def test_our_warnings_are_recorded_once_each():
    def work(tell: Any) -> Outcome:
        for _ in range(2):
            warnings.warn("a repair", GBGNNWarning, stacklevel=1)
        return Outcome()

    assert attempt(Job.of_run({}, work))[0].results == {"warnings": ["a repair"]}


def test_plain_values_are_what_json_has():
    value = {"a": np.float64(0.5), 1: (np.arange(2), None), "o": Outcome}
    assert as_plain(value) == {"a": 0.5, "1": [[0, 1], None], "o": repr(Outcome)}
