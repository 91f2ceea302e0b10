from __future__ import annotations

from gbgnn_lab.experiments.measures import MEASURES, find_measure
from gbgnn_lab.experiments.records import Record


def test_a_run_without_a_task_is_one_of_classes():
    assert find_measure({"dataset": "cora"}) is MEASURES["classification"]
    assert find_measure({"dataset": "prices", "task": "regression"}) is MEASURES["regression"]


def test_runs_are_summed_up_in_the_measures_own_unit():
    runs = [
        Record({"run": k}, results={"test_r2": r2, "test_accuracy": r2}) for k, r2 in enumerate((0.5, 0.7))
    ]
    assert str(MEASURES["regression"].summarize(runs)) == "0.600 ± 0.141"
    assert str(MEASURES["classification"].summarize(runs)) == "60.0 ± 14.1"
    assert str(MEASURES["regression"].summarize(runs[:1])) == "0.500"
    assert MEASURES["regression"].summarize([Record({"run": 0}, failure="out of memory")]) is None
