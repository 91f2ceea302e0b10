from __future__ import annotations

from gbgnn_lab.experiments.progress import LineProgress, describe_record, name_run
from gbgnn_lab.experiments.records import Record

RUN = {"dataset": "cora", "variant": "kta", "hidden_layers": 1, "fine_tune": True, "run": 2}


def test_a_failed_run_says_why():
    assert (
        describe_record(Record(RUN, failure="too large"))
        == "cora, kta, L = 1, fine-tuned, run 2: failed: too large"
    )


def test_a_run_without_accuracy_is_done():
    place = {"dataset": "mine", "split": "fold 1 of 5", "kind": "gradient", "run": 0}
    assert describe_record(Record(place, seconds=1.25)) == "mine (fold 1 of 5), gradient, run 0: done; 1.2 s"
    assert name_run(RUN) == "cora, kta, L = 1, fine-tuned, run 2"


def test_lines_count_the_runs(capsys):
    lines = LineProgress()
    lines.on_stage(1, 3)
    lines.on_record(Record(RUN, results={"test_accuracy": 0.8}))
    lines.on_stage(0, 0)
    told = capsys.readouterr()
    assert (
        told.err == "2 runs to make, 1 recorded\n2/3  cora, kta, L = 1, fine-tuned, run 2: test 80.0; 0.0 s\n"
    )
    assert told.out == ""
