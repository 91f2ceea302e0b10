"""Predictions written as CSV or Parquet, some nodes at a time."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from gbgnn._files import atomic_path
from gbgnn.cli import screen
from gbgnn.errors import import_needed

if TYPE_CHECKING:
    from numpy.typing import NDArray

FORMATS = (".csv", ".parquet")

Columns = dict[str, "NDArray[Any]"]


def with_columns(blocks: Iterable[Columns], beside: Columns) -> Iterator[Columns]:
    """Yield blocks of rows with other columns, which there are of all rows."""
    start = 0
    for block in blocks:
        stop = start + len(block["node"])
        yield block | {name: values[start:stop] for name, values in beside.items()}
        start = stop


def write_table(path: Path, blocks: Iterable[Columns]) -> None:
    """Write a file whose ending says its form, block by block; a reader never sees half of it."""
    with atomic_path(path) as part:
        if path.suffix == ".csv":
            with part.open("w", newline="", encoding="utf-8") as file:
                write_csv(file, blocks)
            return
        pa = import_needed("pyarrow", "writing Parquet", "io")
        from pyarrow import parquet

        tables = (pa.table(block) for block in blocks)
        first = next(tables)
        with parquet.ParquetWriter(part, first.schema) as writer:
            for table in chain([first], tables):
                writer.write_table(table)


def write_csv(file: TextIO, blocks: Iterable[Columns]) -> None:
    """Write CSV, each number with as many digits as tell it from its neighbours."""
    writer = csv.writer(file, lineterminator="\n")
    for number, columns in enumerate(blocks):
        if not number:
            writer.writerow(map(screen.printable, columns) if file is sys.stdout else columns)
        cells = [values.astype(str).tolist() for values in columns.values()]
        if file is sys.stdout:
            cells = [[screen.printable(cell) for cell in column] for column in cells]
        writer.writerows(zip(*cells, strict=True))
