"""NodeTable: the features of all nodes as named columns of kinds; immutable."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Self, final

import numpy as np

from gbgnn.errors import GraphError
from gbgnn.tables.columns import Column, make_column
from gbgnn.tables.frames import find_names, is_frame, list_names, read_frame


@final
class NodeTable:
    """The columns of a table by name, a row per node, each of a kind; immutable.

    Parameters
    ----------
    frame
        A pandas, polars or Arrow frame, anything else that exports Arrow's C stream (a DuckDB relation), a
        mapping from names to arrays, or another table. The index of a pandas frame is not looked at.
    kinds
        The kind of columns whose values do not tell, by name: ``"number"``, ``"boolean"``, ``"category"``,
        ``"date"`` or ``"text"``. Codes of professions are numbers to a computer, but categories to us.

    Examples
    --------
    >>> table = NodeTable({"age": [31, None, 58], "city": ["Oslo", "Rome", "Oslo"], "code": [3, 1, 3]})
    >>> table
    NodeTable(n_rows=3, age: number, city: category, code: number)
    >>> NodeTable(table, kinds={"code": "category"})["code"].categories
    ('1', '3')
    """

    columns: tuple[Column, ...]
    """All columns, in the order of the frame."""

    def __init__(self, frame: Any, *, kinds: Mapping[str, str] | None = None) -> None:
        kinds = dict(kinds or {})
        if isinstance(frame, NodeTable):
            find_names(kinds, frame.names, "the table")
            columns = [c.as_kind(kinds.get(c.name, c.kind)) for c in frame.columns]
        else:
            given = read_frame(frame)
            find_names(kinds, given, "the table")
            columns = [make_column(name, values, kinds.get(name)) for name, values in given.items()]
        if not len(columns[0].values):
            raise GraphError(f"the table has no rows, only columns ({list_names(c.name for c in columns)}).")
        vars(self)["columns"] = tuple(columns)

    @classmethod
    def from_columns(cls, columns: Iterable[Column]) -> Self:
        """Return a table of columns that are already made; they have one length and distinct names."""
        table = cls.__new__(cls)
        vars(table)["columns"] = tuple(columns)
        return table

    @property
    def n_rows(self) -> int:
        """Number of rows, one per node."""
        return len(self.columns[0].values)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def checksum(self) -> str:
        """A SHA-256 of names, kinds and values in any order; computed once, as nothing can change."""
        digest = hashlib.sha256()
        for column in sorted(self.columns, key=lambda column: column.name):
            column.update(digest)
        return digest.hexdigest()

    def __getitem__(self, name: str) -> Column:
        """Return the column of a name."""
        find_names([name], self.names, "the table")
        return self.columns[self.names.index(name)]

    def select(self, names: Iterable[str]) -> NodeTable:
        """Return the table of some columns, in this order."""
        wanted = find_names(names, self.names, "the table")
        if not wanted:
            raise GraphError("no column is left of the table; keep at least one.")
        columns = {column.name: column for column in self.columns}
        return NodeTable.from_columns(columns[name] for name in wanted)

    def drop(self, names: Iterable[str]) -> NodeTable:
        """Return the table without some columns."""
        gone = set(find_names(names, self.names, "the table"))
        return self.select(name for name in self.names if name not in gone)

    def rows(self, rows: Any) -> NodeTable:
        """Return the table of some rows: a slice, row numbers or a mask."""
        chosen = rows if isinstance(rows, slice) else np.asarray(rows)
        return NodeTable.from_columns(column.rows(chosen) for column in self.columns)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a NodeTable cannot be changed; {name} was to be set.")

    def __repr__(self) -> str:
        shown = list_names(f"{column.name}: {column.kind}" for column in self.columns)
        return f"NodeTable(n_rows={self.n_rows}, {shown})"


def is_table(value: Any) -> bool:
    """Say whether a value is a table with named columns: a NodeTable, a frame, or a mapping of arrays."""
    return isinstance(value, NodeTable) or is_frame(value)


def as_node_table(frame: Any) -> NodeTable:
    """Return a frame as a table, a table as itself."""
    return frame if isinstance(frame, NodeTable) else NodeTable(frame)
