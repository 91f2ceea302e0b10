"""DiskRows: representations on disk, mixed a few columns at a time in bounded memory."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
import torch

from gbgnn._files import atomic_path
from gbgnn._memory import give_back, resident_bytes
from gbgnn.errors import ParameterError
from gbgnn.propagation.columns_on_disk import (
    BLOCK_BYTES,
    ColumnStore,
    ColumnWriter,
    GivenColumns,
    StoredColumns,
    as_bits,
)
from gbgnn.propagation.graph_rows import mix
from gbgnn.propagation.mixable import Mixable
from gbgnn.propagation.polynomial import powers
from gbgnn.propagation.propagator import Propagator
from gbgnn.propagation.rows import DenseRows, computed_in

_SHARE = 0.7
"""Of the memory that is free under the limit, what columns may take; the rest is for what is made then."""

_FOR_PRODUCTS, _FOR_POWERS = 3, 5
"""How often the columns are there at once: read, read ahead, multiplied; sums and powers take two more."""


@dataclass(frozen=True, eq=False)
class Workspace:
    """Where representations of one fit are written, and how much memory the process may take."""

    folder: Path
    memory_limit: int
    P: Propagator

    def __post_init__(self) -> None:
        """Multiply once, so that what P takes is counted: its edges may be mapped from files."""
        self.P(torch.zeros((self.P.n_nodes, 1), dtype=self.P.dtype))

    def width(self, n_columns: int, n_buffers: int) -> int:
        """Return how many columns can be mixed at once, or say that not even one can."""
        column = self.P.n_nodes * self.P.dtype.itemsize * n_buffers
        give_back()
        resident = resident_bytes()
        free = self.memory_limit - (self.memory_limit // 2 if resident is None else resident)
        width = int(_SHARE * free) // column
        if width < 1:
            least = self.memory_limit - free + column / _SHARE
            raise ParameterError(
                f"memory_limit={self.memory_limit:,} bytes is too little: {self.memory_limit - free:,} are "
                f"taken already, and a column of {self.P.n_nodes:,} nodes takes {column:,} to be mixed. Give "
                f"at least {int(least):,}."
            )
        return min(width, n_columns)

    def check_room(self) -> None:
        """Raise where the limit leaves no room for a single column."""
        self.width(1, _FOR_PRODUCTS)

    def rows_file(self, name: str, ids: torch.Tensor) -> Path:
        """Return where rows of some nodes in a representation are kept."""
        return self.folder / f"{name}.{_digest(ids.numpy().tobytes())}.rows"


@final
@dataclass(frozen=True, eq=False)
class DiskRows(Mixable):
    """Rows on disk. What a hop makes of them is written when rows of it are first asked for.

    A representation is called by what it was made of, so that a fit that is begun again finds what is there:
    the newest one, and of all of them the rows that were asked for. Of the older ones all other rows are
    gone, and made again from the features if need be. How many columns are mixed at once does not show in
    the numbers; but for sums of several terms stored in 16 bits, which it may round differently.
    """

    space: Workspace
    name: str
    first: GivenColumns
    parent: DiskRows | None = None  # None: these are the features
    exponents: tuple[int, ...] = ()
    weights: tuple[float, ...] = ()
    injection: float = 0.0

    @classmethod
    def of(cls, space: Workspace, features: GivenColumns, graph: str) -> DiskRows:
        """Return the features of a graph, which has a checksum or anything else that tells it from others."""
        name = _digest(json.dumps([graph, features.norm, str(features.dtype)]).encode())
        return cls(space, name, features)

    @property
    def _numbers(self) -> torch.Tensor:
        return torch.empty(0, dtype=computed_in(self.first.dtype))

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return self.first.shape

    @property
    def nbytes(self) -> int:
        """Bytes of memory: none to speak of."""
        return 0

    def mixed(
        self, exponents: Sequence[int], weights: torch.Tensor, injection: torch.Tensor | float = 0.0
    ) -> DiskRows:
        """Return the sum of products with P, and of a share of the features; nothing is computed yet."""
        own = tuple(exponents), tuple(map(float, weights)), float(injection)
        name = _digest(json.dumps([self.name, *own]).encode())
        return DiskRows(self.space, name, self.first, self, *own)

    def power_rows(self, exponents: Sequence[int], ids: torch.Tensor) -> torch.Tensor:
        """Return the rows of P^p X for some nodes; all nodes are multiplied, a few columns at a time."""
        n_columns = self.shape[1]
        result = torch.empty((len(exponents), len(ids), n_columns), dtype=self.dtype)
        for start, stop, X in self._read(self._store(), _FOR_POWERS):
            for place, Z in enumerate(powers(self.space.P, X, exponents)):
                result[place, :, start:stop] = Z[ids]
        return result

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the rows of some nodes, which are kept beside."""
        path = self.space.rows_file(self.name, ids)
        if path.exists():
            bits = np.load(path, allow_pickle=False)
            return torch.from_numpy(bits).view(self.first.dtype).to(self.dtype)
        found = self._write(ids) if self._is_missing else self._store().pick(ids)
        self.space.folder.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as part, part.open("wb") as file:
            np.save(file, as_bits(found), allow_pickle=False)
        return found.to(self.dtype)

    def dense(self) -> torch.Tensor:
        """Return all rows, for graphs that fit."""
        return torch.cat(list(self.blocks()))

    def blocks(self, n_bytes: int = BLOCK_BYTES, *, sparse: bool = False) -> Iterator[torch.Tensor]:
        """Yield all rows in order, read block by block."""
        for block in self._store().blocks(n_bytes):
            yield block.to(self.dtype)

    @property
    def _folder(self) -> Path:
        return self.space.folder / self.name

    @property
    def _is_missing(self) -> bool:
        return self.parent is not None and not self._folder.exists()

    def _store(self) -> ColumnStore:
        if self.parent is None:
            return self.first
        if self._is_missing:
            self._write(torch.empty(0, dtype=torch.int64))
        return StoredColumns.open(self._folder)

    def _read(self, store: ColumnStore, n_buffers: int) -> Iterator[tuple[int, int, torch.Tensor]]:
        """Yield columns that are mixed at once: first, end, and themselves; the next are read meanwhile."""
        n_columns = self.shape[1]
        width = self.space.width(n_columns, n_buffers)
        spans = [(start, min(start + width, n_columns)) for start in range(0, n_columns, width)]
        with ThreadPoolExecutor(1, "gbgnn-reader", torch.set_num_threads, (1,)) as reader:
            ahead = reader.submit(store.columns, *spans[0])
            for here, (start, stop) in enumerate(spans):
                X = ahead.result()
                if here + 1 < len(spans):
                    ahead = reader.submit(store.columns, *spans[here + 1])
                else:
                    del ahead  # which holds the columns
                yield start, stop, X
                del X

    def _write(self, ids: torch.Tensor) -> torch.Tensor:
        """Mix the rows before, and write what comes of it; return the rows of some nodes."""
        assert self.parent is not None
        before, dtype = self.parent._store(), self.first.dtype
        picked = torch.empty((len(ids), self.shape[1]), dtype=dtype)
        writer = ColumnWriter(self._folder, self.shape, dtype)
        is_simple = len(self.exponents) == 1 and self.exponents[0] <= 1
        for start, stop, X in self._read(before, _FOR_PRODUCTS if is_simple else _FOR_POWERS):
            result = mix(self.space.P, DenseRows(X), self.exponents, self.weights)
            del X
            if self.injection:
                self._inject(result, start, stop)
            picked[:, start:stop] = result[ids]
            writer.add(result)
            del result
        writer.finish()
        if self.parent.parent is not None:
            shutil.rmtree(self.parent._folder, ignore_errors=True)
        return picked

    def _inject(self, result: torch.Tensor, start: int, stop: int) -> None:
        """Add a share of the features to some columns, block by block."""
        step = max(1, BLOCK_BYTES // ((stop - start) * result.element_size()))
        for first in range(0, len(result), step):
            rows = slice(first, min(first + step, len(result)))
            block = torch.empty_like(result[rows])
            self.first.fill(block, rows, slice(start, stop))
            DenseRows(block).add_to_(result[rows], self.injection)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:24]
