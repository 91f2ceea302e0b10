from __future__ import annotations

import io

import pytest
from rich.console import Console

from gbgnn import GBGNNClassifier, datasets
from gbgnn.cli import screen
from gbgnn.cli.progress import watching


def _fit(callbacks, n_rounds: int = 25) -> None:
    data = datasets.load("karate")
    # SAMME.R never refuses a learner, however weak.
    model = GBGNNClassifier(n_rounds=n_rounds, rule="samme_r", callbacks=callbacks, random_state=0)
    model.set_params(learner__epochs=1, learner__units=2)
    model.fit(data.train, data.y[data.train], graph=data.graph)


def test_elsewhere_about_ten_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with watching(quiet=False) as callbacks:
        _fit(callbacks)
    lines = capsys.readouterr().err.splitlines()
    assert 10 <= len(lines) <= 11
    assert lines[0].startswith("round 1/25  loss ")
    assert "cosine" in lines[0]
    assert "val" not in lines[0]


def test_quiet_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    with watching(quiet=True) as callbacks:
        assert callbacks == []
    assert capsys.readouterr() == ("", "")


def test_on_a_terminal_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    screen_text = io.StringIO()
    console = Console(file=screen_text, force_terminal=True, width=100)
    monkeypatch.setattr(screen, "console", lambda stderr=False: console)
    with watching(quiet=False) as callbacks:
        _fit(callbacks, n_rounds=3)
    assert "3/3" in screen_text.getvalue()
    assert "loss" in screen_text.getvalue()
