from __future__ import annotations

import pytest

from gbgnn_lab.experiments import __main__ as door
from gbgnn_lab.experiments.options import Options, read_flags
from gbgnn_lab.experiments.report import Report


class Asked:
    """Stands in for an experiment, and remembers what was asked of it."""

    def __init__(self, error=None):
        self.error, self.calls = error, []

    def __call__(self, name, options, **rest):
        self.calls.append((name, options))
        if self.error is not None:
            raise self.error
        return Report("Made up", [])


@pytest.fixture
def asked(monkeypatch):
    made = Asked()
    monkeypatch.setattr(door, "reproduce", made)
    return made


def test_every_option_can_be_given(asked, capsys):
    words = (
        "table4 --dataset cora pubmed --variant adj kta --layers 0 1 --system gcn --depth 2 4 --runs 3 "
        "--trials 9 --tune-trials 8 --finalists 2 --population 16 --seeds-per-trial 2 --confirm 4 "
        "--space default --quick --device cpu --jobs 2 --out here --data-dir there "
        "--data-option n_nodes=60 kind=small"
    )
    assert door.main(words.split()) == 0
    options = Options(
        datasets=("cora", "pubmed"),
        variants=("adj", "kta"),
        layers=(0, 1),
        systems=("gcn",),
        depths=(2, 4),
        runs=3,
        trials=9,
        tune_trials=8,
        finalists=2,
        population=16,
        seeds_per_trial=2,
        confirm=4,
        space="default",
        quick=True,
        device="cpu",
        jobs=2,
        out="here",
        data_dir="there",
        data_options={"n_nodes": 60, "kind": "small"},
    )
    assert asked.calls == [("table4", options)]
    assert all(flag.names[-1] in words or flag.names[0] in words for flag in read_flags(Options).values())
    assert capsys.readouterr().out == "# Made up\n"


def test_nothing_given_is_nothing_asked(asked):
    door.main(["depth"])
    assert asked.calls == [("depth", Options())]


def test_tables_can_be_made_again(monkeypatch, asked):
    again = Asked()
    monkeypatch.setattr(door, "rebuild", again)
    assert door.main(["table1", "--tables-only", "--out", "here"]) == 0
    assert again.calls == [("table1", Options(out="here"))]
    assert asked.calls == []


def test_errors_are_one_line(capsys):
    assert door.main(["table1", "--runs", "0"]) == 1
    assert capsys.readouterr().err == "error: Options.runs must be an integer >= 1, or None; got 0.\n"


def test_an_interrupt_says_how_to_go_on(monkeypatch, capsys):
    monkeypatch.setattr(door, "reproduce", Asked(KeyboardInterrupt()))
    assert door.main(["table1"]) == 130
    assert "the same command goes on from there" in capsys.readouterr().err
