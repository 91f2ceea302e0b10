"""Tables as NumPy columns, a few rows at a time: Parquet as it lies on disk, other files read first."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gbgnn.datasets.columns import Columns, as_columns, find_column, read_table
from gbgnn.datasets.frames import INSIDE, Names, PathLike, check_table
from gbgnn.datasets.parts import PARQUET, ParquetTable


@dataclass(frozen=True, eq=False)
class TableStream:
    """A table of any kind: its columns with their types, and its rows, a few at a time."""

    path: Path
    columns: dict[str, np.dtype[Any]]
    n_rows: int
    _make: Callable[[Collection[str], int], Iterator[Columns]]

    @classmethod
    def open(cls, path: PathLike, text: Names = ()) -> TableStream:
        """Open a file of any kind that :func:`read_table` knows, or a folder of Parquet files.

        ``text`` is what :func:`read_table` takes.
        """
        file = check_table(path)
        if INSIDE not in str(path) and (file.is_dir() or file.suffix.lower() in PARQUET):
            stored = ParquetTable.open(file)
            empty = as_columns(stored.empty(), file)
            kinds = {name: column.dtype for name, column in empty.items()}

            def read(names: Collection[str], n_rows: int) -> Iterator[Columns]:
                return (as_columns(batch, file) for batch in stored.batches(names, n_rows))

            return cls(file, kinds, stored.n_rows, read)
        table = read_table(path, text)
        length = len(next(iter(table.columns.values())))

        def cut(names: Collection[str], n_rows: int) -> Iterator[Columns]:
            for start in range(0, length, n_rows):
                yield {name: table.columns[name][start : start + n_rows] for name in names}

        return cls(table.path, {name: each.dtype for name, each in table.columns.items()}, length, cut)

    def find_column(self, key: str | int, role: str) -> str:
        """Return the name of the column with this name or position."""
        return find_column(self.path, self.columns, key, role)

    def batches(self, names: Collection[str], n_rows: int) -> Iterator[Columns]:
        """Yield some columns, at most so many rows at a time."""
        return self._make(list(dict.fromkeys(names)), n_rows)
