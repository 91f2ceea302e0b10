"""Tables in several Parquet files, as Spark, DuckDB and BigQuery write them: a folder of parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from gbgnn._memory import check_size
from gbgnn.errors import DataError, import_needed

if TYPE_CHECKING:
    import pyarrow as pa

PARQUET = (".parquet", ".pq")
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_LEAST_BYTES = 4  # of a cell, in memory
_BUFFER = 1 << 20
"""Bytes of a file that are read at once, for each column."""


@dataclass(frozen=True, eq=False)
class ParquetTable:
    """A Parquet file, or a folder of them: what columns there are, and their rows, a few at a time.

    Of a folder files are read in the order of their names, folders in it too. Names that begin with a dot or
    an underscore are passed over (``_SUCCESS``, ``_metadata``). A folder called ``key=value`` gives its files
    a column ``key``.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow as pa
    >>> from pyarrow import parquet
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for i in range(2):
    ...         parquet.write_table(pa.table({"id": [2 * i, 2 * i + 1]}), f"{folder}/part-{i}.parquet")
    ...     table = ParquetTable.open(Path(folder))
    ...     table.n_rows, [batch["id"].to_pylist() for batch in table.batches(["id"], 4)]
    (4, [[0, 1], [2, 3]])
    """

    path: Path
    files: tuple[Path, ...]
    keys: tuple[dict[str, str | None], ...]  # of each file, what the names of its folders say
    schema: pa.Schema  # of what is in the files
    n_rows: int

    @classmethod
    def open(cls, path: Path) -> ParquetTable:
        """Read what the files say of themselves; they must agree about columns and types."""
        files = list_parts(path) if path.is_dir() else (path,)
        keys = [_read_keys(file.relative_to(path)) if path.is_dir() else {} for file in files]
        schema, n_rows = None, 0
        for file, own in zip(files, keys, strict=True):
            with opening(file) as part:
                names, found = part.schema_arrow.names, part.schema_arrow.remove_metadata()
                n_rows += part.metadata.num_rows
            check_distinct(file, [*names, *own])
            if schema is None:
                schema = found
            elif set(own) != set(keys[0]) or not _are_alike(schema, found):
                raise DataError(
                    f"{file} has the columns {_listed(found, own)}, but {files[0].name} has "
                    f"{_listed(schema, keys[0])}; all parts of a table must have the same."
                )
        return cls(path, files, tuple(keys), schema, n_rows)

    @property
    def columns(self) -> list[str]:
        """The names of all columns."""
        return [*self.schema.names, *self.keys[0]]

    def batches(self, names: Collection[str], n_rows: int) -> Iterator[pa.Table]:
        """Yield some columns, at most so many rows at a time."""
        import pyarrow as pa

        stored = [name for name in self.schema.names if name in names]
        for number, file in enumerate(self.files):
            with opening(file) as part:
                # A column at least, which says how many rows there are.
                read = stored or self.schema.names[:1]
                for batch in part.iter_batches(n_rows, columns=read, use_threads=False):
                    yield self._widened(pa.Table.from_batches([batch]), number).select(list(names))

    def read(self) -> pa.Table:
        """Read everything, if there is room for it."""
        import pyarrow as pa

        size = sum(file.stat().st_size for file in self.files)
        check_size(str(self.path), self.n_rows * len(self.columns) * _LEAST_BYTES, size)
        tables = []
        for number, file in enumerate(self.files):
            with opening(file) as part:
                tables.append(self._widened(part.read().replace_schema_metadata(None), number))
        return pa.concat_tables(tables) if len(tables) > 1 else tables[0]

    def empty(self) -> pa.Table:
        """Return the columns without rows."""
        return self._widened(self.schema.empty_table(), 0)

    def _widened(self, table: pa.Table, number: int) -> pa.Table:
        """Return rows of a file with what the names of its folders say."""
        for name, value in self.keys[number].items():
            table = table.append_column(name, self._key_column(name, value, len(table)))
        return table

    def _key_column(self, name: str, value: str | None, n_rows: int) -> Any:
        import pyarrow as pa

        values = [own[name] for own in self.keys if own[name] is not None]
        if all(word is not None and _is_whole(word) for word in values):
            return pa.array([None if value is None else int(value)] * n_rows, pa.int64())
        return pa.array([value] * n_rows, pa.string())


def check_distinct(path: Path, names: list[str]) -> None:
    """Raise where two columns have the same name, or there is none."""
    if not names:
        raise DataError(f"{path} has no column.")
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise DataError(f"{path} names column {min(repeated)!r} more than once.")


def list_parts(folder: Path) -> tuple[Path, ...]:
    """Return the files of a folder of parts, by name, or say what is in it that is none."""
    found = sorted(path for path in folder.rglob("*") if not _is_hidden(path.relative_to(folder)))
    files = [path for path in found if path.is_file()]
    if not files:
        raise DataError(f"{folder} holds no Parquet file.")
    odd = next((file for file in files if not _is_part(file, folder)), None)
    if odd is not None:
        raise DataError(
            f"{odd} is no Parquet file, of which a folder of parts is made; files that are none of the table "
            "have names that begin with _ or a dot."
        )
    return tuple(files)


def is_part_folder(path: Path) -> bool:
    """Whether a path is a folder with what can be a Parquet file in it."""
    return path.is_dir() and any(_is_part(file, path) for file in path.rglob("*"))


@contextmanager
def opening(file: Path) -> Iterator[Any]:
    """Open a Parquet file to be read little by little, with errors that name it."""
    pa = import_needed("pyarrow", f"reading {file.suffix or 'Parquet'} files", "io")
    from pyarrow import parquet

    if file.stat().st_size == 0:
        raise DataError(f"{file} is empty.")
    try:
        with parquet.ParquetFile(file, buffer_size=_BUFFER, pre_buffer=False) as opened:
            yield opened
    except (pa.ArrowException, OSError, OverflowError, UnicodeDecodeError) as error:
        raise DataError(f"{file} is not a readable Parquet file: {error}.") from error


def _is_part(file: Path, folder: Path) -> bool:
    """Whether a file can be a part: BigQuery's have no suffix."""
    is_named_so = file.suffix.lower() in (*PARQUET, "") and not _is_hidden(file.relative_to(folder))
    return is_named_so and file.is_file()


def _is_hidden(path: Path) -> bool:
    return any(name.startswith(("_", ".")) for name in path.parts)


def _read_keys(path: Path) -> dict[str, str | None]:
    pairs = (name.partition("=") for name in path.parts[:-1])
    return {
        unquote(key): None if value == _NO_VALUE else unquote(value) for key, sign, value in pairs if sign
    }


def _is_whole(word: str) -> bool:
    return (
        word.lstrip("-").isascii()
        and word.lstrip("-").isdigit()
        and str(int(word)) == word
        and len(word) < 19
    )


def _are_alike(one: pa.Schema, other: pa.Schema) -> bool:
    return one.names == other.names and all(a == b for a, b in zip(one.types, other.types, strict=True))


def _listed(schema: pa.Schema, keys: Collection[str]) -> str:
    pairs = zip(schema.names, schema.types, strict=True)
    return ", ".join([*(f"{name} ({kind})" for name, kind in pairs), *keys])
