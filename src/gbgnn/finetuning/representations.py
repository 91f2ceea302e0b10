"""X^(t) of the labelled nodes, as fixed terms that only their coefficients move in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from gbgnn.aggregation import Hop, PolynomialHop
from gbgnn.finetuning.chebyshev import chebyshev_terms
from gbgnn.finetuning.memory import MemoryPlan
from gbgnn.finetuning.spectrum import Interval
from gbgnn.problem import NodeInputs

Positions = slice | torch.Tensor


class Terms(ABC):
    """A few representations of all nodes, from which those of the rounds are made."""

    n_terms: int
    n_arrays: int
    """How many arrays of all nodes are alive while the terms pass by."""
    is_divisible: bool
    """Whether columns may be treated one after the other."""
    is_fixed: bool
    """Whether the terms stay the same, so that they may be held."""

    @abstractmethod
    def stream(self, inputs: NodeInputs) -> Iterator[torch.Tensor]:
        """Yield the terms of all nodes, each valid until the next is asked for."""


@dataclass(frozen=True, eq=False)
class HopTerms(Terms):
    """The representations X^(1), X^(2), ... themselves, where no number in a hop is moved."""

    hops: Sequence[Hop]
    n_arrays: int = 5  # the input, the last representation, the next, and two buffers for products
    is_fixed: bool = True

    @property
    def n_terms(self) -> int:  # type: ignore[override]
        """One per round."""
        return len(self.hops)

    @property
    def is_divisible(self) -> bool:  # type: ignore[override]
        """Whether no hop mixes columns."""
        return all(isinstance(hop, PolynomialHop) for hop in self.hops)

    def stream(self, inputs: NodeInputs) -> Iterator[torch.Tensor]:
        """Apply hop after hop."""
        X = inputs.features
        for hop in self.hops:
            X = hop(X, inputs)
            yield X


@dataclass(frozen=True, eq=False)
class ChebyshevTerms(Terms):
    """T_k(P) X for k below ``n_terms``: every X^(t) is a sum of them, whatever numbers the hops have."""

    n_terms: int
    interval: Interval
    n_arrays: int = 4  # the input and the last three
    is_divisible: bool = True
    is_fixed: bool = True

    def stream(self, inputs: NodeInputs) -> Iterator[torch.Tensor]:
        """Run the three-term recurrence."""
        return chebyshev_terms(inputs.P, inputs.features, self.n_terms, self.interval)


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

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from gbgnn.propagation import Propagator
    >>> inputs = NodeInputs(torch.tensor([[1.0], [2.0]]), Propagator(sp.csr_array([[0.0, 1.0], [1.0, 0.0]])))
    >>> swap = PolynomialHop((1,), (1.0,))
    >>> plan = MemoryPlan(is_held=True, n_columns=1, n_rows=1)
    >>> rows = RowTerms(HopTerms([swap, swap]), inputs, torch.tensor([1]), plan)
    >>> [terms.tolist() for _, terms in rows.parts(slice(0, 1))]
    [[[[1.0]], [[2.0]]]]
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
        X = self.inputs.features
        n_columns, width = X.shape[1], self.plan.n_columns
        result = X.new_empty(self.terms.n_terms, len(rows), n_columns)
        for start in range(0, n_columns, width):
            columns = slice(start, start + width)
            block = NodeInputs(X[:, columns].contiguous(), self.inputs.P)
            for k, term in enumerate(self.terms.stream(block)):
                result[k, :, columns] = term[rows]
        return result


def _split(positions: Positions, size: int) -> Iterator[Positions]:
    if isinstance(positions, torch.Tensor):
        yield from positions.split(size)
        return
    for start in range(positions.start, positions.stop, size):
        yield slice(start, min(start + size, positions.stop))
