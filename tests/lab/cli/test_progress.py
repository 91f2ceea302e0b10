from __future__ import annotations

import io

import pytest
import typer
from rich.console import Console
from rich.progress import Progress, TextColumn

from gbgnn.cli import screen
from gbgnn_lab.cli.progress import BarProgress, show_progress, show_report
from gbgnn_lab.experiments import Progress as Silent
from gbgnn_lab.experiments import Record, Report
from gbgnn_lab.experiments.progress import LineProgress
from gbgnn_lab.experiments.report import Entry, Table

RUN = {"dataset": "cora", "variant": "adj", "hidden_layers": 1, "fine_tune": False, "run": 0}


def test_a_bar_shows_the_newest_run_and_keeps_failures():
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=120)
    with Progress(
        TextColumn("{task.completed}/{task.total} {task.fields[numbers]}"), console=console
    ) as progress:
        bar = BarProgress(progress)
        bar.on_stage(1, 3)
        bar.on_message(RUN, "trial 5 of 9")
        (task,) = progress.tasks
        assert task.fields["numbers"] == "cora, adj, L = 1, run 0: trial 5 of 9"
        bar.on_record(Record(RUN, results={"test_accuracy": 0.8}))
        assert (task.completed, task.fields["numbers"]) == (2, "cora, adj, L = 1, run 0: test 80.0; 0.0 s")
        bar.on_record(Record(RUN, failure="too large"))
        bar.on_stage(0, 0)
        assert not progress.tasks[1].visible
    assert "failed: too large" in out.getvalue()


def test_there_is_a_bar_on_a_terminal_and_lines_elsewhere(monkeypatch):
    with show_progress(quiet=False) as watch:
        assert isinstance(watch, LineProgress)
    with show_progress(quiet=True) as watch:
        assert type(watch) is Silent
    terminal = Console(file=io.StringIO(), force_terminal=True)
    monkeypatch.setattr(screen, "console", lambda **options: terminal)
    with show_progress(quiet=False) as watch:
        assert isinstance(watch, BarProgress)


def test_an_interrupt_is_exit_code_130(capsys):
    with pytest.raises(typer.Exit) as raised, show_progress(quiet=True):
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
