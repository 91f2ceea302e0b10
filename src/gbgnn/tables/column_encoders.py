"""How one column becomes numbers for a network, and numbers for trees: a fitted class per kind of column."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from gbgnn._files import as_plain
from gbgnn.tables.columns import Column
from gbgnn.tables.text_hashes import hash_text

Matrix = NDArray[np.float32]

MAX_TREE_CATEGORIES = 254
"""Histograms of trees have at most 255 bins, of which one may be for missing values."""

_FEW_VALUES = 10
"""Numbers with at most so many distinct values are standardised: quantiles would tear them apart."""

_FARTHEST = 10.0
"""No standardised number is farther from zero, however rare."""

_MOST_FREQUENT = MAX_TREE_CATEGORIES**0.5
"""No standardised number of so many is larger, and so no frequency of a category is."""

_UNSEEN = -2
"""The code of a category that was not there, or too rare to be kept, when the encoder was fitted."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ColumnEncoder(ABC):
    """A fitted encoder of one column. Arrays among its fields are its state, the others are plain values."""

    kind: ClassVar[str]  # of the columns that it reads
    name: str
    has_gaps: bool

    @abstractmethod
    def names(self) -> list[str]:
        """Return the names of the columns that :meth:`encode` makes."""

    @abstractmethod
    def encode(self, column: Column) -> Matrix:
        """Return a block of rows as numbers without gaps; the column comes from :meth:`align`."""

    @abstractmethod
    def raw(self, column: Column) -> Matrix:
        """Return a block of rows for trees: NaN where missing."""

    def raw_names(self) -> list[str]:
        """Return the names of the columns that :meth:`raw` makes."""
        return [self.name]

    @property
    def is_categorical(self) -> bool:
        """Whether the numbers of :meth:`raw` are codes, of which more is not more."""
        return False

    def align(self, column: Column) -> Column:
        """Return any table's column of this name in the terms of the one that was fitted."""
        return column.as_kind(self.kind)

    def record(self) -> dict[str, Any]:
        """Return all that is not an array, as JSON has it."""
        values = ((each.name, getattr(self, each.name)) for each in fields(self))
        plain = {name: as_plain(value) for name, value in values if not isinstance(value, np.ndarray)}
        return {"encoder": NAMES[type(self)], **plain}

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the arrays."""
        values = ((each.name, getattr(self, each.name)) for each in fields(self))
        return {name: value for name, value in values if isinstance(value, np.ndarray)}

    @classmethod
    def from_record(cls, record: dict[str, Any], state: dict[str, NDArray[Any]]) -> Self:
        """Return the encoder of a record and its arrays."""
        values: dict[str, Any] = dict(state)
        for name, value in record.items():
            if name != "encoder":
                values[name] = tuple(value) if isinstance(value, list) else value
        return cls(**values)

    def _with_gaps(self, blocks: list[Any], is_missing: NDArray[np.bool_]) -> Matrix:
        blocks = [*blocks, is_missing] if self.has_gaps else blocks
        return np.column_stack(blocks).astype(np.float32, copy=False)

    def _gap_names(self) -> list[str]:
        return [f"{self.name}=missing"] if self.has_gaps else []


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class NumberEncoder(ColumnEncoder):
    """Numbers by linear interpolation between knots: quantiles to those of a normal, or standardised.

    Beyond the outermost knots nothing changes any more. A gap is the middle, and marked in a column where
    there were gaps at the fit.
    """

    kind = "number"
    knots: NDArray[np.float64]
    outputs: NDArray[np.float64]

    def __post_init__(self) -> None:
        """Raise unless the knots are those of a map to numbers as they are fitted."""
        check_knots(self.name, self.knots, self.outputs)

    @classmethod
    def fit(cls, column: Column, n_quantiles: int) -> Self:
        """Return the encoder of a column with at least two distinct values."""
        is_missing = column.is_missing
        knots, outputs = fit_knots(column.values[~is_missing], n_quantiles)
        return cls(name=column.name, has_gaps=bool(is_missing.any()), knots=knots, outputs=outputs)

    def names(self) -> list[str]:
        """Return the column's own name, and that of its gaps."""
        return [self.name, *self._gap_names()]

    def encode(self, column: Column) -> Matrix:
        """Return the number, zero where missing, and whether it is missing."""
        return self._with_gaps([interpolate(column.values, self.knots, self.outputs)], column.is_missing)

    def raw(self, column: Column) -> Matrix:
        """Return the number as it is."""
        return as_single(column.values)[:, None]


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class DateEncoder(ColumnEncoder):
    """Dates as a number, and month and day of the week as points of a circle where they differ."""

    kind = "date"
    knots: NDArray[np.float64]
    outputs: NDArray[np.float64]
    parts: tuple[str, ...]

    def __post_init__(self) -> None:
        """Raise unless the knots are those of a map to numbers as they are fitted."""
        check_knots(self.name, self.knots, self.outputs)

    @classmethod
    def fit(cls, column: Column, n_quantiles: int) -> Self:
        """Return the encoder of a column with at least two distinct dates."""
        is_missing = column.is_missing
        present = column.values[~is_missing]
        knots, outputs = fit_knots(present, n_quantiles)
        parts = tuple(part for part in _CIRCLES if len(np.unique(_date_part(part, present))) > 1)
        has_gaps = bool(is_missing.any())
        return cls(name=column.name, has_gaps=has_gaps, knots=knots, outputs=outputs, parts=parts)

    def names(self) -> list[str]:
        """Return the column's name, those of sines and cosines, and that of gaps."""
        circles = [f"{self.name}:{part}_{wave}" for part in self.parts for wave in ("sin", "cos")]
        return [self.name, *circles, *self._gap_names()]

    def encode(self, column: Column) -> Matrix:
        """Return the date as a number, its places on circles, and whether it is missing."""
        blocks = [interpolate(column.values, self.knots, self.outputs)]
        for part in self.parts:
            angle = _date_part(part, column.values) * (2 * np.pi / _CIRCLES[part])
            blocks += [np.nan_to_num(np.sin(angle)), np.nan_to_num(np.cos(angle))]
        return self._with_gaps(blocks, column.is_missing)

    def raw(self, column: Column) -> Matrix:
        """Return days since 1970, and month and day of the week where they differ."""
        parts = [_date_part(part, column.values) for part in self.parts]
        return np.column_stack([as_single(column.values / 86_400), *parts]).astype(np.float32)

    def raw_names(self) -> list[str]:
        """Return the column's name, and those of its parts."""
        return [self.name, *(f"{self.name}:{part}" for part in self.parts)]


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class CategoryEncoder(ColumnEncoder):
    """Categories as columns of 0 and 1: one each of a few values, or of many a few shared by their hash.

    ``places`` is the column of each of ``values``; rare values share the last one, ``rare``. Of many values
    there is a column more, their ``frequency`` on a logarithmic scale. What was not seen at the fit is rare;
    where nothing was rare, it is in no column.
    """

    kind = "category"
    values: tuple[str, ...]
    places: NDArray[np.int64]
    labels: tuple[str, ...]
    rare: int
    frequency: NDArray[np.float64]

    def __post_init__(self) -> None:
        """Raise unless every value has its column, and a frequency that is a number."""
        n_values, n_labels = len(self.values), len(self.labels)
        fits = self.places.shape == (n_values,) and self.frequency.shape in ((0,), (n_values,))
        fits = fits and bool((np.abs(self.frequency) <= _MOST_FREQUENT).all())
        if not fits or max([self.rare, *self.places.tolist()]) >= n_labels:
            raise ValueError(f"the categories of {self.name!r} do not fit their columns")

    @classmethod
    def fit(cls, column: Column, *, max_onehot: int, rare_share: float, n_hashed: int) -> Self:
        """Return the encoder of a column with at least two distinct values."""
        is_missing = column.is_missing
        counts = np.bincount(column.values[~is_missing], minlength=len(column.categories))
        seen = np.flatnonzero(counts)
        is_few = len(seen) <= max_onehot
        kept = (
            seen if is_few else np.sort(seen[np.argsort(-counts[seen], kind="stable")[:MAX_TREE_CATEGORIES]])
        )
        values = tuple(column.categories[i] for i in kept)
        shares = counts[kept] / counts.sum()
        if is_few:
            is_rare = shares < rare_share
            buckets = np.cumsum(~is_rare) - 1
            labels = [f"={value}" for value, rare in zip(values, is_rare, strict=True) if not rare]
            frequency = np.empty(0)
        else:
            is_rare = np.zeros(len(kept), bool)
            hashes = [zlib.crc32(value.encode()) % n_hashed for value in values]
            used, buckets = np.unique(hashes, return_inverse=True)
            labels = [f"#{bucket}" for bucket in used]
            frequency = np.log(shares)
            frequency = (frequency - frequency.mean()) / (frequency.std() or 1.0)
        has_rare = bool(is_rare.any()) or len(kept) < len(seen)
        rare = len(labels) if has_rare else -1
        return cls(
            name=column.name,
            has_gaps=bool(is_missing.any()),
            values=values,
            places=np.where(is_rare, rare, buckets).astype(np.int64),
            labels=(*labels, *(["=rare"] if has_rare else [])),
            rare=rare,
            frequency=frequency,
        )

    @property
    def is_categorical(self) -> bool:
        """Codes are codes."""
        return True

    def align(self, column: Column) -> Column:
        """Return the column with the codes of the values that were kept at the fit."""
        given = column.as_kind(self.kind)
        index = {value: i for i, value in enumerate(self.values)}
        codes = [*(index.get(label, _UNSEEN) for label in given.categories), -1]
        return Column(self.name, self.kind, np.array(codes, np.int32)[given.values], self.values)

    def names(self) -> list[str]:
        """Return a name per value or hash, of what is rare, of the frequency and of gaps."""
        frequency = [f"{self.name}:frequency"] if len(self.frequency) else []
        return [*(f"{self.name}{label}" for label in self.labels), *frequency, *self._gap_names()]

    def encode(self, column: Column) -> Matrix:
        """Return a 1 in the column of each row's value, the frequency, and whether the value is missing."""
        codes = column.values
        place = np.append(self.places, [self.rare, -1])[codes]  # -2 is unseen, -1 missing: from the end
        hot = np.zeros((len(codes), len(self.labels)), np.float32)
        rows = np.flatnonzero(place >= 0)
        hot[rows, place[rows]] = 1
        blocks: list[Any] = [hot]
        if len(self.frequency):
            blocks.append(np.append(self.frequency, [self.frequency.min(), 0.0])[codes])
        return self._with_gaps(blocks, codes == -1)

    def raw(self, column: Column) -> Matrix:
        """Return the code of the value, NaN where it is missing or was not kept at the fit."""
        return np.where(column.values < 0, np.nan, column.values).astype(np.float32)[:, None]


