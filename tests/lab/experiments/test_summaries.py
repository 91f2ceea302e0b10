from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gbgnn_lab.experiments.records import Record
from gbgnn_lab.experiments.summaries import Summary, failures, grouped, in_order, summarize


@given(st.lists(st.floats(0, 100), min_size=2, max_size=20))
def test_summary_equals_numpy(values):
    summary = Summary.of(values)
    assert summary.mean == pytest.approx(np.mean(values))
    assert summary.std == pytest.approx(np.std(values, ddof=1), abs=1e-6)
    assert summary.n == len(values)


def test_runs_without_a_result_do_not_count():
    runs = [Record({}, results={"test_accuracy": 0.5}), Record({}, failure="no"), Record({})]
    assert summarize(runs) == Summary(50.0, None, 1)
    assert summarize(runs[1:]) is None


def test_groups_keep_the_order_in_which_they_come():
    runs = [Record({"run": run}) for run in (2, 1, 2)]
    assert {key: len(found) for key, found in grouped(runs, lambda r: r["run"]).items()} == {2: 2, 1: 1}


def test_failures_are_told_apart():
    runs = [Record({}, failure="a"), Record({}, failure="b"), Record({}), Record({}, failure="a")]
    assert failures(runs) == ["2 runs: a", "1 run: b"]


def test_known_names_come_first():
    assert in_order(["x", "pubmed", "cora", "x"], ("cora", "citeseer", "pubmed")) == ["cora", "pubmed", "x"]
