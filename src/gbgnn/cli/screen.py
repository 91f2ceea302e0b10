"""Writing to the terminal: results to stdout, messages to stderr, numbers in one style."""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gbgnn._json import to_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

_PIPED_WIDTH = 160
_PROSE_WIDTH = 30
_GAP = 3
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_BLOCKS = "▁▂▃▄▅▆▇█"


def console(*, stderr: bool = False) -> Console:
    """Return a rich console; where there is no terminal, lines may be long, because nobody folds them."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    folds = stream.isatty() or "COLUMNS" in os.environ
    return Console(stderr=stderr, width=None if folds else _PIPED_WIDTH, highlight=False)


def bar(on: Console) -> Progress:
    """Return bars that tell what is counted, how far it is, some numbers, and the time that is left."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Column

    return Progress(
        TextColumn("{task.description}", table_column=Column(no_wrap=True)),
        MofNCompleteColumn(table_column=Column(no_wrap=True)),
        BarColumn(bar_width=min(30, max(5, on.width - 75))),
        TextColumn("{task.fields[numbers]}", table_column=Column(no_wrap=True)),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True, table_column=Column(no_wrap=True)),
        console=on,
    )


def note(message: str, style: str | None = None) -> None:
    """Write a message to stderr."""
    console(stderr=True).print(_printable(message), style=style, markup=False, soft_wrap=True)


def warn(message: str) -> None:
    """Write a warning to stderr."""
    note(f"warning: {message}", "yellow")


def error(message: str) -> None:
    """Write an error to stderr."""
    note(f"error: {message}", "red")


def out(message: str = "") -> None:
    """Write a line of a result to stdout."""
    console().print(_printable(message), markup=False, soft_wrap=True)


def emit_json(value: Any) -> None:
    """Write one JSON value to stdout."""
    sys.stdout.write(to_json(value, indent=2) + "\n")


def show_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    left: Sequence[str] = (),
    prose: str | None = None,
    drop: Sequence[str] = (),
) -> None:
    """Print a table to stdout.

    Parameters
    ----------
    columns, rows
        Headings, and a cell for each in every row.
    left
        Columns to align left; numbers go right.
    prose
        The column whose cells may be folded.
    drop
        Columns to leave out on a narrow terminal, the first first.
    """
    from rich import box
    from rich.table import Table

    to = console()
    kept = _fitting(columns, rows, to.width, prose, drop)
    result = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for i in kept:
        name = columns[i]
        result.add_column(name, justify="left" if name in left else "right", no_wrap=name != prose)
    for row in rows:
        result.add_row(*(escape(row[i]) for i in kept))
    to.print(result)


def _fitting(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int,
    prose: str | None,
    drop: Sequence[str],
) -> list[int]:
    """Return the positions of the columns that fit into ``width``."""
    needs = {
        name: _PROSE_WIDTH if name == prose else max([len(name), *(len(row[i]) for row in rows)])
        for i, name in enumerate(columns)
    }
    for name in drop:
        if sum(needs.values()) + _GAP * len(needs) <= width:
            break
        needs.pop(name, None)
    return [i for i, name in enumerate(columns) if name in needs]


def escape(cell: str) -> str:
    """Return text that rich prints as it is."""
    from rich.markup import escape as escaped

    return escaped(_printable(cell))


def _printable(text: str) -> str:
    """Return text that cannot steer a terminal, whatever a name in somebody's data holds."""
    return _CONTROLS.sub(lambda found: repr(found[0])[1:-1], text)


def number(value: float | None, form: str = ".4f") -> str:
    """Return a number for a table, a dash when there is none.

    Examples
    --------
    >>> number(0.123456), number(None), number(1797, ",")
    ('0.1235', '-', '1,797')
    """
    return "-" if value is None else format(value, form)


def counted(n: int, noun: str, plural: str | None = None) -> str:
    """Return a count with its noun.

    Examples
    --------
    >>> counted(1, "class", "classes"), counted(1797, "node")
    ('1 class', '1,797 nodes')
    """
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def sparkline(values: Sequence[float | None], width: int = 60) -> str:
    """Return a line of blocks, the lowest value the lowest block; at most ``width`` of them.

    Examples
    --------
    >>> sparkline([0.0, 1.0, 0.5])
    '▁█▅'
    """
    numbers = [v for v in values if v is not None and math.isfinite(v)]
    if not numbers:
        return ""
    step = max(1.0, len(numbers) / width)
    shown = [numbers[int(i * step)] for i in range(int(len(numbers) / step))]
    low, high = min(shown), max(shown)
    span = high - low or 1.0
    top = len(_BLOCKS) - 1
    return "".join(_BLOCKS[math.floor((v - low) / span * top + 0.5)] for v in shown)
