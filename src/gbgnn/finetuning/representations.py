"""X^(t) of the labelled nodes, as fixed terms that only their coefficients move in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from gbgnn.aggregation import Hop, PolynomialHop
from gbgnn.errors import ParameterError
from gbgnn.problem import NodeInputs
from gbgnn.propagation import DenseRows, Interval, Representation, chebyshev_terms

Positions = slice | torch.Tensor

# Arrays that a product with P may hold on the way: what it gathers from, scaled, and the sums of some nodes.
PRODUCT_ARRAYS = 2

# Rows of sparse features are made dense in blocks no smaller than this, so that there are not too many.
_LEAST_BLOCK = 2**20


@dataclass(frozen=True, eq=False)
class Terms:
    """A few representations of all nodes, from which those of the rounds are made."""

    n_terms: int  # how many there are
    # Yields the terms of all nodes, each valid until the next is asked for.
    stream: Callable[[NodeInputs], Iterator[torch.Tensor]]
    n_arrays: int  # how many arrays of all nodes are alive while the terms pass by
    is_divisible: bool = True  # whether columns may be treated one after the other
    is_fixed: bool = True  # whether the terms stay the same, so that they may be held


def hop_terms(
    hops: Callable[[], Sequence[Hop]], n_arrays: int = 5 + PRODUCT_ARRAYS, is_fixed: bool = True
) -> Terms:
    """Return the representations X^(1), X^(2), ... themselves, under the hops that ``hops`` returns.

    By default the input, the last representation, the next, and two powers of P are alive.
    """

    def stream(inputs: NodeInputs) -> Iterator[torch.Tensor]:
        X = inputs.features
        for hop in hops():
            X = hop(X, inputs)
            yield X.dense()

    is_divisible = all(isinstance(hop, PolynomialHop) for hop in hops())  # others mix columns
    return Terms(len(hops()), stream, n_arrays, is_divisible, is_fixed)


def polynomial_terms(n_terms: int, interval: Interval) -> Terms:
    """Return T_k(P) X for k below ``n_terms``: every X^(t) is a sum of them, whatever the hops' numbers."""

    def stream(inputs: NodeInputs) -> Iterator[torch.Tensor]:
        return chebyshev_terms(inputs.P, inputs.features.dense(), n_terms, interval)

    return Terms(n_terms, stream, n_arrays=4 + PRODUCT_ARRAYS)  # the input and the last three


class RowTerms:
    """The terms of the nodes ``rows``: held, or computed again for every few nodes, as the plan says."""

    def __init__(self, terms: Terms, inputs: NodeInputs, rows: torch.Tensor, plan: MemoryPlan) -> None:
        self.terms, self.inputs, self.rows, self.plan = terms, inputs, rows, plan
        self._held = self._compute(rows) if plan.is_held else None

    def parts(self, positions: Positions) -> Iterator[tuple[Positions, torch.Tensor]]:
        """Yield positions in ``rows``, few enough to work with at once, and their (n_terms, n, C) terms."""
        for part in _split(positions, self.plan.n_rows):
            terms = self._compute(self.rows[part]) if self._held is None else self._held[:, part]
            yield part, terms

    def _compute(self, rows: torch.Tensor) -> torch.Tensor:
        features, P, width = self.inputs.features, self.inputs.P, self.plan.n_columns
        shape = self.terms.n_terms, len(rows), features.shape[1]
        result = torch.empty(shape, dtype=features.dtype, device=features.device)
        for start in range(0, features.shape[1], width):
            columns = slice(start, start + width)
            block = NodeInputs.from_tensor(dense_columns(features, columns), P)
            for k, term in enumerate(self.terms.stream(block)):
                result[k, :, columns] = term[rows]
        return result


def dense_columns(features: Representation, columns: slice) -> torch.Tensor:
    """Return some columns of all nodes as a dense tensor; sparse features are made so a few nodes at once."""
    if isinstance(features, DenseRows):
        return features.tensor[:, columns].contiguous()
    n_nodes, n_columns = features.shape
    shape = n_nodes, len(range(*columns.indices(n_columns)))
    result, first = torch.empty(shape, dtype=features.dtype, device=features.device), 0
    for block in features.blocks(max(result.nbytes, _LEAST_BLOCK)):
        result[first : first + len(block)] = block[:, columns]
        first += len(block)
    return result


def _split(positions: Positions, size: int) -> Iterator[Positions]:
    if isinstance(positions, torch.Tensor):
        yield from positions.split(size)
        return
    for start in range(positions.start, positions.stop, size):
        yield slice(start, min(start + size, positions.stop))


_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def parse_bytes(owner: str, name: str, value: int | str) -> int:
    """Return a number of bytes given as an integer, or as text such as ``"500MB"`` or ``"2 GiB"``."""
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", value, re.IGNORECASE)
        if match and match[2].upper() in _UNITS:
            value = int(float(match[1]) * _UNITS[match[2].upper()])
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ParameterError(
            f'{owner}.{name} must be a number of bytes, or text such as "500MB" or "2GiB"; got {value!r}.'
        )
    return value


@dataclass(frozen=True)
class Needs:
    """What the computation takes, in bytes."""

    fixed: int  # parameters, their gradients and what the optimiser remembers
    column: int  # to multiply one column of all nodes by P
    n_columns: int  # columns there are
    terms: int  # the terms of one node
    work: int  # all else that is computed of one node before the next gradient
    copy: int  # to pick one node's terms out of those of all; 0 where nodes come in order
    n_rows: int  # nodes whose terms are wanted
    is_divisible: bool = True  # whether columns may be treated one after the other
    can_hold: bool = True  # whether terms may be held: they stay the same


@dataclass(frozen=True)
class MemoryPlan:
    """Whether the terms of all nodes are held, and how many columns and nodes are treated at once."""

    is_held: bool
    n_columns: int
    n_rows: int


def plan_memory(limit: int, needs: Needs) -> MemoryPlan:
    """Share ``limit`` bytes out.

    Terms that fit are computed once and held. Otherwise those of as many nodes as possible are computed,
    used and forgotten, time and again; the products with P then get a quarter of the room, because narrow
    blocks of columns take hardly longer than wide ones.
    """
    least_columns = 1 if needs.is_divisible else needs.n_columns
    room = limit - needs.fixed
    beside = room - needs.n_rows * needs.terms
    if needs.can_hold and beside >= max(least_columns * needs.column, needs.work + needs.copy):
        n_columns = min(needs.n_columns, max(least_columns, beside // needs.column))
        return MemoryPlan(True, n_columns, min(needs.n_rows, beside // (needs.work + needs.copy)))
    share = min(room // 4, room - needs.terms - needs.work)
    n_columns = min(needs.n_columns, max(least_columns, share // needs.column))
    n_rows = (room - n_columns * needs.column) // (needs.terms + needs.work)
    if n_rows < 1:
        least = needs.fixed + least_columns * needs.column + needs.terms + needs.work
        raise ParameterError(
            f"FineTuner.memory_limit must be at least {least:,} bytes for this graph and model; "
            f"got {limit:,}."
        )
    return MemoryPlan(False, n_columns, min(needs.n_rows, n_rows))
