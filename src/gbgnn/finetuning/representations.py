"""X^(t) of the labelled nodes, as fixed terms that only their coefficients move in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from gbgnn.aggregation import Hop, PolynomialHop
from gbgnn.finetuning.memory import MemoryPlan
from gbgnn.problem import NodeInputs
from gbgnn.propagation import DenseRows, Representation
from gbgnn.propagation.interval import Interval
from gbgnn.propagation.polynomial import chebyshev_terms

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
    """The terms of some nodes: held, or computed again for every few nodes, as the plan says.

    Parameters
    ----------
    terms
        Which terms.
    inputs
        Features of all nodes, and P.
    rows
        The nodes.
    plan
        How many columns and nodes to treat at once.
    """

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
