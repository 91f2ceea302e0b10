from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gbgnn_lab.experiments.records import Record
from gbgnn_lab.experiments.summaries import (
    Summary,
    best_settings,
    describe_failures,
    describe_fine_tuning,
    describe_origin,
    describe_protocol,
    format_duration,
    group_records,
    sort_names,
    summarize,
)


@given(st.lists(st.floats(0, 100), min_size=2, max_size=20))
def test_summary_equals_numpy(values):
    summary = summarize([Record({}, results={"test_accuracy": value / 100}) for value in values])
    assert summary.mean == pytest.approx(np.mean(values))
    assert summary.std == pytest.approx(np.std(values, ddof=1), abs=1e-6)


def test_runs_without_a_result_do_not_count():
    runs = [Record({}, results={"test_accuracy": 0.5}), Record({}, failure="no"), Record({})]
    assert summarize(runs) == Summary(50.0, None)
    assert summarize(runs[1:]) is None


def test_groups_keep_the_order_in_which_they_come():
    runs = [Record({"run": run}) for run in (2, 1, 2)]
    assert {key: len(found) for key, found in group_records(runs, lambda r: r["run"]).items()} == {2: 2, 1: 1}


def test_failures_are_told_apart():
    runs = [Record({}, failure="a"), Record({}, failure="b"), Record({}), Record({}, failure="a")]
    assert describe_failures(runs) == ["Failed, 2 runs: a", "Failed, 1 run: b"]
    assert describe_failures(runs[:1], "GCN on Cora") == ["Failed, GCN on Cora: 1 run: a"]


def test_known_names_come_first():
    assert sort_names(["x", "pubmed", "cora", "x"], ("cora", "citeseer", "pubmed")) == ["cora", "pubmed", "x"]


def test_the_best_settings_are_those_of_the_best_search():
    found = [
        Record({}, settings={"units": units}, results={"search_accuracy": value})
        for units, value in ((1, 0.7), (2, 0.8), (3, 0.8))
    ]
    assert best_settings([Record({}, failure="no"), *found]) == {"units": 2}
    assert best_settings([Record({}, failure="no")]) is None


STAMP = {
    "command": "gbgnn reproduce table1",
    "date": "2026-01-02",
    "machine": {"cpu": "Abacus", "cores": 1, "gpu": None},
    "versions": {"gbgnn": "1.0", "torch": "2.9", "numpy": "2.0"},
}


def test_a_protocol_is_a_sentence():
    base = {"trials": 1000, "population": None, "seeds_per_trial": 1, "confirm": 0, "space": "default"}
    assert describe_protocol(base, 1) == (
        "1 run, each a search of 1,000 trials (TPE, median stopping) in the narrower default space."
    )
    assert describe_protocol(base | {"population": 8, "seeds_per_trial": 3, "confirm": 4}, 2) == (
        "2 runs, each a search of 1,000 trials with 3 seeds each (TPE, median stopping, 8 at a time) in the "
        "narrower default space; the best 4 were trained again with five other seeds, and the settings and "
        "number of rounds with the best mean validation accuracy taken."
    )
    assert describe_fine_tuning(base) is None
    assert describe_fine_tuning(base | {"finalists": 1, "tune_trials": 1}) == (
        "Fine-tuning (FT): from the model of the best trial, a search of 1 trial."
    )


def test_origin_names_each_thing_once():
    gpu = STAMP | {"machine": {"cpu": "Abacus", "cores": 16, "gpu": "Loom"}, "date": "2026-01-05"}
    runs = [
        Record({"run": run}, seconds=1800, environment=stamp) for run, stamp in enumerate((STAMP, gpu, STAMP))
    ]
    assert describe_origin(runs) == [
        "Made on Abacus, 1 core and on Abacus, 16 cores, Loom, with gbgnn 1.0, torch 2.9; 2026-01-02 to "
        "2026-01-05; 1.5 hours of runs.",
        "Command: `gbgnn reproduce table1`",
    ]
    other = Record({"run": 9}, environment=STAMP | {"command": "gbgnn fit"})
    assert describe_origin([*runs, other])[1] == "Commands: `gbgnn reproduce table1`, `gbgnn fit`"


def test_records_without_a_stamp_have_no_origin():
    assert describe_origin([Record({"run": 0})]) == []


def test_a_time_has_the_unit_that_suits_it():
    assert [format_duration(s) for s in (0, 60, 3599, 3600)] == [
        "0.0 seconds",
        "1.0 minutes",
        "60.0 minutes",
        "1.0 hours",
    ]


def test_threads_are_told_where_they_are_fewer_than_cores():
    used = STAMP | {"machine": {"cpu": "Abacus", "cores": 2, "threads": 1, "gpu": None}}
    assert describe_origin([Record({"run": 0}, environment=used)])[0].startswith(
        "Made on Abacus, 2 cores (1 thread used), with"
    )
