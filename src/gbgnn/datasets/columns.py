"""Table files as named columns of NumPy arrays, with errors that say where."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbgnn._memory import check_size
from gbgnn.datasets.frames import (
    CSV,
    MISSING,
    Names,
    PathLike,
    check_table,
    find_names,
    number_columns,
    parse_csv,
    read_arrow,
    read_header,
)
from gbgnn.errors import DataError, MissingDependencyError, import_needed, suggest

_SIGN = 4  # bytes of a letter in an array
_PLAIN_NUMBER = re.compile(r"[+-]?((0|[1-9]\d*)(\.\d*)?|\.\d+)")
_ANY_NUMBER = re.compile(_PLAIN_NUMBER.pattern + r"([eE][+-]?\d+)?")
_TRUE, _FALSE = ("true", "True", "TRUE"), ("false", "False", "FALSE")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(inf|Inf|nan|NaN)")


Columns = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Table:
    """A file read into columns: integers, floats (NaN where missing) or text (``""`` where missing)."""

    path: Path
    columns: Columns

    def find_column(self, key: str | int, role: str) -> str:
        """Return the name of the column with this name or position."""
        return find_column(self.path, self.columns, key, role)

    def pick(self, key: str | int, role: str) -> NDArray[Any]:
        """Return the values of the column with this name or position."""
        return self.columns[self.find_column(key, role)]

    def numbers(self, key: str | int, role: str) -> NDArray[Any]:
        """Return a numeric column without gaps, or say which cell is wrong."""
        name = self.find_column(key, role)
        cells = NumberCells(self.path, name)
        values = cells.take(self.columns[name])
        cells.check()
        return values


class NumberCells:
    """A numeric column without gaps, a few rows at a time; what is wrong with it is said in the end."""

    def __init__(self, path: Path, name: str) -> None:
        self._path, self._name = path, name
        self._n_rows = self._n_gaps = self._first = 0

    def take(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the next rows; text is an error at once, gaps are counted."""
        if values.dtype.kind not in "iufb" and not len(values):
            return values.astype(np.float64)
        if values.dtype.kind not in "iufb":
            bad = next((i for i, v in enumerate(values) if v != "" and not _NUMBER.fullmatch(v)), 0)
            raise DataError(
                f"{self._path}: column {self._name!r} is not numeric (data row {self._n_rows + bad + 1}: "
                f"{str(values[bad])!r}); encode it as numbers, or leave it out with drop= (--drop)."
            )
        bad_rows = np.flatnonzero(~np.isfinite(values))
        if len(bad_rows) and not self._n_gaps:
            self._first = self._n_rows + int(bad_rows[0]) + 1
        self._n_gaps += len(bad_rows)
        self._n_rows += len(values)
        return values

    def check(self) -> None:
        """Raise where there was a gap."""
        if self._n_gaps:
            raise DataError(
                f"{self._path}: column {self._name!r} has {self._n_gaps} missing or infinite values (first: "
                f"data row {self._first}); fill them, or leave the column out with drop= (--drop)."
            )


def find_column(path: Path, columns: Collection[str], key: str | int, role: str) -> str:
    """Return the name of the column of a table with this name or position."""
    if isinstance(key, str) and key in columns:  # of tens of thousands, without numbering them
        return key
    known = number_columns(columns)
    if key in known:
        return known[key]
    hint = suggest(key, columns) if isinstance(key, str) else ""
    raise DataError(f"{path} has no column {key!r} for the {role}.{hint} Columns: {', '.join(columns)}.")


def read_table(path: PathLike, text: Names = ()) -> Table:
    r"""Read a table of any kind that :func:`read_arrow` knows; CSV needs no Arrow.

    ``text`` names CSV columns, by name or position, whose cells are names: they become integers only
    if every cell is a plain integer, so ``007`` stays ``007``.
    """
    file = check_table(path)
    if file.suffix.lower() not in CSV:
        return Table(Path(path), as_columns(read_arrow(path), path))
    header, delimiter = read_header(file)
    plain = find_names(text, header)
    try:
        import_needed("pyarrow", "reading CSV fast", "io")
        columns = as_columns(parse_csv(file, header, delimiter, plain), path)
    except (MissingDependencyError, DataError):  # the slower reader finds out what is wrong
        return Table(file, _read_csv(file, header, delimiter, plain))
    return Table(file, {n: as_integers(c) if n in plain else c for n, c in columns.items()})


