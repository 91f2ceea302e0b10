"""Frames of pandas, polars and Arrow, and mappings of arrays, as named arrays. None of them is imported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gbgnn._matrices import as_array
from gbgnn.errors import GraphError, import_needed, suggest


class Coded(NamedTuple):
    """A column by its distinct values: the place of each row's value in ``labels``, -1 where it is missing.

    The labels are categories in the user's order or, where ``is_text``, whatever text there was.
    """

    codes: NDArray[np.integer[Any]]
    labels: NDArray[Any]
    is_text: bool = False

    def decode(self) -> NDArray[Any]:
        """Return the value of each row, None where it is missing."""
        labels: NDArray[Any] = np.array([*self.labels.tolist(), None], dtype=object)
        return np.asarray(labels[self.codes])


Given = NDArray[Any] | Coded
"""What a column may come as: any NumPy array of one dimension, or categories."""


def is_frame(value: Any) -> bool:
    """Say whether a value is a table with named columns: a frame, or a mapping of arrays."""
    if sp.issparse(value):  # of which one layout is a mapping
        return False
    return isinstance(value, Mapping) or _package(value) in _READERS or hasattr(value, "__arrow_c_stream__")


def read_frame(frame: Any, what: str = "the table") -> dict[str, Given]:
    """Return the columns of a frame by name, in its order; say what is wrong with names and shapes."""
    if isinstance(frame, Mapping):
        given = [(name, _from_values(name, values)) for name, values in frame.items()]
    elif _package(frame) in _READERS:
        given = _READERS[_package(frame)](frame, what)
    elif hasattr(frame, "__arrow_c_stream__"):
        given = _read_arrow(import_needed("pyarrow", "reading this table", "io").table(frame), what)
    else:
        raise GraphError(
            f"{what} must be a pandas, polars or Arrow frame, or a mapping from names to arrays; "
            f"got {type(frame).__name__}."
        )
    # Numbers are the names of columns that nobody named.
    named = [(str(name) if isinstance(name, Integral) else name, values) for name, values in given]
    _check_names([name for name, _ in named], what)
    columns = dict(named)
    _check_shapes(columns)
    return columns


def n_rows(columns: Mapping[str, Given]) -> int:
    """Return how many rows there are of columns that :func:`read_frame` returned."""
    given = next(iter(columns.values()))
    return len(given.codes if isinstance(given, Coded) else given)


def find_names(wanted: Iterable[str], known: Iterable[str], what: str) -> list[str]:
    """Return the names that were asked for, or say which of them there is no column for."""
    if isinstance(wanted, str):
        wanted = [wanted]
    names, known = list(wanted), dict.fromkeys(known)
    for name in names:
        if name not in known:
            hint = suggest(name, known) if isinstance(name, str) else ""
            raise GraphError(f"{what} has no column {name!r}.{hint} Its columns: {list_names(known)}.")
    return names


def list_names(names: Iterable[Any], most: int = 8) -> str:
    """Return names for a sentence, the first few of many."""
    shown = list(names)
    more = f" and {len(shown) - most} more" if len(shown) > most else ""
    return ", ".join(map(str, shown[:most])) + more


def _package(value: Any) -> str:
    """Return which of the packages an object, or a class that it extends, is from; else an empty text."""
    packages = (known.__module__.partition(".")[0] for known in type(value).__mro__)
    return next((package for package in packages if package in _READERS), "")


def _check_names(names: list[Any], what: str) -> None:
    for name in names:
        if not isinstance(name, str) or not name.strip():
            raise GraphError(
                f"{what} has a column named {name!r}; names must be text, for example by "
                "frame.columns = [str(c) for c in frame.columns]."
            )
    if not names:
        raise GraphError(f"{what} has no columns; give each node at least one.")
    repeated = [name for name, n_times in Counter(names).items() if n_times > 1]
    if repeated:
        raise GraphError(f"{what} has more than one column named {repeated[0]!r}; rename one of them.")


def _check_shapes(columns: dict[str, Given]) -> None:
    lengths = {}
    for name, given in columns.items():
        array = given.codes if isinstance(given, Coded) else given
        if array.ndim != 1:
            raise GraphError(
                f"column {name!r} has shape {array.shape}; a column holds one value per row. "
                "Make one column of each part."
            )
        lengths[name] = len(array)
    (first, n_rows), *rest = lengths.items()
    for name, length in rest:
        if length != n_rows:
            raise GraphError(f"column {name!r} has {length} rows but column {first!r} has {n_rows}.")


def _from_values(name: Any, values: Any) -> Given:
    """Return one column of a mapping: an array, a list, or a column of any of the packages."""
    if isinstance(values, Coded):
        return values
    package = _package(values)
    if package == "pandas" and hasattr(values, "dtype") and hasattr(values, "iloc"):
        return _from_pandas(values)
    if package == "polars" and hasattr(values, "dtype"):
        return _from_polars(values)
    if package == "pyarrow" and hasattr(values, "type"):
        return _from_arrow(name, values)
    if isinstance(values, (list, tuple)):
        return _from_list(values)
    return as_array(values, f"column {name!r}")


def _from_list(values: Any) -> NDArray[Any]:
    """Return a list as an array that mixes nothing: NumPy would make text of 1 beside 'a'."""
    kinds = set(map(type, values))
    plain = (bool, int, float, str, np.generic)
    if len(kinds) == 1 and all(issubclass(kind, plain) for kind in kinds):
        return np.array(values)
    return np.fromiter(values, dtype=object, count=len(values))


def _read_pandas(frame: Any, what: str) -> list[tuple[Any, Given]]:
    if not hasattr(frame, "columns"):
        raise GraphError(f"{what} is a pandas {type(frame).__name__}; a frame is needed: to_frame().")
    if frame.columns.nlevels > 1:
        raise GraphError(
            f"{what} has column names of {frame.columns.nlevels} levels; join them into one name each."
        )
    names = frame.columns.tolist()
    return [(name, _from_pandas(frame.iloc[:, i])) for i, name in enumerate(names)]


def _from_pandas(series: Any) -> Given:
    dtype = series.dtype
    if dtype.name == "category":
        return Coded(series.cat.codes.to_numpy(), series.cat.categories.to_numpy())
    if getattr(dtype, "tz", None) is not None:
        return np.asarray(series.to_numpy("datetime64[us]"))  # in UTC
    if dtype.name in ("str", "string"):
        codes, labels = series.factorize()
        return Coded(codes, labels.to_numpy(dtype=object), is_text=True)
    if dtype.name.startswith("period"):
        return np.asarray(series.dt.to_timestamp().to_numpy())
    return np.asarray(series.to_numpy())


def _read_polars(frame: Any, what: str) -> list[tuple[Any, Given]]:
    kind = type(frame).__name__
    if kind != "DataFrame":
        method = "collect" if kind == "LazyFrame" else "to_frame"
        raise GraphError(f"{what} is a polars {kind}; a frame is needed: {method}().")
    return [(series.name, _from_polars(series)) for series in frame.get_columns()]


def _from_polars(series: Any) -> Given:
    kind = str(series.dtype)
    if series.dtype.is_nested():
        raise _nested(series.name, kind)
    if kind.startswith("Enum"):
        places = np.asarray(series.to_physical().to_numpy(), np.float64)  # NaN where missing
        codes = np.nan_to_num(places, nan=-1).astype(np.int64)
        return Coded(codes, np.array(series.dtype.categories.to_list(), dtype=object))
    if kind == "Null":
        return np.full(len(series), np.nan)
    if kind.startswith("Categorical"):
        return _code(series.to_numpy())
    return np.asarray(series.to_numpy())


def _read_arrow(frame: Any, what: str) -> list[tuple[Any, Given]]:
    if not hasattr(frame, "column_names"):
        raise GraphError(f"{what} is an Arrow {type(frame).__name__}; a Table is needed.")
    columns = zip(frame.column_names, frame.columns, strict=True)
    return [(name, _from_arrow(name, column)) for name, column in columns]


def _from_arrow(name: str, column: Any) -> Given:
    kind = str(column.type)
    is_text = kind in ("string", "large_string")
    if is_text:
        column = column.dictionary_encode()  # a value of Python for each distinct text, not for each row
    if is_text or kind.startswith("dictionary"):
        whole = column.unify_dictionaries().combine_chunks() if hasattr(column, "chunks") else column
        labels = np.asarray(whole.dictionary.to_numpy(zero_copy_only=False), dtype=object)
        return Coded(np.asarray(whole.indices.fill_null(-1)), labels, is_text)
    if column.type.num_fields:
        raise _nested(name, kind)
    return np.asarray(
        column.to_numpy() if hasattr(column, "chunks") else column.to_numpy(zero_copy_only=False)
    )


def _nested(name: str, kind: str) -> GraphError:
    return GraphError(
        f"column {name!r} holds {kind}; a column holds one value per row. Make one column of each part."
    )


def _code(values: NDArray[Any]) -> Coded:
    labels = sorted({value for value in values.tolist() if value is not None})
    index = {label: i for i, label in enumerate(labels)} | {None: -1}
    codes = np.fromiter((index[value] for value in values.tolist()), np.int64, len(values))
    return Coded(codes, np.array(labels, dtype=object))


_READERS = {"pandas": _read_pandas, "polars": _read_polars, "pyarrow": _read_arrow}
