from __future__ import annotations

import io
import math
import re

import pytest
from rich.console import Console

from gbgnn import FineTuner, GBGNNClassifier, datasets
from gbgnn.callbacks import ShowProgress
from gbgnn.cli import screen
from gbgnn.cli.screen import show_progress


def test_messages_go_to_stderr_results_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    screen.error("no [bold] here")
    screen.warn("w")
    screen.out("r")
    told = capsys.readouterr()
    assert told.err == "error: no [bold] here\nwarning: w\n"
    assert told.out == "r\n"


def test_long_lines_are_not_folded(capsys: pytest.CaptureFixture[str]) -> None:
    screen.error("x" * 500)
    assert capsys.readouterr().err == f"error: {'x' * 500}\n"


def test_tables_print_brackets_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    screen.show_table(("name", "n"), [("[red]", "1")], left=("name",))
    assert "[red]" in capsys.readouterr().out


def test_a_table_without_rows_shows_its_headings(capsys):
    screen.show_table(("name", "n"), [])
    assert capsys.readouterr().out.split()[:2] == ["name", "n"]


@pytest.mark.parametrize(("width", "there"), [(80, "a b c prose"), (50, "a c prose"), (40, "a prose")])
def test_narrow_terminals_lose_the_columns_that_matter_least(
    width: int, there: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    row = ("1" * 4, "2" * 10, "3" * 4, "some words " * 5)
    screen.show_table(("a", "b", "c", "prose"), [row], prose="prose", drop=("b", "c"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == there.split()
    assert max(map(len, lines)) <= width


def test_sparkline_keeps_to_its_width() -> None:
    assert len(screen.sparkline([float(i) for i in range(1000)], width=40)) == 40
    assert screen.sparkline([1.0, 1.0]) == "▁▁"
    assert screen.sparkline([None, math.nan]) == ""


def test_names_in_data_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    screen.note("class \x1b[2J")
    screen.out("a\tb\x07")
    screen.show_table(("name",), [("\x1b]0;x",)], left=("name",))
    told = capsys.readouterr()
    assert told.err == "class \\x1b[2J\n"
    assert told.out.startswith("a")
    assert "\x1b" not in told.out
    assert "\x07" not in told.out


def _fit(progress, n_rounds: int = 25, validation: int = 0, known: int = 0, **settings: object) -> None:
    data = datasets.load("karate")
    # SAMME.R never refuses a learner, however weak.
    model = GBGNNClassifier(n_rounds=n_rounds, rule="samme_r", random_state=0)
    model.set_params(learner__epochs=1, learner__units=2, **settings)
    nodes = data.test[:validation]
    given = (nodes, data.y[nodes]) if validation else None
    if known:
        model.set_params(n_rounds=known, warm_start=True)
        model.fit(data.train, data.y[data.train], graph=data.graph, validation=given)
    model.set_params(n_rounds=n_rounds, callbacks=[ShowProgress(progress)])
    model.fit(data.train, data.y[data.train], graph=data.graph, validation=given)


def _on_a_terminal(monkeypatch: pytest.MonkeyPatch, **settings: object) -> str:
    """Return the bars as they are left standing, without colours."""
    screen_text = io.StringIO()
    console = Console(file=screen_text, force_terminal=True, color_system=None, width=100)
    monkeypatch.setattr(screen, "console", lambda stderr=False: console)
    with show_progress() as progress:
        _fit(progress, **settings)
    return screen_text.getvalue().rsplit("\x1b[2K", 2)[-1]


def test_elsewhere_about_ten_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress() as progress:
        _fit(progress)
    lines = capsys.readouterr().err.splitlines()
    assert 10 <= len(lines) <= 11
    assert lines[0].startswith("round 1/25  loss ")
    assert "  cos " in lines[0]
    assert "val" not in lines[0]


def test_quiet_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress(quiet=True) as progress:
        _fit(progress, n_rounds=2)
        progress.note("a word")
    assert capsys.readouterr() == ("", "")


def test_elsewhere_about_ten_lines_on_the_epochs_too(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress() as progress:
        _fit(progress, n_rounds=1, validation=8, fine_tune=FineTuner(epochs=40))
    rounds, *epochs = capsys.readouterr().err.splitlines()
    assert rounds.startswith("round 1/1  ")
    assert [line.split()[:2] for line in epochs] == [["epoch", f"{k}/40"] for k in range(0, 41, 4)]
    assert all("  loss " in line and "  val " in line and " s" in line.split("val")[1] for line in epochs)


def test_elsewhere_fine_tuning_without_epochs_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress() as progress:
        _fit(progress, n_rounds=1, fine_tune=FineTuner(epochs=0))
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


def test_replayed_rounds_are_no_news(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress() as progress:
        _fit(progress, n_rounds=4, known=2)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split("  ")[0] for line in lines] == ["round 3/4", "round 4/4"]


def test_lines_tell_the_time_that_is_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr("gbgnn.cli.screen.time.perf_counter", lambda: now[0])
    with show_progress() as progress:
        progress.begin("trial", 100, done=50)
        for done in range(51, 101):
            now[0] += 2
            progress.update(done, "best 0.8")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "trial 51/100  best 0.8  2.0 s, 98 s left"
    assert lines[-1] == "trial 100/100  best 0.8  100.0 s"
    assert len(lines) == 6


def test_every_update_has_a_line_where_that_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress(n_lines=None) as progress:
        progress.begin("run", 30)
        for done in range(1, 31):
            progress.update(done, "done")
        progress.note("run 3 failed")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 31
    assert lines[-1] == "run 3 failed"


def test_notes_stay_above_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, color_system=None, width=100)
    monkeypatch.setattr(screen, "console", lambda stderr=False: console)
    with show_progress() as progress:
        progress.begin("run", 2)
        progress.note("run 1 failed: [too large]")
        progress.update(1, "done")
    assert "run 1 failed: [too large]\n" in text.getvalue()


def test_text_that_runs_backwards_is_shown_by_its_number(capsys: pytest.CaptureFixture[str]) -> None:
    screen.out("a\u202eb")
    screen.emit_json({"\x9b31m": "\u2066"})
    assert capsys.readouterr().out.splitlines() == ["a\\u202eb", "{", '  "\\u009b31m": "\\u2066"', "}"]


def test_cells_are_tamed_for_terminals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    assert screen.printable("\x1b[31m") == "\x1b[31m"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert screen.printable("\x1b[31m") == "\\x1b[31m"
