from __future__ import annotations

from pathlib import Path

from gbgnn_lab.experiments.experiment import Experiment
from gbgnn_lab.experiments.options import Options
from gbgnn_lab.experiments.report import Report

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
