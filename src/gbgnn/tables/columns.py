"""Column: one column of a table, of one of five kinds, with its gaps; made of whatever an array holds."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from numbers import Real
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from gbgnn._arrays import count_nonfinite, freeze, own
from gbgnn._checks import check_choice
from gbgnn.errors import GraphError
from gbgnn.tables.frames import Coded, Given

KINDS = ("number", "boolean", "category", "date", "text")

MAX_CATEGORIES = 20
"""Text with more distinct values than this, most of which occur once, is text and no category."""

_LAST_SECOND = 1e12
"""In the year 33658; what is later is no date."""

_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?)?")


@dataclass(frozen=True, eq=False)
class Column:
    """A named column; immutable.

    Parameters
    ----------
    name
        What the user calls it.
    kind
        ``"number"``, ``"boolean"``, ``"category"``, ``"date"`` or ``"text"`` of a few words.
    values
        Numbers, NaN where missing; booleans as 0 and 1, -1 where missing; dates in seconds since 1970, UTC,
        NaN where missing; of categories and text, places in ``categories``, -1 where missing.
    categories
        The distinct values of categories and text, as text.
    """

    name: str
    kind: str
    values: NDArray[Any]
    categories: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        freeze(self.values)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        freeze(self.values)  # it comes out of a pickle writable

    @property
    def is_missing(self) -> NDArray[np.bool_]:
        """Where the value is missing."""
        return np.isnan(self.values) if self.kind in ("number", "date") else self.values < 0

    def rows(self, rows: Any) -> Column:
        """Return the column of some rows: a slice, ids or a mask."""
        return replace(self, values=self.values[rows])

    def update(self, digest: Any) -> None:
        """Add the column to a checksum."""
        digest.update(repr((self.name, self.kind, self.values.dtype.str, self.categories)).encode())
        digest.update(np.ascontiguousarray(self.values).data.cast("B"))

    def as_kind(self, kind: str) -> Column:
        """Return the same values as another kind, or say which of them cannot be that.

        Examples
        --------
        >>> column = make_column("floor", np.array([1.0, 2.0, np.nan]))
        >>> column.as_kind("category").categories
        ('1', '2')
        """
        check_choice("a column", "kind", kind, KINDS)
        if kind == self.kind:
            return self
        if self.is_missing.all():
            return _nothing(self.name, kind, len(self.values))
        made = _CHANGES.get((self.kind, kind))
        if made is None:
            raise GraphError(
                f"column {self.name!r} holds {_WORDS[self.kind]} such as {self.example()}, "
                f"which cannot be read as {_WORDS[kind]}."
            )
        return made(self)

    def example(self) -> str:
        """Return the first value that is not missing, as text."""
        value = self.values[~self.is_missing][0]
        if self.kind == "date":
            return str(np.datetime64(int(value), "s"))
        return repr(self.categories[value]) if self.categories else f"{value:g}"


_WORDS = {
    "number": "numbers",
    "boolean": "booleans",
    "category": "categories",
    "date": "dates",
    "text": "text",
}


def make_column(name: str, given: Given, kind: str | None = None) -> Column:
    """Return the column that an array holds; ``kind`` where it is known, else what the values tell.

    Examples
    --------
    >>> make_column("member since", np.array(["2021-03-01", "", "2020-07-15"], dtype=object)).kind
    'date'
    """
    if isinstance(given, Coded):
        read = _from_coded_text if given.is_text else _from_codes
        column = read(name, given)
    else:
        maker = _MAKERS.get(given.dtype.kind)
        if maker is None:
            raise GraphError(f"column {name!r} holds {_dtype_words(given)}; give numbers, text or dates.")
        column = maker(name, given)
    return _find_dates(column) if kind is None else column.as_kind(kind)


def _dtype_words(array: NDArray[Any]) -> str:
    words = {"c": "complex numbers", "S": "bytes, which are text once decoded", "V": "records"}
    return words.get(array.dtype.kind, f"dtype {array.dtype}")


def _from_numbers(name: str, array: NDArray[Any]) -> Column:
    is_small = array.dtype.kind != "f" and array.dtype.itemsize <= 2  # exact in single precision
    is_single = array.dtype.kind == "f" and array.dtype.itemsize <= 4
    values = own(array, np.dtype(np.float32 if is_small or is_single else np.float64), True)
    n_infinite = count_nonfinite(values) and int(np.isinf(values).sum())
    if n_infinite:
        first = int(np.argmax(np.isinf(values)))
        raise GraphError(
            f"column {name!r} has {n_infinite} infinite values (first: row {first}); "
            "make them missing (NaN), or finite."
        )
    return Column(name, "number", values)


def _from_booleans(name: str, array: NDArray[Any]) -> Column:
    return Column(name, "boolean", array.astype(np.int8))


def _from_dates(name: str, array: NDArray[Any]) -> Column:
    seconds = array.astype("datetime64[us]").astype(np.int64) / 1e6
    return Column(name, "date", np.where(np.isnat(array), np.nan, seconds))


def _from_durations(name: str, array: NDArray[Any]) -> Column:
    seconds = array.astype("timedelta64[us]").astype(np.int64) / 1e6
    return _from_numbers(name, np.where(np.isnat(array), np.nan, seconds))


def _from_text(name: str, array: NDArray[Any]) -> Column:
    return _from_strings(name, array.tolist())


def _from_codes(name: str, given: Coded) -> Column:
    labels = [_as_label(name, label) for label in given.labels.tolist()]
    codes = given.codes
    if len(codes) and (codes.min() < -1 or codes.max() >= len(labels)):
        raise GraphError(f"column {name!r} has the code {codes.max()}, but {len(labels)} categories.")
    distinct = list(dict.fromkeys(label for label in labels if label))
    index = {label: i for i, label in enumerate(distinct)}
    places = np.array([*(index.get(label, -1) for label in labels), -1], np.int32)  # empty text is missing
    return Column(name, "category", places[codes], tuple(distinct))


def _from_objects(name: str, array: NDArray[Any]) -> Column:
    values = array.tolist()
    if set(map(type, values)) - {type(None)} == {str}:
        return _from_strings(name, values)
    rows = [i for i, value in enumerate(values) if not is_missing(value)]
    if not rows:
        return _nothing(name, "number", len(values))
    found: dict[str, int] = {}  # kind of value, and the first row that holds one
    for i in rows:
        found.setdefault(_kind_of(name, values[i]), i)
    if len(found) > 1:
        shown = " and ".join(f"{kind} ({values[i]!r} in row {i})" for kind, i in list(found.items())[:2])
        raise GraphError(f"column {name!r} mixes {shown}; make its values one kind.")
    (kind,) = found
    if kind == "text":
        return _from_strings(name, [None if is_missing(value) else str(value) for value in values])
    filled: NDArray[Any]
    if kind == "booleans":
        filled = np.full(len(values), -1, np.int8)
        filled[rows] = [bool(values[i]) for i in rows]
        return Column(name, "boolean", filled)
    read: Callable[[Any], float] = _READERS.get(kind, float)
    filled = np.full(len(values), np.nan)
    filled[rows] = [read(values[i]) for i in rows]
    return Column(name, "date", filled) if kind == "dates" else _from_numbers(name, filled)


def is_missing(value: Any) -> bool:
    """Say whether an object stands for a missing value: None, NaN, pandas' NA or NaT."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, (float, Decimal, np.floating)):
        return value != value
    return isinstance(value, (np.datetime64, np.timedelta64)) and bool(np.isnat(value))


