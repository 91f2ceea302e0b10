"""The user's own names of nodes, and the way from them to row numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbgnn.errors import DataError


class NodeIndex:
    """Looks up rows by the user's ids.

    Parameters
    ----------
    ids
        The id of each row: integers or strings, no gaps, no repeats.
    where
        The file or object they came from, for messages.
    """

    def __init__(self, ids: NDArray[Any], where: str) -> None:
        self.ids = _whole(ids, where)
        self.where = where
        self._order = np.argsort(self.ids, kind="stable")
        ranked = self.ids[self._order]
        repeats = np.flatnonzero(ranked[1:] == ranked[:-1])
        if len(repeats):
            first, second = self._order[repeats[0]], self._order[repeats[0] + 1]
            raise DataError(
                f"{where}: id {ranked[repeats[0]].item()!r} stands in data rows {first + 1} and "
                f"{second + 1}; each node needs a row of its own ({len(repeats)} repeated ids)."
            )

    def rows(self, values: NDArray[Any], where: str) -> NDArray[np.int64]:
        """Return the row of each id, or say which id is unknown."""
        ids, wanted = self.ids, _whole(values, where) if len(values) else values.astype(self.ids.dtype)
        order = self._order
        if (ids.dtype.kind == "U") != (wanted.dtype.kind == "U"):
            # One file may hold only number-like ids, the other also words.
            ids, wanted = ids.astype(np.str_), wanted.astype(np.str_)
            order = np.argsort(ids, kind="stable")
        place = np.searchsorted(ids, wanted, sorter=order)
        rows = order[np.minimum(place, len(ids) - 1)]
        unknown = np.flatnonzero(ids[rows] != wanted)
        if len(unknown):
            raise DataError(
                f"{where}: data row {unknown[0] + 1} names node {wanted[unknown[0]].item()!r}, which is "
                f"not an id in {self.where} ({len(unknown)} such rows)."
            )
        return rows


def _whole(ids: NDArray[Any], where: str) -> NDArray[Any]:
    """Return ids as integers or text; a gap or a fraction is an error."""
    gaps = np.flatnonzero(ids == "" if ids.dtype.kind == "U" else np.isnan(ids))
    if len(gaps):
        raise DataError(f"{where}: data row {gaps[0] + 1} has no id ({len(gaps)} such rows).")
    if ids.dtype.kind != "f":
        return ids
    if not np.array_equal(ids, np.round(ids)):
        bad = np.flatnonzero(ids != np.round(ids))[0]
        raise DataError(f"{where}: data row {bad + 1} has id {ids[bad]}; ids are whole numbers or text.")
    return ids.astype(np.int64)