@final
@dataclass(frozen=True, eq=False)
class HashedText(Column):
    """A column of text with a row of numbers for each of its distinct values; the last, for gaps, is zero."""

    hashed: Matrix = field(default_factory=lambda: np.zeros((1, 0), np.float32))


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class TextEncoder(ColumnEncoder):
    """Text of a few words as hashed sequences of two to four characters, the same for every table."""

    kind = "text"
    n_columns: int

    def align(self, column: Column) -> Column:
        """Return the column as text, each distinct value hashed."""
        text = column.as_kind(self.kind)
        hashed = hash_text(text.categories, self.n_columns)
        return HashedText(text.name, text.kind, text.values, text.categories, hashed)

    def names(self) -> list[str]:
        """Return a numbered name per hash, and that of gaps."""
        return [*self.raw_names(), *self._gap_names()]

    def encode(self, column: Column) -> Matrix:
        """Return rows of length one, zero where missing, and whether the text is missing."""
        return self._with_gaps([self._look_up(column)], column.is_missing)

    def raw(self, column: Column) -> Matrix:
        """Return the same rows, NaN where missing."""
        hashed = self._look_up(column)
        hashed[column.is_missing] = np.nan
        return hashed

    def raw_names(self) -> list[str]:
        """Return a numbered name per hash."""
        return [f"{self.name}#{i}" for i in range(self.n_columns)]

    def _look_up(self, column: Column) -> Matrix:
        known = column if isinstance(column, HashedText) else self.align(column)
        assert isinstance(known, HashedText)
        return np.asarray(known.hashed[known.values])


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class GapEncoder(ColumnEncoder):
    """Of a column with one value and gaps: where the gaps are."""

    def align(self, column: Column) -> Column:
        """Return the column: of whatever kind, it has gaps or not."""
        return column

    def names(self) -> list[str]:
        """Return the name of the gaps."""
        return self._gap_names()

    def encode(self, column: Column) -> Matrix:
        """Return whether the value is missing."""
        return self._with_gaps([], column.is_missing)

    def raw(self, column: Column) -> Matrix:
        """Return the same."""
        return self.encode(column)

    def raw_names(self) -> list[str]:
        """Return the name of the gaps."""
        return self._gap_names()


