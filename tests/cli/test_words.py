"""What the command says is in the words of the command."""

from __future__ import annotations

import pytest

from gbgnn.cli.words import in_options

FAST = ("--preset", "fast", "--rounds", "1", "--epochs", "1")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--rounds", "0"), "--rounds must be an integer >= 1; got 0."),
        (("--lr", "-1"), "--lr must be in (0, inf); got -1.0."),
        (("--hidden-layers", "9"), "--hidden-layers must be an integer from 0 to 4; got 9."),
        (("--learning-rate", "5"), "--learning-rate must be in (0, 2); got 5.0."),
        (("--split", "7"), "--split must be an integer from 0 to 4; got 7."),
        (("--split", "stratified", "--split-seed", "-1"), "--split-seed must be an integer >= 0; got -1."),
        (("--split-seed", "-1"), "--split-seed must be an integer >= 0; got -1."),
        (("--select", "validation"), "--select validation needs validation nodes; give data with validation"),
        (("--n-iter-no-change", "3"), "there are none; give data with validation nodes (--split stratified"),
        (("--device", "cuda"), "--device cuda, but torch finds no CUDA device"),
        (("--class-weight", "foo"), '--class-weight foo does not fit: it is "balanced", a weight for each'),
        (
            ("--split", "random", "--data-option", "per_class=99"),
            "lower it with --data-option, or use --split",
        ),
    ],
)
def test_errors_name_options(run, words, message, monkeypatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert message in run("fit", "karate", *FAST, *words, "--out", "r", code=1).stderr


def test_what_is_no_option_stays() -> None:
    for message in ("Nobody.knows must be 1.", "x='y' is text.", "Graph.features must be numbers."):
        assert in_options(message, {"n_rounds": "--rounds"}) == message


def test_a_setting_of_fine_tuning_has_its_own_option() -> None:
    flags = {"fine_tune__epochs": "--fine-tune-epochs"}
    assert in_options("FineTuner.epochs must be 1.", flags) == "--fine-tune-epochs must be 1."


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[data]\ndataset = 3\n", "data.dataset must be text; got 3"),
        ('[data]\ndataset = "karate"\nsplit_seed = 0.5\n', "data.split_seed must be a whole number; got 0.5"),
        ('[data]\ndataset = "karate"\nsplit_seed = true\n', "data.split_seed must be a whole number"),
        ('[data]\ndataset = "karate"\noptions = 3\n', "data.options must be a table; got 3"),
        ('[data]\nnodes = "n"\nedges = [1]\n', "data.edges must be a list of paths; got [1]"),
        ('fine_tune = {moves = 3}\n[data]\ndataset = "karate"\n', "moves must be one or more of"),
        ('class_weight = [1]\n[data]\ndataset = "karate"\n', "class_weight=[1] does not fit"),
        ("a = " + "[" * 5000, "is not a TOML file"),
    ],
)
def test_a_config_of_other_kinds_is_an_error(run, text, message, tmp_path) -> None:
    (tmp_path / "c.toml").write_text(text)
    assert message in run("fit", "--config", "c.toml", *FAST, "--out", "r", code=1).stderr


def test_a_pipe_is_no_config(run, tmp_path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe.toml")
    assert "pipe.toml is not a file" in run("fit", "--config", "pipe.toml", code=1).stderr


@pytest.mark.parametrize(
    "words", [("--rounds", "\x1b[31mred"), ("--rule\x1b[31mred",), ("--learner", "\x1b[31mred")]
)
def test_what_was_given_cannot_steer_the_terminal(run, words) -> None:
    code = 1 if words[0] == "--learner" else 2
    assert "\x1b[31m" not in run("fit", "karate", *words, code=code).stderr


def test_a_seed_among_the_options_of_the_data_is_checked(run) -> None:
    words = ("--config", "c.toml", *FAST)
    from pathlib import Path

    Path("c.toml").write_text('[data]\ndataset = "csbm"\nsplit_seed = -1\n')
    assert "must be an integer >= 0; got -1" in run("fit", *words, code=1).stderr
