from __future__ import annotations

import io

import pytest
from rich.console import Console

from gbgnn import datasets
from gbgnn.cli import screen
from gbgnn.cli.searching import _watching, load_hidden, study_name
from gbgnn.cli.source import Source
from gbgnn.errors import DataError
from gbgnn.search import Choice, SearchSpace, TrialReport, default_space


def _reports(n_trials: int, first: int = 1) -> list[TrialReport]:
    return [TrialReport("complete", i / 100, i / 100, i, n_trials) for i in range(first, n_trials + 1)]


def test_the_data_of_a_search_has_no_test_label() -> None:
    data = load_hidden(Source("csbm"))
    whole = datasets.load("csbm")
    seen = [*data.train, *data.val]
    assert data.y[seen].tolist() == whole.y[seen].tolist()
    assert set(data.y[whole.test].tolist()) == {-1}


def test_data_without_validation_nodes_is_refused() -> None:
    with pytest.raises(
        DataError, match="karate has no validation nodes, .* draw some with --split stratified"
    ):
        load_hidden(Source("karate"))


def test_studies_are_named_after_what_they_search() -> None:
    data = datasets.load("karate")
    space = default_space("ii", hidden_layers=2, fine_tune=True)
    assert study_name(data, space, seed=4) == "karate-injection-samme-L2-fine-tuned-seed4"
    assert (
        study_name(data, SearchSpace({}, {"rule": Choice(["samme", "gradient"])}), seed=0) == "karate-seed0"
    )


def test_elsewhere_about_ten_lines_with_the_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    with _watching(100, quiet=False) as watch:
        for report in _reports(100, first=51):
            watch(report)
        watch(TrialReport("failed", None, None, 100, 100))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("trial 51/100  complete 0.5100  best 0.5100  ")
    assert lines[0].endswith(" s left")
    assert lines[-1] == "trial 100/100  failed  best -  0 s left"
    assert len(lines) == 7


def test_quiet_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    with _watching(3, quiet=True) as watch:
        for report in _reports(3):
            watch(report)
    assert capsys.readouterr() == ("", "")


def test_on_a_terminal_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=100)
    monkeypatch.setattr(screen, "console", lambda stderr=False: console)
    with _watching(3, quiet=False) as watch:
        for report in _reports(3):
            watch(report)
    assert "3/3" in text.getvalue()
    assert "best 0.0300" in text.getvalue()