def _kind_of(name: str, value: Any) -> str:
    """Return the kind of a value that stood in an array of objects, in words."""
    for kinds, word in _OBJECTS:
        if isinstance(value, kinds):
            return word
    if isinstance(value, bytes):
        raise GraphError(f"column {name!r} holds bytes such as {value[:20]!r}; decode them to text.")
    if hasattr(value, "__iter__"):
        raise GraphError(
            f"column {name!r} holds a {type(value).__name__} per row; a column holds one value per row. "
            "Make one column of each part."
        )
    raise GraphError(
        f"column {name!r} holds objects of type {type(value).__name__}; give numbers, text or dates."
    )


_OBJECTS: tuple[tuple[Any, str], ...] = (
    ((bool, np.bool_), "booleans"),
    ((str, UUID), "text"),
    ((datetime, date, np.datetime64), "dates"),
    ((timedelta, np.timedelta64), "durations"),
    ((Real, Decimal, Fraction), "numbers"),
)


def _as_seconds(value: timedelta | np.timedelta64) -> float:
    if isinstance(value, np.timedelta64):
        return float(value.astype("timedelta64[us]").astype(np.int64)) / 1e6
    return value.total_seconds()


def _seconds_since_1970(value: date | np.datetime64) -> float:
    if isinstance(value, np.datetime64):
        return float(value.astype("datetime64[us]").astype(np.int64)) / 1e6
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return (aware - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()


_READERS: dict[str, Callable[[Any], float]] = {"dates": _seconds_since_1970, "durations": _as_seconds}


def _from_strings(name: str, values: Sequence[str | None]) -> Column:
    """Return a column of categories, or of text where most values occur once."""
    places = {value: i for i, value in enumerate(dict.fromkeys(values))}
    codes = np.fromiter(map(places.__getitem__, values), np.int32, len(values))
    return _from_coded_text(name, Coded(codes, np.array([*places], dtype=object), is_text=True))


def _from_coded_text(name: str, given: Coded) -> Column:
    """Return the same of distinct values, which may be missing or empty."""
    labels = [(value or "").strip() for value in given.labels.tolist()]  # spaces around are no difference
    distinct = sorted({label for label in labels if label})
    if not distinct:
        return _nothing(name, "number", len(given.codes))
    index = {label: i for i, label in enumerate(distinct)} | {"": -1}
    places = np.array([*(index[label] for label in labels), -1], np.int32)  # the last is that of gaps
    codes = places[given.codes]
    n_present = int(np.count_nonzero(codes >= 0))
    is_text = len(distinct) > MAX_CATEGORIES and 2 * len(distinct) > n_present
    return Column(name, "text" if is_text else "category", codes, tuple(distinct))


def _find_dates(column: Column) -> Column:
    """Return text of which every value is a date, written as 2024-05-31, as dates; others as they are."""
    if not column.categories or not all(map(_ISO_DATE.fullmatch, column.categories)):
        return column
    try:
        return _text_to_date(column)
    except GraphError:  # a 31st of February: text that looks like dates
        return column


def _nothing(name: str, kind: str, n_rows: int) -> Column:
    """Return a column of which every value is missing."""
    is_float = kind in ("number", "date")
    return Column(name, kind, np.full(n_rows, np.nan) if is_float else np.full(n_rows, -1, np.int32))


def _as_label(name: str, value: Any) -> str:
    """Return a category as text: whole numbers without a point, whatever dtype held them."""
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    if isinstance(value, (list, tuple, dict, bytes)):
        raise GraphError(f"column {name!r} has the category {value!r}; categories are text or numbers.")
    return "" if is_missing(value) else str(value).strip()


def _numbers_to_category(column: Column) -> Column:
    present = column.values[~column.is_missing]
    distinct, places = np.unique(present, return_inverse=True)
    codes = np.full(len(column.values), -1, np.int32)
    codes[~column.is_missing] = places
    labels = tuple(_as_label(column.name, value) for value in distinct.tolist())
    return Column(column.name, "category", codes, labels)


def _booleans_to_numbers(column: Column) -> Column:
    numbers = np.where(column.is_missing, np.nan, column.values).astype(np.float32)
    return Column(column.name, "number", numbers)


def _booleans_to_category(column: Column) -> Column:
    return Column(column.name, "category", column.values.astype(np.int32), ("False", "True"))


def _numbers_to_booleans(column: Column) -> Column:
    present = column.values[~column.is_missing]
    other = present[(present != 0) & (present != 1)]
    if len(other):
        raise GraphError(f"column {column.name!r} holds {other[0]:g}; booleans are 0 and 1.")
    return Column(column.name, "boolean", np.nan_to_num(column.values, nan=-1).astype(np.int8))


def _numbers_to_date(column: Column) -> Column:
    far = column.values[np.abs(column.values) > _LAST_SECOND]
    if len(far):
        raise GraphError(f"column {column.name!r} holds {far[0]:g}; dates as numbers are seconds since 1970.")
    return Column(column.name, "date", column.values.astype(np.float64))


def _text_to_numbers(column: Column) -> Column:
    def read(label: str) -> float:
        try:
            return float(label)
        except ValueError:
            raise GraphError(f"column {column.name!r} holds {label!r}, which is no number.") from None

    numbers = np.array([*map(read, column.categories), np.nan])
    return _from_numbers(column.name, numbers[column.values])


def _text_to_date(column: Column) -> Column:
    try:
        dates = np.array([*column.categories, "NaT"], dtype="datetime64[us]")
    except ValueError as error:
        raise GraphError(f"column {column.name!r} holds no dates as 2024-05-31: {error}.") from error
    return _from_dates(column.name, dates[column.values])


_MAKERS: dict[str, Callable[[str, NDArray[Any]], Column]] = {
    **dict.fromkeys("iuf", _from_numbers),
    "b": _from_booleans,
    "M": _from_dates,
    "m": _from_durations,
    "U": _from_text,
    "T": _from_text,
    "O": _from_objects,
}

_CHANGES: dict[tuple[str, str], Callable[[Column], Column]] = {
    ("number", "category"): _numbers_to_category,
    ("number", "boolean"): _numbers_to_booleans,
    ("number", "date"): _numbers_to_date,
    ("boolean", "number"): _booleans_to_numbers,
    ("boolean", "category"): _booleans_to_category,
    ("date", "number"): lambda column: replace(column, kind="number"),
    ("category", "text"): lambda column: replace(column, kind="text"),
    ("text", "category"): lambda column: replace(column, kind="category"),
    ("category", "number"): _text_to_numbers,
    ("text", "number"): _text_to_numbers,
    ("category", "date"): _text_to_date,
    ("text", "date"): _text_to_date,
}
