from __future__ import annotations

import os
import re
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gbgnn.cli.screen import Progress, show_progress
from gbgnn.errors import GBGNNWarning
from gbgnn_lab.experiments.jobs import (
    Experiment,
    Job,
    Outcome,
    describe_record,
    name_run,
    run_job,
    run_jobs,
    single_jobs,
)
from gbgnn_lab.experiments.options import Options
from gbgnn_lab.experiments.records import Record, RecordFile, identity_key
from gbgnn_lab.experiments.report import Report

RUN = {"dataset": "cora", "variant": "kta", "hidden_layers": 1, "fine_tune": True, "run": 2}


def test_a_failed_run_says_so():
    told = describe_record(Record(RUN, failure="too large"))
    assert told == "cora, kta, L = 1, fine-tuned, run 2: failed; 0.0 s"


def test_a_run_without_accuracy_is_done():
    place = {"dataset": "mine", "split": "fold 1 of 5", "kind": "gradient", "run": 0}
    assert describe_record(Record(place, seconds=1.25)) == "mine (fold 1 of 5), gradient, run 0: done; 1.2 s"
    assert name_run(RUN) == "cora, kta, L = 1, fine-tuned, run 2"


PLACE = {"dataset": "csbm"}


class Told(Progress):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.stages: list[tuple[int, int]] = []
        self.words: list[str] = []
        self.ended: list[int] = []
        self.notes: list[str] = []

    def begin(self, noun: str, total: int, done: int = 0) -> None:
        self.stages.append((done, total))

    def update(self, done: int, words: str = "", total: int | None = None) -> None:
        run = re.search(r"run (\d+): (.*)", words)
        if run and run[2] == "begun":
            self.words.append(f"{run[1]}: {run[2]}")
        elif run:
            self.ended.append(int(run[1]))

    def note(self, message: str) -> None:
        self.notes.append(message)


@pytest.fixture
def file(tmp_path: Path) -> RecordFile:
    return RecordFile(tmp_path / "records.jsonl")


def jobs(n: int, work: Any = None) -> list[Job]:
    return single_jobs(PLACE, n, work or half)


def team(runs: Sequence[int], work: Any = None) -> Job:
    return Job(PLACE, runs, partial(together, work or half), is_team=True)


def together(work: Any, runs: Sequence[int], tell: Any) -> list[Outcome]:
    return [work(run, tell) for run in runs]


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


def test_lines_count_the_runs_and_say_what_came_of_each(file, capsys):
    with show_progress(n_lines=None) as lines:
        run_jobs(jobs(3, brittle), file, progress=lines)
        run_jobs(jobs(2), file, progress=lines)
        run_jobs([], file, progress=lines)
    told = capsys.readouterr()
    assert [line.rpartition("  ")[0] or line for line in told.err.splitlines()] == [
        "run 0/3  3 runs to make, 0 recorded",
        "run 1/3  csbm, run 0: done; 0.0 s",
        "csbm, run 1: failed: ValueError: one is too few",
        "run 2/3  csbm, run 1: failed; 0.0 s",
        "run 3/3  csbm, run 2: done; 0.0 s",
        "run 1/2  1 runs to make, 1 recorded",
        "run 2/2  csbm, run 1: done; 0.0 s",
    ]
    assert "begun" not in told.err  # how a run goes is for a bar
    assert told.out == ""


def test_every_job_is_recorded_with_what_made_it(file):
    told = Told()
    run_jobs(jobs(3), file, environment={"date": "today"}, progress=told)
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
    run_jobs(jobs(4), file, progress=told)
    assert (told.stages, told.ended) == ([(2, 4)], [2, 3])


def test_a_failure_is_recorded_and_tried_again(file):
    run_jobs(jobs(3, brittle), file)
    assert [record.failure for record in file.read()] == [None, "ValueError: one is too few", None]
    told = Told()
    run_jobs(jobs(3), file, progress=told)
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


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_job_of_several_runs_records_what_single_ones_do(file, tmp_path, n_jobs):
    other = RecordFile(tmp_path / "other.jsonl")
    run_jobs(jobs(5), file)
    run_jobs([team([0, 1, 2]), team([3, 4])], other, n_jobs=n_jobs, environment={"date": "today"})
    found = sorted(other.read(), key=lambda record: record["run"])
    assert [(r.identity, r.settings, r.results) for r in found] == [
        (r.identity, r.settings, r.results) for r in file.read()
    ]
    assert all((r.failure, r.environment) == (None, {"date": "today"}) for r in found)


def test_runs_of_a_job_are_told_of_one_by_one(file):
    told = Told()
    run_jobs([team([0, 1, 2]), team([3])], file, progress=told)
    assert (told.stages, told.ended) == ([(0, 4)], [0, 1, 2, 3])
    assert told.words == ["0: begun"] * 3 + ["3: begun"]  # the first speaks for all


