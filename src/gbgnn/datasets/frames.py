"""Table files of every kind as Arrow tables: all columns, their types kept, gaps as null."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gbgnn.datasets.parts import PARQUET, ParquetTable, check_distinct
from gbgnn.errors import DataError, import_needed, suggest

if TYPE_CHECKING:
    import pyarrow as pa

PathLike = str | os.PathLike[str]
Names = Collection[str | int] | Callable[[list[str]], Collection[str | int]]
"""Columns by name or position, or what finds them among all names."""

CSV = (".csv", ".tsv", ".txt")
_FEATHER, _DUCKDB = (".feather", ".arrow"), (".duckdb", ".db")
SUFFIXES = (*CSV, *PARQUET, *_FEATHER)
MISSING = ("", "NA", "NaN", "nan", "null")
INSIDE = "::"
"""Stands between a database and the name of a table in it."""


def read_arrow(path: PathLike, text: Names = ()) -> pa.Table:
    """Read a CSV (comma or tab, with a header), Parquet, Feather or Arrow file, or a table of DuckDB's.

    A folder of Parquet files is one table. A table in a database is ``file.duckdb::table``. ``text`` names
    CSV columns, by name or position, whose cells are text whatever they look like.
    """
    file = check_table(path)
    if INSIDE in os.fspath(path):
        return _read_duckdb(file, os.fspath(path).partition(INSIDE)[2])
    pa = import_needed("pyarrow", f"reading {file.suffix} files", "io")
    suffix = file.suffix.lower()
    if suffix in CSV:
        header, delimiter = read_header(file)
        return parse_csv(file, header, delimiter, find_names(text, header))
    if suffix in PARQUET or file.is_dir():
        return ParquetTable.open(file).read()
    try:
        from pyarrow import feather

        table = feather.read_table(file)
        table.validate(full=True)  # where text begins and ends, which nothing else looks at
        check_distinct(file, table.column_names)
        return table
    except DataError:
        raise
    except (pa.ArrowException, OSError, OverflowError, UnicodeDecodeError) as error:
        raise DataError(f"{file} is not a readable Arrow file: {error}.") from error


def check_table(path: PathLike) -> Path:
    """Return the file of a table, or its folder of parts, which must be there and of a known kind."""
    words, inside, _ = os.fspath(path).partition(INSIDE)
    file = Path(words)
    if file.is_dir():
        return file
    if not file.is_file():
        raise DataError(f"{file} is not a file.")
    if file.stat().st_size == 0:
        raise DataError(f"{file} is empty.")
    if inside:
        return file
    if file.suffix.lower() in _DUCKDB:
        raise DataError(f"{file} may hold several tables; name one of them: {file}{INSIDE}TABLE.")
    if file.suffix.lower() not in SUFFIXES:
        raise DataError(f"{file} has a suffix that is not known; use one of {', '.join(SUFFIXES)}.")
    return file


def find_names(wanted: Names, names: list[str]) -> set[str]:
    """Return the names of columns that are given by name or position."""
    known = number_columns(names)
    return {known[key] for key in (wanted(names) if callable(wanted) else wanted) if key in known}


def number_columns(names: Iterable[str]) -> dict[str | int, str]:
    """Return the names of columns by position and by name."""
    return {key: name for number, name in enumerate(names) for key in (number, name)}


def read_header(path: Path) -> tuple[list[str], str]:
    """Return the names of a CSV file's columns, and what stands between them."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            first = file.readline()
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text: {error}.") from error
    delimiter = "\t" if "\t" in first else ","
    try:
        header = next(csv.reader([first], delimiter=delimiter), [])
    except csv.Error as error:
        raise DataError(f"{path} has a first line that names no columns: {error}.") from error
    if not header:
        raise DataError(f"{path} has an empty first line; it must name the columns.")
    check_distinct(path, header)
    return header, delimiter


def parse_csv(path: Path, header: list[str], delimiter: str, text: Collection[str]) -> pa.Table:
    """Read a CSV file whose header is known; gaps are empty cells and, but for ``text``, NA and its like."""
    import pyarrow as pa
    from pyarrow import compute
    from pyarrow import csv as arrow_csv

    try:
        table = arrow_csv.read_csv(
            path,
            parse_options=arrow_csv.ParseOptions(delimiter=delimiter),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(text, pa.string()), null_values=list(MISSING)
            ),
        )
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} is not a readable CSV file: {error}.") from error
    if table.column_names != header or any(pa.types.is_binary(kind) for kind in table.schema.types):
        raise DataError(f"{path} is not readable UTF-8 text with the columns {', '.join(header)}.")
    columns = []
    for name, kind, column in zip(header, table.schema.types, table.itercolumns(), strict=True):
        if pa.types.is_string(kind):
            gaps = compute.is_in(column, pa.array([""] if name in text else MISSING))
            column = compute.if_else(gaps, pa.scalar(None, pa.string()), column)
        columns.append(column)
    return pa.table(columns, names=header)


def _read_duckdb(file: Path, name: str) -> Any:
    duckdb = import_needed("duckdb", "reading a table of DuckDB's", "duckdb")
    import_needed("pyarrow", "reading a table of DuckDB's", "io")
    try:
        # What is in the file, a view say, may reach for no other file, no network and no extension.
        closed = {"enable_external_access": False, "autoload_known_extensions": False}
        with duckdb.connect(file, read_only=True, config=closed) as connection:
            known = [row[0] for row in connection.execute("SHOW TABLES").fetchall()]
            if name not in known:
                raise DataError(
                    f"{file} has no table {name!r}.{suggest(name, known)} "
                    f"Tables: {', '.join(known) or 'none'}."
                )
            quoted = name.replace('"', '""')
            return connection.sql(f'SELECT * FROM "{quoted}"').to_arrow_table()
    except duckdb.Error as error:
        raise DataError(f"{file} is not a readable DuckDB file: {error}.") from error
