from __future__ import annotations

import pytest

from gbgnn_lab.cli import read_options
from gbgnn_lab.experiments.__main__ import _build_parser
from gbgnn_lab.experiments.options import CompareOptions, Options, read_flags


@pytest.mark.parametrize(("command", "kind"), [("reproduce", Options), ("compare", CompareOptions)])
def test_the_command_has_every_option(run, monkeypatch, command, kind):
    monkeypatch.setenv("COLUMNS", "200")
    text = run(command, "--help").stdout
    for flag in read_flags(kind).values():
        words = (
            [flag.metavar] if flag.is_argument else [word for name in flag.names for word in name.split("/")]
        )
        assert all(word in text for word in words)


def test_both_ways_in_offer_the_same():
    offered = {name for action in _build_parser()._actions for name in action.option_strings}
    assert {name for flag in read_flags(Options).values() for name in flag.names} <= offered


def test_what_is_not_given_has_its_default():
    given = dict.fromkeys(read_flags(Options)) | {"layers": [0, 2], "jobs": 3, "data_options": ["n_nodes=60"]}
    assert read_options(Options, given) == Options(layers=(0, 2), jobs=3, data_options={"n_nodes": 60})


def test_names_and_their_old_spelling(run):
    for name in ("--fine-tune-trials", "--tune-trials"):
        told = run("reproduce", "table1", name, "0", code=1).stderr
        assert "Options.tune_trials must be an integer >= 1, or None; got 0" in told
