"""Rows by the user's ids, which are sorted in memory or, where they are too many, on disk."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbgnn._arrays import is_rising, release, split_blocks
from gbgnn._ids import hash_ids
from gbgnn.datasets.arrays import ArrayWriter, open_array
from gbgnn.datasets.columns import as_integers
from gbgnn.datasets.scratch import Scratch
from gbgnn.errors import DataError

_WHOLE = re.compile(r"0|-?[1-9]\d{0,17}")
_SHARE = 4
"""Sorting ids takes their own size a few times over, and is one of several things that want room."""


class NodeIndex:
    """Looks up rows by the user's ids: integers or strings, no gaps, no repeats; from ``where``.

    With a ``scratch`` the ids may be mapped from a file; those that it has no room for are sorted on disk.

    Examples
    --------
    >>> NodeIndex(np.array(["ann", "bob"]), "nodes.csv").rows(np.array(["bob", "ann", "bob"]), "edges.csv")
    array([1, 0, 1])
    """

    def __init__(self, ids: NDArray[Any], where: str, scratch: Scratch | None = None) -> None:
        if scratch is None:
            cells = IdCells(where)
            ids = cells.take(ids)
            cells.check()
        self.ids = ids
        self.where = where
        # Text is sorted by its hashes, which takes a fraction of the time; by itself, if two are the same.
        self._is_hashed = self.ids.dtype.kind == "U" and self.ids.dtype.itemsize > 0
        self._ranked, self._order = _rank(_hash(self.ids, scratch) if self._is_hashed else self.ids, scratch)
        if self._is_hashed and not is_rising(self._ranked):
            self._is_hashed = False
            self._ranked, self._order = _rank(self.ids, scratch)
        self._check_distinct()
        self._lowest, highest = (self._ranked[place].item() for place in (0, -1))
        # Numbers without a gap among them need no search: the place of each is known.
        is_whole = self._ranked.dtype == np.int64
        self._is_dense = is_whole and highest - self._lowest == len(self._ranked) - 1

    def _check_distinct(self) -> None:
        n_repeats, found = 0, None
        for start, stop in split_blocks(self._ranked):
            block = self._ranked[start : stop + 1]
            repeats = np.flatnonzero(block[1:] == block[:-1])
            n_repeats += len(repeats)
            if found is None and len(repeats):
                place = start + int(repeats[0])
                found = self._ranked[place].item(), *(self._order[place : place + 2] + 1).tolist()
            release(block)
        if found is not None:
            value, first, second = found
            raise DataError(
                f"{self.where}: id {value!r} stands in data rows {first} and {second}; each node needs a row "
                f"of its own ({n_repeats} repeated ids)."
            )

    def rows(self, values: NDArray[Any], where: str) -> NDArray[np.int64]:
        """Return the row of each id, or say which id is unknown."""
        end = EdgeEnd(self, where)
        rows = end.rows(values)
        end.check()
        return rows

    def find(self, wanted: NDArray[Any]) -> NDArray[np.int64]:
        """Return the row of each id, -1 where there is none."""
        ranked, given = self._ranked, wanted
        rows = np.full(len(wanted), -1)
        if not len(wanted):
            return rows
        known = np.arange(len(wanted))
        if self.ids.dtype.kind == "U":
            given = wanted = wanted.astype(np.str_, copy=False)
            if self._is_hashed:
                wanted = hash_ids(wanted)
            else:
                known = np.flatnonzero(np.char.str_len(wanted) <= ranked.dtype.itemsize // 4)
                wanted = wanted[known].astype(ranked.dtype, copy=False)
        elif wanted.dtype.kind == "U":
            # One file may hold only number-like ids, the other also words, which are no ids then.
            known, wanted = _numbers_among(wanted)
        if self._is_dense and wanted.dtype.kind == "i":
            is_inside = (wanted >= self._lowest) & (wanted < self._lowest + len(ranked))
            rows[known[is_inside]] = self._order[wanted[is_inside].astype(np.int64) - self._lowest]
        elif len(wanted):
            order = np.argsort(wanted, kind="stable")  # neighbours in the search are neighbours in memory
            ordered = wanted[order]
            places = np.minimum(np.searchsorted(ranked, ordered), len(ranked) - 1)
            is_found = ranked[places] == ordered
            rows[known[order[is_found]]] = self._order[places[is_found]]
        if self._is_hashed:
            rows[(rows >= 0) & (self.ids[rows] != given)] = -1
        release(ranked, self._order, self.ids)
        return rows


class IdCells:
    """A column of ids, a few rows at a time; what is wrong with it is said in the end."""

    def __init__(self, where: str) -> None:
        self._where, self.n_rows = where, 0
        self._firsts: dict[str, tuple[int, Any]] = {}
        self._counts: dict[str, int] = {}

    def take(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the next ids as integers or text; of gaps and fractions note is taken."""
        gaps = values == "" if values.dtype.kind == "U" else np.isnan(values)
        self.note("gap", gaps, values)
        if values.dtype.kind == "f":
            self.note("fraction", ~gaps & (values != np.round(values)), values)
            values = np.where(np.isfinite(values), values, -1).astype(np.int64)
        self.n_rows += len(values)
        return values

    def note(self, kind: str, is_wrong: NDArray[np.bool_], values: NDArray[Any], first: int = 0) -> None:
        """Keep the first of the next rows with something wrong, and how many there are."""
        places = np.flatnonzero(is_wrong)
        if len(places):
            self._firsts.setdefault(kind, (self.n_rows + first + int(places[0]) + 1, values[places[0]]))
            self._counts[kind] = self._counts.get(kind, 0) + len(places)

    def check(self, known: str = "") -> None:
        """Raise where an id was missing, is no id, or is none of those ``known``."""
        if "gap" in self._firsts:
            row, _ = self._firsts["gap"]
            raise DataError(f"{self._where}: data row {row} has no id ({self._counts['gap']} such rows).")
        if "fraction" in self._firsts:
            row, value = self._firsts["fraction"]
            raise DataError(f"{self._where}: data row {row} has id {value}; ids are whole numbers or text.")
        if "unknown" in self._firsts:
            row, value = self._firsts["unknown"]
            raise DataError(
                f"{self._where}: data row {row} names node {value.item()!r}, which is not an id in {known} "
                f"({self._counts['unknown']} such rows)."
            )


