from __future__ import annotations

import io

import pytest
import typer
from rich.console import Console
from rich.progress import Progress, TextColumn

from gbgnn.cli import screen
from gbgnn_lab.cli import progress as watching
from gbgnn_lab.cli.progress import Bar
from gbgnn_lab.experiments import Record, Report, Watch
from gbgnn_lab.experiments.pages import Entry, Page, Table
from gbgnn_lab.experiments.telling import Lines

RUN = {"dataset": "cora", "variant": "adj", "hidden_layers": 1, "fine_tune": False, "run": 0}


def test_a_bar_shows_the_newest_run_and_keeps_failures():
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=120)
    with Progress(
        TextColumn("{task.completed}/{task.total} {task.description}"), console=console
    ) as progress:
        bar = Bar(progress)
        bar.on_stage(1, 3)
        bar.on_words(RUN, "trial 5 of 9")
        (task,) = progress.tasks
        assert task.description == "cora, adj, L = 1, run 0: trial 5 of 9"
        bar.on_record(Record(RUN, results={"test_accuracy": 0.8}))
        assert (task.completed, task.description) == (2, "cora, adj, L = 1, run 0: test 80.0; 0.0 s")
        bar.on_record(Record(RUN, failure="too large"))
        bar.on_stage(0, 0)
        assert not progress.tasks[1].visible
    assert "failed: too large" in out.getvalue()


def test_there_is_a_bar_on_a_terminal_and_lines_elsewhere(monkeypatch):
    with watching.watching(quiet=False) as watch:
        assert isinstance(watch, Lines)
    with watching.watching(quiet=True) as watch:
        assert type(watch) is Watch
    terminal = Console(file=io.StringIO(), force_terminal=True)
    monkeypatch.setattr(screen, "console", lambda **options: terminal)
    with watching.watching(quiet=False) as watch:
        assert isinstance(watch, Bar)


def test_an_interrupt_is_exit_code_130(capsys):
    with pytest.raises(typer.Exit) as raised, watching.watching(quiet=True):
        raise KeyboardInterrupt
    assert raised.value.exit_code == 130
    assert "the same command goes on from there" in capsys.readouterr().err


def test_tables_notes_and_warnings_are_shown(tmp_path, capsys):
    table = Table("Caption", ["Model", "Cora"], [[Entry("A"), Entry("80.1", strong=True, mark="a")]])
    page = Page("Title", [table], ["A note."])
    watching.show(Report(page, tmp_path, (), 2, "drawing needs matplotlib."), as_json=False)
    told = capsys.readouterr()
    for words in ("Caption", "80.1 a", "A note.", f"written to {tmp_path}"):
        assert words in told.out
    assert "warning: 2 runs failed; the same command tries again." in told.err
    assert "warning: no figures: drawing needs matplotlib." in told.err
