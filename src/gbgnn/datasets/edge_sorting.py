"""Edges of any number made into the rows of a matrix, on disk: what fits into memory is a range of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gbgnn._arrays import release, split_blocks
from gbgnn._matrices import csr_of_parts
from gbgnn.datasets.arrays import ArrayWriter, open_array
from gbgnn.datasets.scratch import Scratch
from gbgnn.tables.links import describe_mending, join_directions

_MOST_BUCKETS = 256
_BYTES_EACH = 96
"""Of memory, about, that an edge takes while its range of rows is sorted, beside its own record."""

Rows = tuple[int, int]
Tell = Callable[[int, int], None]
"""Is told how many of how many rows are done."""


class SortedEdges(NamedTuple):
    """What came of the edges: what was mended, as sentences, and whether some edge lacks its reverse."""

    repairs: list[str]
    is_directed: bool


class EdgeSorter:
    """Takes edges a few at a time, and writes the arrays of their matrix, as ``build_adjacency`` makes it.

    Edges are put into files by ranges of their rows. A range that fits into memory is sorted there, by SciPy,
    with its edges in the order in which they came. The reverse of every edge is sorted the same way.

    Parameters
    ----------
    n_nodes, n_expected
        Numbers of nodes, and of edges that will come; of these about.
    weights
        The type of weights; None for edges that all weigh one.
    directed
        Whether an edge goes one way only.
    scratch
        Where files may be written, and how much memory there is.
    """

    def __init__(
        self,
        n_nodes: int,
        n_expected: int,
        weights: np.dtype[Any] | None,
        directed: bool,
        scratch: Scratch,
    ) -> None:
        self._n_nodes, self._directed, self._scratch = n_nodes, directed, scratch
        index = np.int32 if n_nodes <= np.iinfo(np.int32).max else np.int64
        self._record = np.dtype(
            [("row", index), ("column", index), *([] if weights is None else [("weight", weights)])]
        )
        self._most = max(1, scratch.room() // (_BYTES_EACH + self._record.itemsize))
        n_buckets = min(_MOST_BUCKETS, 1 + 2 * n_expected // self._most)
        self._buckets = Buckets(scratch, (0, n_nodes), n_buckets, self._record)
        self._turned = Buckets(scratch, (0, n_nodes), n_buckets, self._record)
        self._n_loops = self._n_given = 0

    @property
    def _is_weighted(self) -> bool:
        return "weight" in (self._record.names or ())

    def add(self, sources: NDArray[Any], targets: NDArray[Any], weights: NDArray[Any] | None = None) -> None:
        """Take edges as rows of nodes; self loops are dropped. Without ``weights`` they weigh one."""
        proper = sources != targets
        n_proper = int(np.count_nonzero(proper))
        self._n_loops += len(sources) - n_proper
        self._n_given += n_proper
        self._buckets.add(self._records(targets[proper], sources[proper], weights, proper))

    def _records(self, rows: Any, columns: Any, weights: Any, chosen: Any = slice(None)) -> NDArray[Any]:
        records = np.empty(len(rows), self._record)
        records["row"], records["column"] = rows, columns
        if self._is_weighted:
            records["weight"] = 1 if weights is None else weights[chosen]
        return records

    def finish(self, folder: Path, tell: Tell = lambda *_: None) -> SortedEdges:
        """Write ``indptr``, ``indices`` and, where there are any, ``weights`` into a folder."""
        given = self._sort(lambda done: tell(done, 2 * self._n_nodes))
        is_symmetric = all(_are_equal(rows, turned) for _, rows, turned in self._pairs(given))
        joins = not self._directed and not is_symmetric
        writer = MatrixWriter(self._scratch, self._n_nodes, self._record)
        n_zeros = 0
        for (_, stop), rows, turned in self._pairs(given):
            result = join_directions(rows, turned, is_weighted=self._is_weighted) if joins else rows
            n_stored = result.nnz
            result.eliminate_zeros()
            n_zeros += n_stored - result.nnz
            writer.add(result)
            tell(self._n_nodes + stop, 2 * self._n_nodes)
        stored = writer.finish(folder)
        n_kept = stored.n_entries // 2 if joins else given.n_entries
        repairs = describe_mending(self._n_loops, self._n_given - n_kept, is_weighted=self._is_weighted)
        repairs += [f"dropped {n_zeros} explicit zero weights"] if n_zeros else []
        return SortedEdges(repairs, self._directed and not is_symmetric)

    def _sort(self, tell: Callable[[int], None]) -> StoredMatrix:
        """Return the matrix of the edges as they were given; their reverses go into buckets of their own."""
        writer = MatrixWriter(self._scratch, self._n_nodes, self._record)
        for (start, stop), records in self._buckets.ranges(self._most):
            matrix = self._matrix(records, start, stop)
            writer.add(matrix)
            rows = np.repeat(np.arange(start, stop), np.diff(matrix.indptr))
            self._turned.add(self._records(matrix.indices, rows, matrix.data))
            tell(stop)
        self._buckets.remove()
        return writer.finish(self._scratch.path("given"))

    def _pairs(self, given: StoredMatrix) -> Iterator[tuple[Rows, sp.csr_array, sp.csr_array]]:
        """Yield ranges of rows, with what is in them and in those of the transpose."""
        for (start, stop), records in self._turned.ranges(self._most, given.count):
            yield (start, stop), given.rows(start, stop), self._matrix(records, start, stop)

    def _matrix(self, records: NDArray[Any], start: int, stop: int) -> sp.csr_array:
        """Return a range of rows; entries that are there more than once are summed or, unweighted, one."""
        values = records["weight"] if self._is_weighted else np.ones(len(records), np.float32)
        places = (records["row"] - start, records["column"])
        matrix = sp.coo_array((values, places), shape=(stop - start, self._n_nodes)).tocsr()
        if not self._is_weighted:
            matrix.data[:] = 1
        return matrix


def _are_equal(one: sp.csr_array, other: sp.csr_array) -> bool:
    return bool((one != other).nnz == 0)


class Buckets:
    """Records in files, one for each of some ranges of rows."""

    def __init__(self, scratch: Scratch, rows: Rows, n_buckets: int, record: np.dtype[Any]) -> None:
        self._scratch, self._rows, self._record = scratch, rows, record
        self._width = -(-(rows[1] - rows[0]) // n_buckets)
        n_buckets = -(-(rows[1] - rows[0]) // self._width)
        self._files = [scratch.path("edges") for _ in range(n_buckets)]
        self._counts = np.zeros(n_buckets, np.int64)

    def add(self, records: NDArray[Any]) -> None:
        """Put records where they belong, those of a range in the order in which they come."""
        which = ((records["row"] - self._rows[0]) // self._width).astype(np.int16)
        counts = np.bincount(which, minlength=len(self._files))
        ordered = records[np.argsort(which, kind="stable")]
        ends = np.cumsum(counts)
        for bucket in np.flatnonzero(counts):
            with self._files[bucket].open("ab") as file:
                ordered[ends[bucket] - counts[bucket] : ends[bucket]].tofile(file)
        self._counts += counts

    def ranges(
        self, most: int, others: Callable[[int, int], int] = lambda *_: 0
    ) -> Iterator[tuple[Rows, NDArray[Any]]]:
        """Yield ranges of rows in order, and their records: at most so many, with ``others`` in these rows.

        A single row may have more.
        """
        for bucket, file in enumerate(self._files):
            start = self._rows[0] + bucket * self._width
            stop, n = min(start + self._width, self._rows[1]), int(self._counts[bucket])
            n_all = n + others(start, stop)
            if n_all <= most or stop - start == 1:
                yield (start, stop), self._read(file, 0, n)
                continue
            n_parts = min(_MOST_BUCKETS, stop - start, 1 + 2 * n_all // most)
            finer = Buckets(self._scratch, (start, stop), n_parts, self._record)
            for first in range(0, n, most):
                finer.add(self._read(file, first, min(most, n - first)))
            yield from finer.ranges(most, others)
            finer.remove()

    def _read(self, file: Path, first: int, n: int) -> NDArray[Any]:
        if not n:
            return np.empty(0, self._record)
        return np.fromfile(file, self._record, n, offset=first * self._record.itemsize)

    def remove(self) -> None:
        """Remove the files."""
        for file in self._files:
            file.unlink(missing_ok=True)


@dataclass(frozen=True, eq=False)
class StoredMatrix:
    """The arrays of a CSR matrix, mapped; ``values`` is None where all are one."""

    indptr: NDArray[Any]
    indices: NDArray[Any]
    values: NDArray[Any] | None
    n_columns: int

    @property
    def n_entries(self) -> int:
        """How many entries are stored."""
        return len(self.indices)

    def count(self, start: int, stop: int) -> int:
        """Return how many entries are in some rows."""
        return int(self.indptr[stop] - self.indptr[start])

    def rows(self, start: int, stop: int) -> sp.csr_array:
        """Return some rows, read into memory."""
        pointers = np.array(self.indptr[start : stop + 1])
        entries = slice(int(pointers[0]), int(pointers[-1]))
        indices = np.array(self.indices[entries])
        values = np.ones(len(indices), np.float32) if self.values is None else np.array(self.values[entries])
        release(self.indptr, self.indices, self.values)
        parts = (values, indices, pointers - pointers[0])
        return csr_of_parts(parts, (stop - start, self.n_columns), "the edges", look_at_indices=False)


class MatrixWriter:
    """Writes the arrays of a CSR matrix, some rows at a time."""

    def __init__(self, scratch: Scratch, n_nodes: int, record: np.dtype[Any]) -> None:
        self._scratch, self._n_nodes, self._n_entries = scratch, n_nodes, 0
        fields: Mapping[str, Any] = record.fields or {}
        self._pointers = ArrayWriter(scratch.path("indptr.npy"), np.int64)
        self._pointers.append(np.zeros(1, np.int64))
        self._indices = ArrayWriter(scratch.path("indices.npy"), fields["column"][0])
        self._weights = (
            ArrayWriter(scratch.path("weights.npy"), fields["weight"][0]) if "weight" in fields else None
        )

    def add(self, rows: sp.csr_array) -> None:
        """Write the next rows."""
        self._pointers.append(rows.indptr[1:].astype(np.int64) + self._n_entries)
        self._indices.append(rows.indices)
        if self._weights is not None:
            self._weights.append(rows.data)
        self._n_entries += rows.nnz

    def finish(self, folder: Path) -> StoredMatrix:
        """Put the files into a folder: pointers as wide as columns are, unless there are too many entries."""
        folder.mkdir(exist_ok=True)
        for writer in (self._pointers, self._indices, self._weights):
            if writer is not None:
                writer.close()
        kind = self._indices.dtype if self._n_entries <= np.iinfo(self._indices.dtype).max else np.int64
        wide = open_array(self._pointers.path)
        with ArrayWriter(folder / "indptr.npy", kind) as narrow:
            for start, stop in split_blocks(wide):
                narrow.append(wide[start:stop])
                release(wide)
        values = None
        self._indices.path.rename(folder / "indices.npy")
        if self._weights is not None:
            self._weights.path.rename(folder / "weights.npy")
            values = open_array(folder / "weights.npy")
        pointers, indices = (open_array(folder / f"{name}.npy") for name in ("indptr", "indices"))
        return StoredMatrix(pointers, indices, values, self._n_nodes)
