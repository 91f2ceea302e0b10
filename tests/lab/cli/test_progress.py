from __future__ import annotations

import io

import pytest
import typer
from rich.console import Console

from gbgnn.cli import screen
from gbgnn_lab.cli.progress import BarProgress, show_report, show_runs
from gbgnn_lab.experiments import Record, Report
from gbgnn_lab.experiments.jobs import LineProgress
from gbgnn_lab.experiments.report import Entry, Table

RUN = {"dataset": "cora", "variant": "adj", "hidden_layers": 1, "fine_tune": False, "run": 0}


@pytest.fixture
def shown(monkeypatch):
    """What a terminal shows."""
    out = io.StringIO()
    terminal = Console(file=out, force_terminal=True, color_system=None, width=150)
    monkeypatch.setattr(screen, "console", lambda **options: terminal)
    return out


def test_a_bar_shows_the_newest_run_and_keeps_failures(shown):
    with show_runs(quiet=False) as progress:
        assert isinstance(progress, BarProgress)
        progress.on_stage(1, 3)
        progress.on_message(RUN, "trial 5 of 9")
        progress._counter._bars.refresh()
        assert "1/3" in shown.getvalue()
        assert "cora, adj, L = 1, run 0: trial 5 of 9" in shown.getvalue()
        progress.on_record(Record(RUN, results={"test_accuracy": 0.8}))
        progress._counter._bars.refresh()
        assert "2/3" in shown.getvalue()
        assert "cora, adj, L = 1, run 0: test 80.0; 0.0 s" in shown.getvalue()
        progress.on_record(Record(RUN, failure="too large"))
        progress.on_stage(0, 0)
    assert "failed: too large" in shown.getvalue()
    assert "0/0" not in shown.getvalue()


def test_elsewhere_there_are_lines_and_where_it_is_quiet_nothing(capsys):
    with show_runs(quiet=False) as progress:
        assert isinstance(progress, LineProgress)
    with show_runs(quiet=True) as progress:
        progress.on_stage(0, 1)
        progress.on_record(Record(RUN, failure="too large"))
    assert capsys.readouterr().err == ""


def test_an_interrupt_is_exit_code_130(capsys):
    with pytest.raises(typer.Exit) as raised, show_runs(quiet=True):
        raise KeyboardInterrupt
    assert raised.value.exit_code == 130
    assert "the same command goes on from there" in capsys.readouterr().err


def test_tables_notes_and_warnings_are_shown(tmp_path, capsys):
    table = Table("Caption", ["Model", "Cora"], [[Entry("A"), Entry("80.1", strong=True, mark="a")]])
    made = Report(
        "Title", [table], ["A note."], n_failed=2, folder=tmp_path, missing="drawing needs matplotlib."
    )
    show_report(made, as_json=False)
    told = capsys.readouterr()
    for words in ("Caption", "80.1 a", "A note.", f"written to {tmp_path}"):
        assert words in told.out
    assert "warning: 2 runs failed; the same command tries again." in told.err
    assert "warning: no figures: drawing needs matplotlib." in told.err