ENCODERS: dict[str, type[ColumnEncoder]] = {
    "number": NumberEncoder,
    "date": DateEncoder,
    "category": CategoryEncoder,
    "text": TextEncoder,
    "gaps": GapEncoder,
}
"""By the names that model files use."""

NAMES = {known: name for name, known in ENCODERS.items()}

_CIRCLES = {"month": 12, "weekday": 7}


def fit_knots(values: NDArray[Any], n_quantiles: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return where a monotone map has its knots, and what it makes of them.

    Quantiles become those of a normal distribution, as far out as ``n_quantiles`` of them tell; numbers of
    few distinct values are standardised.

    Examples
    --------
    >>> knots, outputs = fit_knots(np.array([0.0, 0.0, 4.0, 4.0]), 256)
    >>> interpolate(np.array([0.0, 2.0, np.nan, 100.0]), knots, outputs).tolist()
    [-1.0, 0.0, 0.0, 1.0]
    """
    ordered = np.sort(values.astype(np.float64))
    n = len(ordered)
    if np.count_nonzero(ordered[1:] > ordered[:-1]) < _FEW_VALUES:
        ends = ordered[[0, -1]]
        size = np.abs(ends).max()  # squares of what is divided by it stay finite
        low, high = ends / size
        mean, std = (ordered / size).mean(), (ordered / size).std()
        return ends, (np.array([low, high]) - mean) / max(std, (high - low) / _FARTHEST)
    places = np.rint(np.linspace(0, n - 1, min(n, n_quantiles))).astype(np.int64)
    knots, ties = np.unique(ordered[places], return_inverse=True)
    shares = np.bincount(ties, weights=places / (n - 1)) / np.bincount(ties)
    edge = 0.5 / n_quantiles
    return knots, ndtri(np.clip(shares, edge, 1 - edge))


def check_knots(name: str, knots: NDArray[Any], outputs: NDArray[Any]) -> None:
    """Raise unless knots and outputs are such as :func:`fit_knots` returns, which a file may not hold."""
    fits = knots.ndim == 1 and knots.shape == outputs.shape and len(knots) > 0
    fits = fits and bool(np.isfinite(knots).all()) and bool((np.diff(knots) >= 0).all())
    if not fits or not bool((np.abs(outputs) <= 1.01 * _FARTHEST).all()):
        raise ValueError(f"the numbers of {name!r} are not encoded by finite knots in ascending order")


def interpolate(
    values: NDArray[Any], knots: NDArray[np.float64], outputs: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return a piecewise linear map of values, zero where they are missing."""
    return np.asarray(np.nan_to_num(np.interp(values, knots, outputs)), np.float64)


def as_single(values: NDArray[Any]) -> Matrix:
    """Return numbers in single precision, what is too large for it as the largest there is; NaN stays."""
    largest = np.finfo(np.float32).max
    return np.asarray(np.clip(values, -largest, largest), np.float32)


def _date_part(part: str, seconds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the month from 0, or the day of the week from Monday as 0; NaN where missing."""
    days = np.floor(seconds / 86_400)
    if part == "weekday":
        return (days + 3) % 7  # 1970 began on a Thursday
    is_missing = np.isnan(days)
    months = np.where(is_missing, 0, days).astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    return np.where(is_missing, np.nan, months % 12)
