from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from gbgnn import FineTuner, GBGNNClassifier, datasets
from gbgnn.cli import screen
from gbgnn.cli.progress import watching
from gbgnn.cli.training import _NewRounds


def _fit(callbacks, n_rounds: int = 25, validation: int = 0, **settings: object) -> None:
    data = datasets.load("karate")
    # SAMME.R never refuses a learner, however weak.
    model = GBGNNClassifier(n_rounds=n_rounds, rule="samme_r", callbacks=callbacks, random_state=0)
    model.set_params(learner__epochs=1, learner__units=2, **settings)
    nodes = data.test[:validation]
    known = (nodes, data.y[nodes]) if validation else None
    model.fit(data.train, data.y[data.train], graph=data.graph, validation=known)


def _on_a_terminal(monkeypatch: pytest.MonkeyPatch, known: int = 0, **settings: object) -> str:
    """Return the bars as they are left standing, without colours."""
    screen_text = io.StringIO()
    console = Console(file=screen_text, force_terminal=True, color_system=None, width=100)
    monkeypatch.setattr(screen, "console", lambda stderr=False: console)
    with watching(quiet=False) as callbacks:
        _fit([_NewRounds(c, known) for c in callbacks], **settings)
    return screen_text.getvalue().rsplit("\x1b[2K", 2)[-1]


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


def test_elsewhere_about_ten_lines_on_the_epochs_too(capsys: pytest.CaptureFixture[str]) -> None:
    with watching(quiet=False) as callbacks:
        _fit(callbacks, n_rounds=1, validation=8, fine_tune=FineTuner(epochs=40))
    rounds, *epochs = capsys.readouterr().err.splitlines()
    assert rounds.startswith("round 1/1  ")
    assert [line.split()[:2] for line in epochs] == [["epoch", f"{k}/40"] for k in range(0, 41, 4)]
    assert all("  loss " in line and "  val " in line and line.endswith(" s") for line in epochs)


def test_elsewhere_fine_tuning_without_epochs_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with watching(quiet=False) as callbacks:
        _fit(callbacks, n_rounds=1, fine_tune=FineTuner(epochs=0))
    assert capsys.readouterr().err.splitlines()[1].startswith("epoch 0/0  loss ")


def test_on_a_terminal_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    text = _on_a_terminal(monkeypatch, n_rounds=3)
    assert "round 3/3 ━" in text
    assert "loss" in text
    assert "epoch" not in text


def test_on_a_terminal_a_second_bar_for_the_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    text = _on_a_terminal(monkeypatch, n_rounds=3, validation=8, fine_tune=FineTuner(epochs=5))
    assert "epoch 5/5 ━" in text
    assert "  val " in text


def test_bars_are_full_where_it_ended_early(monkeypatch: pytest.MonkeyPatch) -> None:
    harsh = FineTuner(epochs=99, optimizer="sgd", learning_rate=5.0, patience=1)
    settings = {"validation": 8, "n_iter_no_change": 1, "fine_tune": harsh}
    text = _on_a_terminal(monkeypatch, n_rounds=99, **settings)
    counts = re.findall(r"(?:round|epoch)\s+(\d+)/(\d+) ━", text)
    assert len(counts) == 2
    assert all(done == total != "99" for done, total in counts)


def test_bar_is_full_where_no_round_was_new(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "round 3/3 ━" in _on_a_terminal(monkeypatch, known=3, n_rounds=3)