def as_columns(table: Any, where: PathLike) -> Columns:
    """Return the columns of an Arrow table: truth values as 0 and 1, whatever else is no number as text."""
    import pyarrow as pa

    for name, kind in zip(table.column_names, table.schema.types, strict=True):
        if pa.types.is_nested(kind):
            raise DataError(f"{where}: column {name!r} holds {kind}; columns must hold single values.")
    pairs = zip(table.column_names, table.itercolumns(), strict=True)
    try:
        return {name: _from_arrow(column, f"{where}: column {name!r}") for name, column in pairs}
    except pa.ArrowException as error:
        raise DataError(f"{where} holds what is no text: {error}.") from error


def _read_csv(
    path: Path, header: list[str], delimiter: str, plain: Collection[str]
) -> dict[str, NDArray[Any]]:
    """Read with the standard library: slower than Arrow, but it can say which line is wrong."""
    rows = []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=delimiter)
            next(reader)
            for row in reader:
                if row and len(row) != len(header):
                    raise DataError(
                        f"{path}, line {reader.line_num}: {len(row)} cells, but the header names "
                        f"{len(header)} columns."
                    )
                if row:
                    rows.append(row)
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} is not readable UTF-8 text: {error}.") from error
    columns = {}
    for name, column in zip(header, zip(*rows, strict=True) if rows else [()] * len(header), strict=True):
        cells = np.array(column, dtype=np.str_)
        columns[name] = as_integers(cells) if name in plain else _infer(cells)
    return columns


def as_integers(cells: NDArray[Any]) -> NDArray[Any]:
    """Return text cells as integers if every one is written the way Python writes an integer."""
    if cells.dtype.kind != "U":
        return cells
    try:
        numbers = cells.astype(np.int64)
    except (ValueError, OverflowError):
        return cells
    return numbers if np.array_equal(numbers.astype(cells.dtype), cells) else cells


def as_label_cells(cells: NDArray[Any], where: str, seen: NDArray[np.bool_] | None = None) -> NDArray[Any]:
    """Return text labels with gaps as ``""``, or as numbers where all others are numbers.

    ``seen`` marks the rows that train or validate, which alone decide; a test label that is then no number is
    an error. 01 and 1e0 are names, 1.0 in a table with gaps often stands for 1.
    """
    if cells.dtype.kind != "U":
        return cells
    cells = np.strings.strip(cells)
    gaps = np.isin(cells, MISSING)
    present = as_integers(cells[~gaps if seen is None else ~gaps & seen])
    if not len(present) or (present.dtype.kind == "U" and not _are_numbers(present)):
        return np.where(gaps, "", cells)
    odd = next((row for row in np.flatnonzero(~gaps) if not _ANY_NUMBER.fullmatch(cells[row])), None)
    if odd is not None:
        raise DataError(
            f"{where}: the labels that train are numbers, but data row {odd + 1} says {str(cells[odd])!r}; "
            "correct it, or leave it empty."
        )
    if present.dtype.kind != "U" and (whole := as_integers(cells)).dtype.kind != "U":
        return whole
    return np.where(gaps, "nan", cells).astype(np.float64)


def _are_numbers(cells: NDArray[Any]) -> bool:
    """Whether text cells are numbers: all plain ones, or with exponents where there are fractions too."""
    if all(map(_PLAIN_NUMBER.fullmatch, cells)):
        return True
    return all(map(_ANY_NUMBER.fullmatch, cells)) and any("." in cell for cell in cells)


def _infer(cells: NDArray[np.str_]) -> NDArray[Any]:
    """Return text cells as integers or, where there are gaps or fractions, floats if all are numbers."""
    gaps = np.isin(cells, MISSING)
    if np.isin(cells, (*_TRUE, *_FALSE, *MISSING)).all() and not gaps.all():
        cells = np.isin(cells, _TRUE).astype(np.int8).astype(np.str_)
    if not all(map(_NUMBER.fullmatch, cells[~gaps])):
        return np.where(gaps, "", cells)
    if not gaps.any():
        with suppress(ValueError, OverflowError):
            return cells.astype(np.int64)
    return np.where(gaps, "nan", cells).astype(np.float64)


def _from_arrow(column: Any, where: str) -> NDArray[Any]:
    import pyarrow as pa
    from pyarrow import compute

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        raise DataError(f"{where} holds bytes; columns hold numbers, text, truth values or dates.")
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        text = column.cast(pa.string()).fill_null("")
        longest = compute.max(compute.utf8_length(text)).as_py() or 0
        check_size(where, len(text) * longest * _SIGN)  # an array gives each cell the room of the longest
        return np.asarray(text.to_numpy(), dtype=np.str_)
    return np.asarray(column.to_numpy())
