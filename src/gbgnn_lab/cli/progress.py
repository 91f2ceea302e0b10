"""Many runs: how they go, and what came of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from gbgnn.cli import screen
from gbgnn.cli.command import INTERRUPTED
from gbgnn_lab.experiments import Record, Report, Watch
from gbgnn_lab.experiments.records import Fields
from gbgnn_lab.experiments.telling import Lines, describe, name_run

if TYPE_CHECKING:
    from rich.progress import Progress


@contextmanager
def watching(*, quiet: bool) -> Iterator[Watch]:
    """Give what shows the progress of runs; after Ctrl-C, say how to go on."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Column

    console = screen.console(stderr=True)
    try:
        if quiet:
            yield Watch()
        elif not console.is_terminal:
            yield Lines()
        else:
            columns = (
                TextColumn("run"),
                MofNCompleteColumn(),
                BarColumn(bar_width=min(20, max(5, console.width - 90))),
                TimeRemainingColumn(compact=True, elapsed_when_finished=True),
                TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True)),
            )
            with Progress(*columns, console=console) as progress:
                yield Bar(progress)
    except KeyboardInterrupt:
        screen.note("interrupted; runs that had ended are recorded, and the same command goes on from there.")
        raise typer.Exit(INTERRUPTED) from None


class Bar(Watch):
    """A bar per stage, with the newest run beside it; failures stay on the screen."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def on_stage(self, n_done: int, n_runs: int) -> None:
        """Draw a bar, where there is something to do."""
        self._task = self._progress.add_task("", total=n_runs, completed=n_done, visible=n_runs > 0)

    def on_words(self, identity: Fields, words: str) -> None:
        """Show how the run goes."""
        self._progress.update(self._task, description=f"{name_run(identity)}: {words}")

    def on_record(self, record: Record) -> None:
        """Move on."""
        self._progress.update(self._task, advance=1, description=describe(record))
        if record.failure is not None:
            self._progress.console.print(describe(record), markup=False, style="yellow", soft_wrap=True)


def show(report: Report, *, as_json: bool) -> None:
    """Print the tables, the notes, and where they are."""
    page = report.page
    if as_json:
        screen.emit_json(
            {
                "title": page.title,
                "folder": str(report.folder),
                "files": [str(path) for path in report.files],
                "failed": report.n_failed,
                "notes": list(page.notes),
                "data": list(page.data),
            }
        )
        return
    for table in page.tables:
        screen.out(table.caption)
        cells = [
            [f"{entry.text}{f' {entry.mark}' if entry.mark else ''}" for entry in row] for row in table.rows
        ]
        screen.show_table(table.columns, cells, left=table.columns[: table.n_left])
    for note in page.notes:
        screen.out(note)
    if report.n_failed:
        screen.warn(f"{screen.counted(report.n_failed, 'run')} failed; the same command tries again.")
    if report.missing is not None:
        screen.warn(f"no figures: {report.missing}")
    screen.out(f"written to {report.folder}")
