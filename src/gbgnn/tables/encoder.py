"""TableEncoder: a table in, a matrix of numbers out; fitted without labels, saved without pickle."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from gbgnn._checks import check_integer, check_number
from gbgnn._threads import map_threads
from gbgnn.errors import GBGNNWarning, GraphError
from gbgnn.tables.column_encoders import (
    ENCODERS,
    CategoryEncoder,
    ColumnEncoder,
    DateEncoder,
    GapEncoder,
    Matrix,
    NumberEncoder,
    TextEncoder,
)
from gbgnn.tables.columns import MAX_CATEGORIES, Column
from gbgnn.tables.frames import list_names
from gbgnn.tables.table import as_node_table

BLOCK_ROWS = 1 << 14
"""Rows encoded at a time."""


class RawColumns(NamedTuple):
    """What trees see of a table: numbers as they are, codes of categories, NaN where missing."""

    matrix: NDArray[np.floating[Any]]
    categorical: NDArray[np.bool_]
    names: list[str]


@dataclass(kw_only=True, eq=False, repr=False)
class TableEncoder(TransformerMixin, BaseEstimator):
    """Makes a matrix of float32 without gaps of a table, as suits a neural network; labels play no part.

    Numbers go from their quantiles to those of a normal distribution, or are standardised where they have few
    distinct values. Categories become columns of 0 and 1, dates a number and places on the circles of months
    and weekdays, text of a few words hashed sequences of characters. Gaps are marked in a column of their
    own. Columns that say nothing (constant, all missing, equal to another) are dropped and named in
    ``report_``.

    Parameters
    ----------
    n_quantiles
        Knots of the map of a number column.
    max_onehot
        Categories with more distinct values are told apart by their frequency and by ``n_hashed`` columns.
    rare_share
        Values in a smaller share of the rows share one column.
    n_hashed
        Columns of a category with many values.
    n_text
        Columns of a text.

    Attributes
    ----------
    feature_names_in_
        The names of the table's columns.
    encoders_
        A fitted encoder per column that is used.
    report_
        What was dropped and why, and what became of the rest, as sentences.

    Examples
    --------
    >>> table = {"age": [31, None, 58, 44], "city": ["Oslo", "Rome", "Oslo", "Oslo"], "year": [2024] * 4}
    >>> encoder = TableEncoder()
    >>> encoder.fit_transform(table).shape
    (4, 4)
    >>> encoder.get_feature_names_out().tolist()
    ['age', 'age=missing', 'city=Oslo', 'city=Rome']
    >>> encoder.report_[0]
    "dropped 'year': it is 2024 everywhere."
    """

    n_quantiles: int = 256
    max_onehot: int = MAX_CATEGORIES
    rare_share: float = 0.002
    n_hashed: int = 16
    n_text: int = 32

    def fit(self, table: Any, y: Any = None) -> Self:
        """Learn quantiles, categories and gaps of a table's columns; ``y`` is not looked at."""
        self._check()
        table = as_node_table(table)
        encoders: list[ColumnEncoder] = []
        report: list[str] = []
        seen: dict[tuple[Any, ...], str] = {}
        for column in table.columns:
            twin = seen.setdefault(_key(column), column.name)
            reason = _why_useless(column) or (twin != column.name and f"it equals {twin!r} in every row")
            if reason:
                report.append(f"dropped {column.name!r}: {reason}.")
            else:
                encoders.append(self._fit_column(column))
        if not encoders:
            raise GraphError(f"no column tells nodes apart: {' '.join(report)}")
        self.feature_names_in_ = np.array(table.names, dtype=object)
        self.encoders_ = tuple(encoders)
        self.report_ = (*report, *map(_describe, encoders))
        return self

    @property
    def n_features_in_(self) -> int:
        """Number of the table's columns."""
        return len(self.feature_names_in_)

    def transform(self, table: Any) -> Matrix:
        """Return the table as a float32 matrix; its columns may come in any order."""
        aligned = self._align(table)
        n_rows = len(aligned[0].values)
        result = np.empty((n_rows, len(self.get_feature_names_out())), np.float32)
        blocks = _split(n_rows, BLOCK_ROWS)
        map_threads(lambda rows: self._fill(result[rows], aligned, rows), blocks, result.size)
        return result

    def transform_blocks(self, table: Any, block_rows: int = BLOCK_ROWS) -> Iterator[Matrix]:
        """Yield the matrix in blocks of rows: only one is in memory at a time."""
        check_integer("TableEncoder", "block_rows", block_rows, 1)
        aligned, n_columns = self._align(table), len(self.get_feature_names_out())
        for rows in _split(len(aligned[0].values), block_rows):
            block = np.empty((rows.stop - rows.start, n_columns), np.float32)
            self._fill(block, aligned, rows)
            yield block

    def raw(self, table: Any) -> RawColumns:
        """Return what trees see: numbers as they are, codes of categories, NaN for what is missing.

        Categories that were not there at the fit, or beyond the 254 most frequent, are missing too.
        """
        names_of = [encoder.raw_names() for encoder in self.encoders_]
        ends = np.cumsum([len(names) for names in names_of])
        aligned = self._align(table)
        matrix = np.empty((len(aligned[0].values), ends[-1]), np.float32)
        parts = np.split(matrix, ends[:-1], axis=1)
        for encoder, column, part in zip(self.encoders_, aligned, parts, strict=True):
            part[:] = encoder.raw(column)
        is_code = [encoder.is_categorical for encoder in self.encoders_]
        categorical = np.repeat(is_code, [len(names) for names in names_of])
        return RawColumns(matrix, categorical, [name for names in names_of for name in names])

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the matrix's columns."""
        check_is_fitted(self)
        return np.array([name for encoder in self.encoders_ for name in encoder.names()], dtype=object)

    def record(self) -> dict[str, Any]:
        """Return what the encoder learned, less its arrays, as JSON has it."""
        check_is_fitted(self)
        return {
            "settings": self.get_params(),
            "columns": self.feature_names_in_.tolist(),
            "report": list(self.report_),
            "encoders": [encoder.record() for encoder in self.encoders_],
        }

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that the encoder learned, by name."""
        states = (encoder.state() for encoder in self.encoders_)
        return {f"{i}.{name}": array for i, state in enumerate(states) for name, array in state.items()}

    @classmethod
    def from_record(cls, record: dict[str, Any], state: dict[str, NDArray[Any]]) -> Self:
        """Return the fitted encoder of a record and its arrays."""
        encoder = cls(**record["settings"])
        parts: list[dict[str, NDArray[Any]]] = [{} for _ in record["encoders"]]
        for name, array in state.items():
            place, _, key = name.partition(".")
            parts[int(place)][key] = array
        encoder.feature_names_in_ = np.array(record["columns"], dtype=object)
        encoder.report_ = tuple(record["report"])
        known = zip(record["encoders"], parts, strict=True)
        encoder.encoders_ = tuple(ENCODERS[row["encoder"]].from_record(row, part) for row, part in known)
        strange = {each.name for each in encoder.encoders_} - set(record["columns"])
        if strange:
            raise ValueError(f"the columns {sorted(strange)} are encoded, but the table has none of them")
        return encoder

    def _check(self) -> None:
        for name in ("n_quantiles", "max_onehot", "n_hashed", "n_text"):
            check_integer("TableEncoder", name, getattr(self, name), 2)
        check_number("TableEncoder", "rare_share", self.rare_share, 0, 1)

    def _fit_column(self, column: Column) -> ColumnEncoder:
        has_gaps = bool(column.is_missing.any())
        if _is_constant(column):
            return GapEncoder(name=column.name, has_gaps=True)
        if column.kind == "text":
            return TextEncoder(name=column.name, has_gaps=has_gaps, n_columns=self.n_text)
        if column.kind == "category":
            return CategoryEncoder.fit(
                column, max_onehot=self.max_onehot, rare_share=self.rare_share, n_hashed=self.n_hashed
            )
        if column.kind == "date":
            return DateEncoder.fit(column, self.n_quantiles)
        return NumberEncoder.fit(column.as_kind("number"), self.n_quantiles)

    def _align(self, table: Any) -> list[Column]:
        """Return the columns in the order of the fit, in its terms, or say which are not there."""
        check_is_fitted(self)
        table = as_node_table(table)
        columns = {column.name: column for column in table.columns}
        missing = [encoder.name for encoder in self.encoders_ if encoder.name not in columns]
        if missing:
            raise GraphError(
                f"the table has no column {list_names(map(repr, missing))}, which the encoder was fitted "
                f"with; its columns are {list_names(table.names)}."
            )
        known = set(self.feature_names_in_)
        extra = [name for name in columns if name not in known]
        if extra:
            warnings.warn(
                f"columns that the encoder was not fitted with are ignored: {list_names(extra)}.",
                GBGNNWarning,
                stacklevel=3,
            )
        return [encoder.align(columns[encoder.name]) for encoder in self.encoders_]

    def _fill(self, block: Matrix, aligned: list[Column], rows: slice) -> None:
        """Put some rows, encoded, where they belong."""
        start = 0
        for encoder, column in zip(self.encoders_, aligned, strict=True):
            part = encoder.encode(column.rows(rows))
            block[:, start : start + part.shape[1]] = part
            start += part.shape[1]


def _split(n_rows: int, block_rows: int) -> list[slice]:
    return [slice(start, min(start + block_rows, n_rows)) for start in range(0, n_rows, block_rows)]


def _is_constant(column: Column) -> bool:
    """Whether all values that are there are the same."""
    present = column.values[~column.is_missing]
    return not len(present) or bool((present == present[0]).all())


def _why_useless(column: Column) -> str | None:
    is_missing = column.is_missing
    if is_missing.all():
        return "it is missing everywhere"
    if _is_constant(column) and not is_missing.any():
        return f"it is {column.example()} everywhere"
    return None


def _key(column: Column) -> tuple[Any, ...]:
    """Return what equal columns have in common."""
    values = hashlib.sha256(np.ascontiguousarray(column.values).data.cast("B")).digest()
    return column.kind, column.values.dtype.str, values, column.categories


def _describe(encoder: ColumnEncoder) -> str:
    gaps = ", gaps marked" * encoder.has_gaps
    n_columns = len(encoder.names())
    return f"{encoder.name!r} became {n_columns} column{'s' * (n_columns > 1)}{gaps}."
