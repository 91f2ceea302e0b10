"""Many runs on a terminal: how they go, and what came of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from gbgnn.cli import screen
from gbgnn.cli.command import INTERRUPTED
from gbgnn.cli.screen import Progress as Counter
from gbgnn.cli.screen import show_progress
from gbgnn_lab.experiments.jobs import LineProgress, Progress, describe_record, name_run
from gbgnn_lab.experiments.records import Fields, Record
from gbgnn_lab.experiments.report import Report


@contextmanager
def show_runs(*, quiet: bool) -> Iterator[Progress]:
    """Give what shows the progress of runs; after Ctrl-C, say how to go on."""
    try:
        if not (quiet or screen.console(stderr=True).is_terminal):
            yield LineProgress()
        else:
            with show_progress(quiet=quiet) as counter:
                yield BarProgress(counter)
    except KeyboardInterrupt:
        screen.note("interrupted; runs that had ended are recorded, and the same command goes on from there.")
        raise typer.Exit(INTERRUPTED) from None


class BarProgress(Progress):
    """A bar per stage, with the newest run beside it; failures stay on the screen."""

    def __init__(self, counter: Counter) -> None:
        self._counter = counter

    def on_stage(self, n_done: int, n_runs: int) -> None:
        """Draw a bar, where there is something to do."""
        self._n_done = n_done
        self._counter.begin("run", n_runs, n_done)

    def on_message(self, identity: Fields, words: str) -> None:
        """Show how the run goes."""
        self._counter.update(self._n_done, f"{name_run(identity)}: {words}")

    def on_record(self, record: Record) -> None:
        """Count the run, and show what came of it."""
        self._n_done += 1
        self._counter.update(self._n_done, describe_record(record))
        if record.failure is not None:
            self._counter.note(describe_record(record))


def show_report(report: Report, *, as_json: bool) -> None:
    """Print the tables, the notes, and where they are."""
    if as_json:
        screen.emit_json(
            {
                "title": report.title,
                "folder": str(report.folder),
                "files": [str(path) for path in report.files],
                "failed": report.n_failed,
                "notes": list(report.notes),
                "data": list(report.data),
            }
        )
        return
    for table in report.tables:
        screen.out(table.caption)
        cells = [
            [f"{entry.text}{f' {entry.mark}' if entry.mark else ''}" for entry in row] for row in table.rows
        ]
        screen.show_table(table.columns, cells, left=table.columns[: table.n_left])
    for note in report.notes:
        screen.out(note)
    if report.n_failed:
        screen.warn(f"{screen.counted(report.n_failed, 'run')} failed; the same command tries again.")
    if report.missing is not None:
        screen.warn(f"no figures: {report.missing}")
    screen.out(f"written to {report.folder}")
