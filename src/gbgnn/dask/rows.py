"""DaskRows: the rows of all nodes in chunks on the workers of a cluster."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np
import torch
from distributed import Future

from gbgnn.dask.blocks import Block, add_up, as_numbers, pick
from gbgnn.dask.graph import DaskGraph
from gbgnn.dask.layout import Chunks
from gbgnn.propagation import Mixable
from gbgnn.propagation.rows import BLOCK_BYTES, computed_in


@final
@dataclass(frozen=True, eq=False)
class DaskRows(Mixable):
    """Rows in chunks, each mixed by its worker with those rows of other chunks that it borrows for that.

    Products are begun when they are asked for, and not waited for. While rows are in use their chunks stay
    on the workers, with the powers of P times them that were asked for; a chunk that is lost with its worker
    is computed again. Rows that are asked for come here, to the device of the fit.
    """

    graph: DaskGraph
    name: str  # what the numbers are made of
    chunks: Chunks
    first: Chunks  # those of the features
    factors: Chunks  # the rows of P
    stored: torch.dtype
    n_columns: int
    device_here: torch.device
    known_powers: dict[int, Chunks] = field(default_factory=dict)

    @property
    def _numbers(self) -> torch.Tensor:
        return torch.empty(0, dtype=computed_in(self.stored), device=self.device_here)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return self.graph.n_nodes, self.n_columns

    @property
    def nbytes(self) -> int:
        """Bytes of memory here: none to speak of."""
        return 0

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the rows of some nodes, which travel."""
        return self._gather(self.chunks, ids)

    def dense(self) -> torch.Tensor:
        """Return all rows, for graphs that fit."""
        return torch.cat(list(self.blocks()))

    def blocks(self, n_bytes: int = BLOCK_BYTES, *, sparse: bool = False) -> Iterator[torch.Tensor]:
        """Yield all rows in order, a chunk of them here at a time."""
        n_rows = max(1, n_bytes // (self.n_columns * self.stored.itemsize))
        for chunk in self.chunks:
            yield from self._arrived(chunk.result()).split(n_rows)

    def mixed(
        self, exponents: Sequence[int], weights: torch.Tensor, injection: torch.Tensor | float = 0.0
    ) -> DaskRows:
        """Return the sum of products with P, and of a share of the features."""
        shares, share = tuple(map(float, weights)), float(injection)
        name = digest(self.name, list(exponents), shares, share)
        terms = [self._power(exponent) for exponent in exponents]
        if shares == (1.0,) and not share:
            return replace(self, name=name, chunks=terms[0], known_powers={})
        first = self.first if share else [None] * len(self.first)
        settings = (self.stored, shares, share, self.graph.is_sparse)
        chunks = [
            self._submit(i, f"add_up-{name}", add_up, *settings, first[i], *(term[i] for term in terms))
            for i in range(len(self.chunks))
        ]
        return replace(self, name=name, chunks=chunks, known_powers={})

    def power_rows(self, exponents: Sequence[int], ids: torch.Tensor) -> torch.Tensor:
        """Return the rows of P^p X for some nodes; the products are kept, since a hop needs them next."""
        powers = [self._power(exponent) for exponent in exponents]
        return torch.stack(
            [self._gather(chunks, ids, exponent=p) for p, chunks in zip(exponents, powers, strict=True)]
        )

    def _power(self, exponent: int) -> Chunks:
        """Return P^p X: the largest power that is known, multiplied on; only the last product is kept."""
        known = {0: self.chunks} | self.known_powers
        reached = max(p for p in known if p <= exponent)
        chunks = known[reached]
        for p in range(reached + 1, exponent + 1):
            name = f"{self.name}-{p}"
            borrowed = self.graph.borrow(chunks, name)
            chunks = [
                self._submit(i, f"multiply-{name}", Block.multiply, self.factors[i], chunks[i], *borrowed[i])
                for i in range(len(chunks))
            ]
        self.known_powers[exponent] = chunks
        return chunks

    def _gather(self, chunks: Chunks, ids: torch.Tensor, exponent: int = 0) -> torch.Tensor:
        """Return rows of some nodes, from every chunk that has any."""
        nodes = ids.cpu().numpy()
        name = digest(self.name, exponent, hashlib.sha256(nodes.tobytes()).hexdigest())
        found = list(self.graph.layout.locate(nodes))
        parts = self.graph.layout.client.gather(
            [self._submit(i, f"pick-{name}", pick, chunks[i], rows) for i, _, rows in found]
        )
        result = torch.empty((len(nodes), self.n_columns), dtype=self.dtype, device=self.device_here)
        for (_, places, _), part in zip(found, parts, strict=True):
            result[torch.from_numpy(places).to(self.device_here)] = self._arrived(part)
        return result

    def _arrived(self, array: np.ndarray) -> torch.Tensor:
        return as_numbers(array, self.stored).to(self.device_here, self.dtype)

    def _submit(self, chunk: int, key: str, *task: Any) -> Future[Any]:
        return self.graph.layout.submit(f"{key}-{chunk}", *task)


def digest(*parts: object) -> str:
    """Return a name that says what something is made of."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]
