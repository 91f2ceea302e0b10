from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest
import torch
import typer

from gbgnn.cli import screen
from gbgnn.cli.command import (
    UsageError,
    as_split,
    describe_shortage,
    epilog,
    guarded,
    key_values,
    read_help,
    with_help,
)
from gbgnn.errors import GBGNNWarning, ParameterError


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was written to stderr."""
    told: list[str] = []
    monkeypatch.setattr(screen, "note", lambda message, style=None: told.append(message))
    return told


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ParameterError("units must be 1; got [0]."), 1, "error: units must be 1; got [0]."),
        (UsageError("--a does not go with --b."), 2, "error: --a does not go with --b."),
        (FileNotFoundError(2, "No such file", "x.toml"), 1, "error: x.toml: No such file."),
        (OSError("disk is full"), 1, "error: disk is full"),
        (KeyboardInterrupt(), 130, "interrupted."),
    ],
    ids=lambda value: type(value).__name__,
)
def test_expected_failures_are_one_line_and_a_code(error, code: int, line: str, lines: list[str]) -> None:
    def command() -> None:
        raise error

    with pytest.raises(typer.Exit) as caught, guarded():
        command()
    assert caught.value.exit_code == code
    assert lines == [line]


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError(5, "Input/output error", "x.npy"), "error: x.npy: Input/output error. Go on with --resume."),
        (KeyboardInterrupt(), "Go on with --resume."),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_was_noted_in_a_failure_is_told(error: BaseException, line: str, lines: list[str]) -> None:
    error.add_note("Go on with --resume.")
    with pytest.raises(typer.Exit), guarded():
        raise error
    assert lines == [line]


def test_parameters_have_the_words_of_the_help_and_a_claim_has_one_flag() -> None:
    def command(data_dir: Path | None = None, force: bool = False, own: Annotated[int, "known"] = 1) -> None:
        """Do nothing."""

    data_dir, force, own = inspect.signature(with_help(command)).parameters.values()
    (made,) = data_dir.annotation.__metadata__
    assert (made.rich_help_panel, made.help[:17]) == ("Data", "Folder to look in")
    assert force.annotation.__metadata__[0].default == "--force"
    assert own.annotation == Annotated[int, "known"]
    with pytest.raises(KeyError, match="unheard"):
        with_help(lambda unheard: None)


def test_a_broken_pipe_says_nothing(lines: list[str]) -> None:
    def command() -> None:
        raise BrokenPipeError

    with pytest.raises(typer.Exit) as caught, guarded():
        command()
    assert caught.value.exit_code == 141
    assert lines == []


def test_bugs_keep_their_traceback() -> None:
    def command() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), guarded():
        command()


@pytest.mark.filterwarnings("always")
def test_warnings_of_the_library_are_one_line(lines: list[str]) -> None:
    def command() -> None:
        warnings.warn("this round adds nothing.", GBGNNWarning, stacklevel=2)

    with guarded():
        command()
    assert lines == ["warning: this round adds nothing."]


@pytest.mark.filterwarnings("always")
def test_other_warnings_stay_as_they_are(lines: list[str]) -> None:
    def command() -> None:
        warnings.warn("old", DeprecationWarning, stacklevel=2)

    with pytest.warns(DeprecationWarning, match="old"), guarded():
        command()
    assert lines == []


def test_help_unfolds_paragraphs_and_examples_follow() -> None:
    def command() -> None:
        """Say one thing.

        Then say another
        in two lines.
        """

    assert read_help(command) == "Say one thing.\n\nThen say another in two lines."
    assert "$ gbgnn fit" in epilog("fit")


def test_values_are_read_as_toml() -> None:
    assert key_values(["a=1", "b=x=y", "c=[1, 2]"], "--f") == {"a": 1, "b": "x=y", "c": [1, 2]}
    assert key_values(None, "--f") == {}


@pytest.mark.parametrize("word", ["a", "=1", "a b=1"])
def test_words_without_name_or_value_are_refused(word: str) -> None:
    with pytest.raises(UsageError, match="--f must look like NAME=VALUE; got"):
        key_values([word], "--f")


def test_folds_are_numbers() -> None:
    assert as_split("3") == 3
    assert as_split("stratified") == "stratified"
    assert as_split(None) is None


CUDA = "CUDA out of memory. Tried to allocate 20.50 GiB. GPU 0 has a total capacity of 139 GiB."


@pytest.mark.parametrize(
    ("ask", "line"),
    [
        (lambda: np.empty((2**20, 2**30)), "not enough memory: 8.00 PiB more were asked for than there are"),
        (lambda: torch.empty(2**50), "not enough memory: 4,194,304.00 GiB more were asked for"),
        (lambda: _fail(MemoryError()), "not enough memory: more was asked for than there is"),
        (
            lambda: _fail(torch.cuda.OutOfMemoryError(CUDA)),
            "the GPU has not enough memory: 20.50 GiB more were",
        ),
    ],
    ids=["NumPy", "torch", "Python", "CUDA"],
)
def test_a_lack_of_memory_is_one_line_with_what_was_asked_for(
    ask: Callable[[], object], line: str, lines: list[str]
) -> None:
    with pytest.raises(typer.Exit) as caught, guarded():
        ask()
    assert caught.value.exit_code == 1
    assert len(lines) == 1
    assert lines[0].startswith(f"error: {line}")
    assert "--dtype float32" in lines[0]


def test_other_failures_at_run_time_are_bugs() -> None:
    assert describe_shortage(RuntimeError("shapes do not match")) is None
    with pytest.raises(RuntimeError, match="shapes do not match"), guarded():
        _fail(RuntimeError("shapes do not match"))


def _fail(error: BaseException) -> None:
    raise error


@dataclass(frozen=True, kw_only=True)
class Group:
    """Options that several commands share."""

    dataset: str | None = None
    directed: bool = False


def test_a_dataclass_of_options_stands_for_its_fields() -> None:
    taken: list[object] = []

    def fit(group: Group, quiet: bool = False) -> None:
        """Train."""
        taken.append((group, quiet))

    command = with_help(fit)
    assert list(inspect.signature(command).parameters) == ["dataset", "directed", "quiet"]
    command(dataset="karate", directed=True, quiet=True)
    ((group, quiet),) = taken
    assert (group, quiet) == (Group(dataset="karate", directed=True), True)
    assert read_help(command) == "Train."
