from __future__ import annotations

import io
import os
import signal

import pytest
from rich.console import Console

from gbgnn.cli import screen
from gbgnn_lab.cli import show_report
from gbgnn_lab.experiments import RecordFile, Report, jobs
from gbgnn_lab.experiments.jobs import Outcome, run_jobs, single_jobs
from gbgnn_lab.experiments.report import Entry, Table

CELL = {"dataset": "cora", "variant": "adj", "hidden_layers": 1, "fine_tune": False}


@pytest.fixture
def shown(monkeypatch):
    """What a terminal shows."""
    out = io.StringIO()
    terminal = Console(file=out, force_terminal=True, color_system=None, width=150)
    monkeypatch.setattr(screen, "console", lambda **options: terminal)
    return out


def test_a_bar_shows_the_newest_run_and_keeps_failures(shown, tmp_path):
    file = RecordFile(tmp_path / "records.jsonl")
    with screen.show_progress(n_lines=None) as progress:

        def work(run, tell):
            tell("trial 5 of 9")
            progress._bars.refresh()
            if run == 2:
                raise MemoryError("too large")
            return Outcome(results={"test_accuracy": 0.8})

        run_jobs(single_jobs(CELL, 1, work), file)
        run_jobs(single_jobs(CELL, 3, work), file, progress=progress)
        assert "1/3" in shown.getvalue()
        assert "cora, adj, L = 1, run 1: trial 5 of 9" in shown.getvalue()
        assert "2/3" in shown.getvalue()
        run_jobs(single_jobs(CELL, 2, work), file, progress=progress)
        progress._bars.refresh()
        run_jobs([], file, progress=progress)
    assert "cora, adj, L = 1, run 2: failed: MemoryError: too large" in shown.getvalue()
    assert "0/0" not in shown.getvalue()


def test_where_it_is_quiet_there_is_nothing(tmp_path, capsys):
    with screen.show_progress(quiet=True) as progress:
        failing = single_jobs(CELL, 1, lambda run, tell: 1 / 0)
        run_jobs(failing, RecordFile(tmp_path / "records.jsonl"), progress=progress)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
@pytest.mark.parametrize(
    "words",
    [("reproduce", "depth", "--runs", "1", "--depth", "1", "--dataset"), ("compare",)],
    ids=lambda w: w[0],
)
def test_a_signal_has_its_exit_code_and_it_is_said_how_to_go_on(run, monkeypatch, words, name, code):
    def interrupted(*job):
        os.kill(os.getpid(), getattr(signal, name))
        return []

    for way in ("run_job", "_run_apart"):
        monkeypatch.setattr(jobs, way, interrupted)
    told = run(*words, "csbm", "--system", "sgc", "--device", "cpu", code=code).stderr
    assert "runs that had ended are recorded, and the same command goes on from there" in told


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
