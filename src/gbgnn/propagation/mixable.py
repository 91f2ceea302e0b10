"""Mixable: rows that mix themselves along the graph; KeptRows: those of a few nodes of larger ones."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import torch

from gbgnn.propagation.rows import Representation


class Mixable(Representation):
    """Rows that a hop asks to mix themselves: where they are, and by which P they are mixed, they know.

    A fit whose nodes do not all fit goes on with such rows alone: on disk, in other processes, or in memory
    but of few nodes.
    """

    @abstractmethod
    def mixed(
        self, exponents: Sequence[int], weights: torch.Tensor, injection: torch.Tensor | float = 0.0
    ) -> Mixable:
        r"""Return :math:`\sum_j w_j P^{p_j} X + \iota X^{(1)}`; the rows themselves stay as they are."""

    @abstractmethod
    def power_rows(self, exponents: Sequence[int], ids: torch.Tensor) -> torch.Tensor:
        """Return the rows of P^p X for each p, increasing, shape (..., n_exponents, n, C)."""


@final
@dataclass(frozen=True, eq=False)
class KeptRows(Mixable):
    """The rows of a few nodes of larger ones, numbered anew in the order of their ids.

    Examples
    --------
    >>> from gbgnn.propagation import DenseRows, GraphRows, Propagator
    >>> P = Propagator([[0.0, 1.0], [1.0, 0.0]])
    >>> X = KeptRows(GraphRows.of(DenseRows(torch.tensor([[1.0], [2.0]])), P), torch.tensor([1]))
    >>> X.dense().tolist(), X.mixed((1,), torch.tensor([1.0])).dense().tolist()
    ([[2.0]], [[1.0]])
    """

    whole: Mixable
    ids: torch.Tensor

    @cached_property
    def _numbers(self) -> torch.Tensor:
        return self.whole.rows(self.ids)

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the rows of kept nodes, by their places."""
        return self._numbers[ids]

    def dense(self) -> torch.Tensor:
        """Return all kept rows."""
        return self._numbers

    def mixed(
        self, exponents: Sequence[int], weights: torch.Tensor, injection: torch.Tensor | float = 0.0
    ) -> KeptRows:
        """Return the same nodes' rows of what the larger ones become."""
        return KeptRows(self.whole.mixed(exponents, weights, injection), self.ids)

    def power_rows(self, exponents: Sequence[int], ids: torch.Tensor) -> torch.Tensor:
        """Return the rows of P^p X for kept nodes."""
        return self.whole.power_rows(exponents, self.ids[ids])