def test_runs_of_a_job_share_its_time(monkeypatch):
    clock = SimpleNamespace(perf_counter=iter([10.0, 17.0]).__next__)
    monkeypatch.setattr("gbgnn_lab.experiments.jobs.time", clock)
    assert [record.seconds for record in run_job(team([0, 1, 2]))] == [2.333] * 3


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_job_goes_on_with_those_of_its_runs_that_are_not_recorded(file, n_jobs):
    run_jobs(jobs(3, brittle), file)  # of which the second fails
    told = Told()
    run_jobs([team([0, 1, 2, 3]), team([4])], file, n_jobs=n_jobs, progress=told)
    assert told.stages == [(2, 5)]
    assert sorted(told.ended) == [1, 3, 4]
    assert sorted((record["run"], record.results["half"]) for record in file.read()) == [
        (run, run / 2) for run in range(5)
    ]
    run_jobs([team([0, 1, 2, 3]), team([4])], file, n_jobs=n_jobs, progress=told)
    assert told.stages[1:] == [(5, 5)]
    assert len(told.ended) == 3


def test_what_is_left_of_a_job_is_what_has_no_record():
    job = team([0, 1, 2])
    left = job.without({identity_key(PLACE | {"run": 1}), identity_key(PLACE | {"run": 7})})
    assert left.identities == [PLACE | {"run": 0}, PLACE | {"run": 2}]
    assert left.work is job.work
    assert job.identities == [PLACE | {"run": run} for run in (0, 1, 2)]
    assert left.without(map(identity_key, left.identities)).identities == []


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize(
    ("work", "reason"),
    [(brittle, "ValueError: one is too few"), (deadly, "the process ended with code 7.")],
    ids=["raises", "dies"],
)
def test_a_job_fails_for_all_its_runs_and_the_others_go_on(file, work, reason, n_jobs):
    run_jobs([team([0, 1, 2], work), team([3, 4], work)], file, n_jobs=n_jobs, is_alone=True)
    records = {record["run"]: (record.failure, record.settings) for record in file.read()}
    lost = dict.fromkeys(range(3), (reason, {}))
    assert records == lost | {run: (None, {"run": run}) for run in (3, 4)}
    seconds = [record.seconds for record in file.read() if record.failure]
    assert len(set(seconds)) == 1  # of which each has its share
    told = Told()
    run_jobs([team([0, 1, 2]), team([3, 4])], file, progress=told)
    assert (told.stages, told.ended) == ([(2, 5)], [0, 1, 2])
    assert {record.failure for record in file.read()} == {None}


def test_an_interrupt_loses_the_runs_of_its_job_and_no_others(file):
    with pytest.raises(KeyboardInterrupt):
        run_jobs([team([0, 1], interrupted), team([3, 2, 4], interrupted)], file)
    assert [record["run"] for record in file.read()] == [0, 1]


def test_warnings_of_a_job_are_recorded_with_each_of_its_runs():
    def warned(run: int, tell: Any) -> Outcome:
        if run:
            warnings.warn("a repair", GBGNNWarning, stacklevel=1)
        return half(run, tell)

    assert [record.results for record in run_job(team([0, 1], warned))] == [
        {"half": 0.0, "warnings": ["a repair"]},
        {"half": 0.5, "warnings": ["a repair"]},
    ]


def test_our_warnings_are_recorded_once_each():
    def work(run: int, tell: Any) -> Outcome:
        for _ in range(2):
            warnings.warn("a repair", GBGNNWarning, stacklevel=1)
        return Outcome()

    assert run_job(single_jobs(PLACE, 1, work)[0])[0].results == {"warnings": ["a repair"]}


PLAIN = Experiment(
    "plain",
    lambda data, options: iter(()),
    lambda out: Report("Plain", []),
    Options(datasets=("cora", "pubmed"), runs=10),
    Options(runs=2, trials=5),
)


def test_what_is_left_open_is_the_experiments_choice():
    chosen = PLAIN.choose(Options(runs=3))
    assert (chosen.runs, chosen.datasets, chosen.trials, chosen.out) == (
        3,
        ("cora", "pubmed"),
        None,
        "results",
    )


def test_a_quick_run_has_its_own_numbers_and_folder():
    chosen = PLAIN.choose(Options(quick=True, trials=7, out="here"))
    assert (chosen.runs, chosen.datasets, chosen.trials) == (2, ("cora", "pubmed"), 7)
    assert chosen.out == Path("here", "quick")


def test_a_run_of_numbers_tells_its_r2():
    record = Record(
        {"dataset": "prices", "task": "regression", "system": "gbgnn", "run": 0},
        results={"val_r2": 0.5, "test_r2": 0.4321},
        seconds=2.0,
    )
    assert describe_record(record) == "prices, gbgnn, run 0: val R2 0.500, test R2 0.432; 2.0 s"
