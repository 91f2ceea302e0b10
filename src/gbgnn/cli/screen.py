"""Writing to the terminal: results to stdout, messages and progress to stderr, numbers in one style."""

from __future__ import annotations

import math
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from gbgnn._files import to_json

if TYPE_CHECKING:
    from rich.console import Console

_PIPED_WIDTH = 160
_PROSE_WIDTH = 30
_GAP = 3
# Signs that steer a terminal, or that turn the direction of the text after them.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_BLOCKS = "▁▂▃▄▅▆▇█"
_N_LINES = 10
# How columns of numbers are written: counts with commas, other numbers with four digits, but for these.
_FORMS = {
    **dict.fromkeys(("round", "t"), "d"),
    **dict.fromkeys(("eta", "alpha", "beta", "gamma_total"), ".4g"),
    **dict.fromkeys(("norm", "distance", "predicted", "energy"), ".4g"),
    **dict.fromkeys(("guaranteed", "actual"), ".3e"),
    **{"cosine": ".3f", "gradient_norm": ".3g", "effective_rank": ".1f", "seconds": ".2f"},
}


def console(*, stderr: bool = False) -> Console:
    """Return a rich console; where there is no terminal, lines may be long, because nobody folds them."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    folds = stream.isatty() or "COLUMNS" in os.environ
    return Console(stderr=stderr, width=None if folds else _PIPED_WIDTH, highlight=False)


def note(message: str, style: str | None = None) -> None:
    """Write a message to stderr, in style where rich is installed."""
    if find_spec("rich") is None:
        sys.stderr.write(f"{tamed(message)}\n")
        return
    console(stderr=True).print(tamed(message), style=style, markup=False, soft_wrap=True)


def warn(message: str) -> None:
    """Write a warning to stderr."""
    note(f"warning: {message}", "yellow")


def error(message: str) -> None:
    """Write an error to stderr."""
    note(f"error: {message}", "red")


def out(message: str = "") -> None:
    """Write a line of a result to stdout."""
    console().print(tamed(message), markup=False, soft_wrap=True)


def emit_json(value: Any) -> None:
    """Write one JSON value to stdout."""
    text = to_json(value, indent=2)  # which escapes the first 32 signs by itself
    sys.stdout.write(_CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")


def show_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    left: Sequence[str] = (),
    prose: str | None = None,
    drop: Sequence[str] = (),
) -> None:
    """Print a table to stdout, numbers to the right.

    The cells of the column ``prose`` may be folded; on a narrow terminal columns are dropped, the first of
    ``drop`` first.
    """
    from rich import box
    from rich.table import Table

    to = console()
    needs = {
        name: _PROSE_WIDTH if name == prose else max([len(name), *(len(row[i]) for row in rows)])
        for i, name in enumerate(columns)
    }
    for name in drop:
        if sum(needs.values()) + _GAP * len(needs) <= to.width:
            break
        needs.pop(name, None)
    kept = [i for i, name in enumerate(columns) if name in needs]
    result = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for i in kept:
        name = columns[i]
        result.add_column(escape(name), justify="left" if name in left else "right", no_wrap=name != prose)
    for row in rows:
        result.add_row(*(escape(row[i]) for i in kept))
    to.print(result)


def show_records(
    records: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    *,
    n_shown: int | None = None,
    best: int | None = None,
    heads: Mapping[str, str] | None = None,
    forms: Mapping[str, str] | None = None,
    **how: Any,
) -> list[int]:
    """Print records as a table, with those of the columns that have a value.

    About ``n_shown`` records are printed, evenly spread, and ``best``, which has a star. Return which.
    """
    shown = spread(len(records), n_shown or len(records), best or 0)
    columns = [name for name in columns if any(each[name] is not None for each in records)]
    own = _FORMS | dict(forms or {})
    rows = [[_write(records[i][name], own.get(name)) for name in columns] for i in shown]
    if best is not None:
        rows[shown.index(best)][0] = f"*{best + 1}"
    show_table([(heads or {}).get(name, name) for name in columns], rows, **how)
    return shown


def _write(value: Any, form: str | None) -> str:
    usual = {int: ",", float: ".4f"}.get(type(value), "")
    return number(value, usual if form is None else form)


def draw_curves(curves: Mapping[str, Sequence[float | None] | None], form: str, indent: int) -> str:
    """Return curves with their first and last values, empty where the terminal lacks the signs for it."""
    to, lines = console(), []
    for name, values in curves.items():
        if values and values[0] is not None and not to.options.ascii_only:
            line = sparkline(values, width=max(10, min(60, to.width - 45)))
            lines.append(f"  {name:<{indent}} {line} {number(values[0], form)} to {number(values[-1], form)}")
    return "\n".join(lines)


def spread(n: int, n_shown: int, always: int) -> list[int]:
    """Return about ``n_shown`` of ``n`` positions, evenly spread, ends and ``always`` among them."""
    if n <= n_shown:
        return list(range(n))
    gaps = max(1, n_shown - 1)
    return sorted({round(i * (n - 1) / gaps) for i in range(n_shown)} | {always})


def escape(cell: str) -> str:
    """Return text that rich prints as it is."""
    from rich.markup import escape as escaped

    return escaped(tamed(cell))


def printable(text: str) -> str:
    """Return a cell of a table for stdout as it is, for a terminal without what could steer it."""
    return tamed(text) if sys.stdout.isatty() else text


def tamed(text: str) -> str:
    """Return text that cannot steer a terminal, whatever a name in somebody's data holds."""
    return _CONTROLS.sub(lambda found: repr(found[0])[1:-1], text)


