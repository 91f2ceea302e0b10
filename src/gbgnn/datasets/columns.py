"""CSV and Parquet files as named columns, with errors that say where."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbgnn.errors import DataError, import_needed, suggest

_PARQUET = (".parquet", ".pq")
SUFFIXES = (".csv", ".tsv", ".txt", *_PARQUET)
MISSING = ("", "NA", "NaN", "nan", "null")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(inf|Inf|nan|NaN)")


@dataclass(frozen=True)
class Table:
    """A file read into columns: integers, floats (NaN where missing) or text (``""`` where missing)."""

    path: Path
    columns: dict[str, NDArray[Any]]

    def find_column(self, key: str | int, role: str) -> str:
        """Return the name of the column with this name or position."""
        known = number_columns(self.columns)
        if key in known:
            return known[key]
        hint = suggest(key, self.columns) if isinstance(key, str) else ""
        raise DataError(
            f"{self.path} has no column {key!r} for the {role}.{hint} Columns: {', '.join(self.columns)}."
        )

    def pick(self, key: str | int, role: str) -> NDArray[Any]:
        """Return the values of the column with this name or position."""
        return self.columns[self.find_column(key, role)]

    def numbers(self, key: str | int, role: str) -> NDArray[Any]:
        """Return a numeric column without gaps, or say which cell is wrong."""
        name = self.find_column(key, role)
        values = self.columns[name]
        if values.dtype.kind not in "iufb":
            bad = next((i for i, v in enumerate(values) if v != "" and not _NUMBER.fullmatch(v)), 0)
            raise DataError(
                f"{self.path}: column {name!r} is not numeric (data row {bad + 1}: {str(values[bad])!r}); "
                "encode it as numbers or leave it out."
            )
        bad_rows = np.flatnonzero(~np.isfinite(values))
        if len(bad_rows):
            raise DataError(
                f"{self.path}: column {name!r} has {len(bad_rows)} missing or infinite values (first: "
                f"data row {bad_rows[0] + 1}); fill or drop them first."
            )
        return values


def read_table(path: str | os.PathLike[str], text: Collection[str | int] = ()) -> Table:
    r"""Read a CSV (comma or tab, with a header) or Parquet file.

    ``text`` names CSV columns, by name or position, whose cells are names: they become integers only
    if every cell is a plain integer, so ``007`` stays ``007``.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path} is not a file.")
    if path.stat().st_size == 0:
        raise DataError(f"{path} is empty.")
    if path.suffix.lower() not in SUFFIXES:
        raise DataError(f"{path} has a suffix that is not known; use one of {', '.join(SUFFIXES)}.")
    if path.suffix.lower() in _PARQUET:
        return Table(path, _read_parquet(path))
    header, delimiter = _read_header(path)
    known = number_columns(header)
    plain = {known[key] for key in text if key in known}
    columns = _read_csv_with_arrow(path, header, delimiter, plain)
    return Table(path, _read_csv(path, header, delimiter, plain) if columns is None else columns)


def number_columns(names: Iterable[str]) -> dict[str | int, str]:
    """Return the names of columns by position and by name."""
    return {key: name for number, name in enumerate(names) for key in (number, name)}


def _read_header(path: Path) -> tuple[list[str], str]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            first = file.readline()
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text: {error}.") from error
    delimiter = "\t" if "\t" in first else ","
    header = next(csv.reader([first], delimiter=delimiter), [])
    if not header:
        raise DataError(f"{path} has an empty first line; it must name the columns.")
    repeated = {name for name in header if header.count(name) > 1}
    if repeated:
        raise DataError(f"{path} names column {min(repeated)!r} more than once.")
    return header, delimiter


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


def as_integers(cells: NDArray[np.str_]) -> NDArray[Any]:
    """Return text cells as integers if every one is written the way Python writes an integer."""
    try:
        numbers = cells.astype(np.int64)
    except (ValueError, OverflowError):
        return cells
    return numbers if np.array_equal(numbers.astype(cells.dtype), cells) else cells


def _infer(cells: NDArray[np.str_]) -> NDArray[Any]:
    """Return text cells as integers or, where there are gaps or fractions, floats if all are numbers."""
    gaps = np.isin(cells, MISSING)
    if not all(map(_NUMBER.fullmatch, cells[~gaps])):
        return np.where(gaps, "", cells)
    if not gaps.any():
        with suppress(ValueError, OverflowError):
            return cells.astype(np.int64)
    return np.where(gaps, "nan", cells).astype(np.float64)


def _read_csv_with_arrow(
    path: Path, header: list[str], delimiter: str, plain: Collection[str]
) -> dict[str, NDArray[Any]] | None:
    """Read with Arrow if it is there and content; else None, and the slower reader finds out why."""
    try:
        import pyarrow as pa
        from pyarrow import csv as arrow_csv
    except ImportError:
        return None
    try:
        table = arrow_csv.read_csv(
            path,
            parse_options=arrow_csv.ParseOptions(delimiter=delimiter),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(plain, pa.string()),
                null_values=list(MISSING),
                true_values=[],
                false_values=[],
            ),
        )
    except pa.ArrowException:
        return None
    if table.column_names != header or any(pa.types.is_binary(kind) for kind in table.schema.types):
        return None
    columns = {name: _from_arrow(table[name]) for name in header}
    for name, cells in columns.items():
        if cells.dtype.kind == "U":
            gaps = np.isin(cells, MISSING)
            columns[name] = as_integers(cells) if name in plain else np.where(gaps, "", cells)
    return columns


def _read_parquet(path: Path) -> dict[str, NDArray[Any]]:
    pa = import_needed("pyarrow", "reading Parquet", "io")
    from pyarrow import parquet

    try:
        table = parquet.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} is not a readable Parquet file: {error}.") from error
    for name, kind in zip(table.column_names, table.schema.types, strict=True):
        if pa.types.is_nested(kind):
            raise DataError(f"{path}: column {name!r} holds {kind}; columns must hold single values.")
    return {name: _from_arrow(table[name]) for name in table.column_names}


def _from_arrow(column: Any) -> NDArray[Any]:
    import pyarrow as pa

    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return np.asarray(column.cast(pa.string()).fill_null("").to_numpy(), dtype=np.str_)
    return np.asarray(column.to_numpy())