class EdgeEnd:
    """A column of ids in a table of edges, a few rows at a time."""

    def __init__(self, index: NodeIndex, where: str) -> None:
        self._index, self._cells = index, IdCells(where)

    def rows(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """Return the row of the node that each id names; -1 where :meth:`check` will raise."""
        wanted = self._cells.take(values)
        found = self._index.find(wanted)
        self._cells.note("unknown", found < 0, wanted, -len(wanted))
        return found

    def check(self) -> None:
        """Raise where an id was missing, is no id, or names no node."""
        self._cells.check(self._index.where)


def _numbers_among(cells: NDArray[np.str_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the places of text cells that are written as whole numbers are, and the numbers."""
    whole = as_integers(cells)
    if whole.dtype.kind != "U":
        return np.arange(len(cells)), whole
    known = [place for place, cell in enumerate(cells.tolist()) if _WHOLE.fullmatch(cell)]
    return np.array(known, np.int64), cells[known].astype(np.int64)


def _hash(ids: NDArray[Any], scratch: Scratch | None) -> NDArray[np.uint64]:
    """Return the hashes of ids, on disk if the ids may be there."""
    if scratch is None:
        return hash_ids(ids)
    path = scratch.path("hashes.npy")
    with ArrayWriter(path, np.uint64) as writer:
        for start, stop in split_blocks(ids):
            writer.append(hash_ids(ids[start:stop]))
            release(ids)
    return open_array(path)


def _rank(ids: NDArray[Any], scratch: Scratch | None) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the ids in ascending order, equal ones as they came, and the row of each."""
    kind = np.dtype(np.int64) if ids.dtype.kind in "ib" else ids.dtype
    n_at_once = len(ids)
    if scratch is not None:
        n_at_once = max(2, scratch.room() // _SHARE // (3 * (kind.itemsize + 8)))
    if len(ids) <= n_at_once:
        order = np.argsort(ids, kind="stable")
        return ids[order].astype(kind, copy=False), order
    assert scratch is not None
    runs = []
    for start in range(0, len(ids), n_at_once):
        block = np.array(ids[start : start + n_at_once], kind)
        release(ids)
        order = np.argsort(block, kind="stable")
        with _Ranking(scratch, kind) as run:
            run.add(block[order], order + start)
        runs.append(run.open())
    return _merge(runs, n_at_once, _Ranking(scratch, kind))


def _merge(
    runs: list[tuple[NDArray[Any], NDArray[np.int64]]], n_at_once: int, ranking: _Ranking
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Merge sorted runs: between two of evenly spaced ids, all that there is in any run fits at once."""
    step = max(1, n_at_once // (2 * len(runs)))
    pivots = np.unique(np.sort(np.concatenate([ids[::step] for ids, _ in runs]))[:: len(runs)])
    cuts = [[0, *np.searchsorted(ids, pivots).tolist(), len(ids)] for ids, _ in runs]
    with ranking:
        for spans in zip(*map(pairwise, cuts), strict=True):
            parts = [(ids[a:b], rows[a:b]) for (ids, rows), (a, b) in zip(runs, spans, strict=True)]
            block, rows = (np.concatenate(each) for each in zip(*parts, strict=True))
            order = np.argsort(block, kind="stable")
            ranking.add(block[order], rows[order])
            release(*(each for part in parts for each in part))
    return ranking.open()


class _Ranking:
    """Sorted ids and their rows, written to disk."""

    def __init__(self, scratch: Scratch, kind: np.dtype[Any]) -> None:
        self._ids = ArrayWriter(scratch.path("ids.npy"), kind)
        self._rows = ArrayWriter(scratch.path("rows.npy"), np.int64)

    def add(self, ids: NDArray[Any], rows: NDArray[np.int64]) -> None:
        self._ids.append(ids)
        self._rows.append(rows)

    def open(self) -> tuple[NDArray[Any], NDArray[np.int64]]:
        return open_array(self._ids.path), open_array(self._rows.path)

    def __enter__(self) -> _Ranking:
        return self

    def __exit__(self, *_: object) -> None:
        self._ids.close()
        self._rows.close()