def number(value: float | None, form: str = ".4f") -> str:
    """Return a number for a table, a dash when there is none."""
    return "-" if value is None else format(value, form)


def counted(n: int, noun: str, plural: str | None = None) -> str:
    """Return a count with its noun."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def sparkline(values: Sequence[float | None], width: int = 60) -> str:
    """Return a line of blocks, the lowest value the lowest block; at most ``width`` of them."""
    numbers = [v for v in values if v is not None and math.isfinite(v)]
    if not numbers:
        return ""
    step = max(1.0, len(numbers) / width)
    shown = [numbers[int(i * step)] for i in range(int(len(numbers) / step))]
    low, high = min(shown), max(shown)
    span = high - low or 1.0
    top = len(_BLOCKS) - 1
    return "".join(_BLOCKS[math.floor((v - low) / span * top + 0.5)] for v in shown)


class Progress:
    """Counts without a word; its subclasses show it. ``begin`` again counts something else."""

    def begin(self, noun: str, total: int, done: int = 0) -> None:
        """Count from ``done`` to ``total`` of something, such as rounds."""

    def update(self, done: int, words: str = "", total: int | None = None) -> None:
        """Set how many are done, a few words on the newest one, and another total where that has changed."""

    def note(self, message: str) -> None:
        """Show a line that stays."""


@contextmanager
def show_progress(*, quiet: bool = False, n_lines: int | None = _N_LINES) -> Iterator[Progress]:
    """Give what shows progress, on stderr: bars on a terminal, else about ``n_lines`` lines per count.

    With None there is a line for each one done.
    """
    if quiet:
        yield Progress()
    elif find_spec("rich") is None or not (to := console(stderr=True)).is_terminal:
        yield _Lines(n_lines)
    else:
        progress = _Bars(to)
        with progress.bars:
            yield progress


class _Bars(Progress):
    def __init__(self, on: Console) -> None:
        from rich import progress as show
        from rich.table import Column

        one_line = Column(no_wrap=True)
        self.bars = show.Progress(
            show.TextColumn("{task.description}", table_column=one_line),
            show.MofNCompleteColumn(table_column=one_line),
            show.BarColumn(bar_width=min(30, max(5, on.width - 75))),
            show.TextColumn("{task.fields[numbers]}", table_column=one_line),
            show.TimeRemainingColumn(compact=True, elapsed_when_finished=True, table_column=one_line),
            console=on,
        )

    def begin(self, noun: str, total: int, done: int = 0) -> None:
        self._task = self.bars.add_task(noun, total=total, completed=done, numbers="", visible=total > 0)

    def update(self, done: int, words: str = "", total: int | None = None) -> None:
        if words:
            self.bars.update(self._task, numbers=escape(words))
        self.bars.update(self._task, completed=done, total=total)

    def note(self, message: str) -> None:
        self.bars.console.print(tamed(message), style="yellow", markup=False, soft_wrap=True)


class _Lines(Progress):
    def __init__(self, n_lines: int | None) -> None:
        self._n_lines = n_lines
        self._started = time.perf_counter()

    def begin(self, noun: str, total: int, done: int = 0) -> None:
        self._noun, self._total, self._first = noun, total, done
        self._begun, self._shown = time.perf_counter(), -1

    def update(self, done: int, words: str = "", total: int | None = None) -> None:
        self._total = self._total if total is None else total
        if words and done != self._shown and (self._shown < 0 or self._is_due(done)):
            note(f"{self._noun} {done}/{self._total}  {words}  {self._times(done)}")
            self._shown = done

    def note(self, message: str) -> None:
        note(message)

    def _is_due(self, done: int) -> bool:
        """Return whether another tenth is done, or whatever share makes the wanted number of lines."""
        if self._n_lines is None:
            return True
        return done * self._n_lines // self._total > (done - 1) * self._n_lines // self._total

    def _times(self, done: int) -> str:
        """Return the time since the start and, at the pace of this count, the time that is left."""
        now = time.perf_counter()
        left = (now - self._begun) / max(1, done - self._first) * (self._total - done)
        return f"{now - self._started:.1f} s" + (f", {left:.0f} s left" if left >= 1 else "")
