r"""PolynomialRows: :math:`q(P) X` of a few nodes, for polynomials q of many members.

A population needs the rows of labelled and validation nodes alone. Terms such as P^k X are computed once for
all members, of all nodes, and only those rows are kept; a member's hop is then a product of polynomials,
numbers on the host, and its representation a sum of terms.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from threading import Lock
from typing import final

import numpy as np
import torch

from gbgnn.propagation.interval import Interval
from gbgnn.propagation.polynomial import chebyshev_terms, coefficients, n_needed, nodes, powers
from gbgnn.propagation.propagator import Propagator
from gbgnn.propagation.rows import BLOCK_BYTES, MemberRows, Representation


class TermRows:
    """Some nodes' rows of representations of all nodes, computed when they are first asked for and kept.

    Parameters
    ----------
    stream
        The representations of all nodes, one after the other, each valid until the next is asked for.
    ids
        The nodes whose rows are kept.
    """

    def __init__(self, stream: Iterator[torch.Tensor], ids: torch.Tensor) -> None:
        self._stream, self.ids = stream, ids
        self._rows, self._n_known = torch.empty(0), 0
        self._lock = Lock()  # learners are trained in threads, and ask when they need

    def first(self, n_terms: int) -> torch.Tensor:
        """Return the rows of the first terms, shape (n_terms, nodes, columns)."""
        with self._lock:
            while self._n_known < n_terms:
                rows = next(self._stream)[self.ids]
                if self._n_known == len(self._rows):
                    more = rows.new_empty(max(n_terms, 3 * self._n_known // 2) - self._n_known, *rows.shape)
                    self._rows = torch.cat([self._rows, more]) if self._n_known else more
                self._rows[self._n_known] = rows
                self._n_known += 1
            return self._rows[:n_terms]


class Basis(ABC):
    """Terms :math:`T_k(P) X`, and how a polynomial q stands for a sum of them: by numbers on the host.

    Parameters
    ----------
    terms
        The rows that are kept.
    """

    def __init__(self, terms: TermRows) -> None:
        self.terms = terms

    @property
    @abstractmethod
    def one(self) -> torch.Tensor:
        """The polynomial 1, shape (n,)."""

    @abstractmethod
    def multiply(
        self, q: torch.Tensor, exponents: Sequence[int], weights: torch.Tensor, injection: torch.Tensor
    ) -> torch.Tensor:
        r"""Return :math:`q(x) \sum_j w_j x^{p_j} + \iota`, shape (..., n); weights (..., n_exponents)."""

    @abstractmethod
    def expand(self, q: torch.Tensor, tolerance: float) -> torch.Tensor:
        """Return the coefficients of the terms that matter, shape (..., n_terms)."""


class PowerBasis(Basis):
    """Powers of P, for polynomials whose coefficients are not negative, so that nothing cancels."""

    @classmethod
    def build(cls, P: Propagator, X: Representation, ids: torch.Tensor) -> PowerBasis:
        """Return the basis for nodes ``ids``."""
        return cls(TermRows(powers(P, X.dense(), count()), ids))

    @property
    def one(self) -> torch.Tensor:
        """The coefficients of 1."""
        return torch.ones(1, dtype=torch.float64)

    def multiply(
        self, q: torch.Tensor, exponents: Sequence[int], weights: torch.Tensor, injection: torch.Tensor
    ) -> torch.Tensor:
        """Shift the coefficients, and add."""
        n_before = q.shape[-1]
        front = np.broadcast_shapes(q.shape[:-1], weights.shape[:-1])
        result = torch.zeros(*front, n_before + max(exponents), dtype=torch.float64)
        for exponent, weight in zip(exponents, weights.unbind(-1), strict=True):
            result[..., exponent : exponent + n_before] += weight[..., None] * q
        result[..., 0] += injection
        return result

    def expand(self, q: torch.Tensor, tolerance: float) -> torch.Tensor:
        """Return the coefficients themselves."""
        return q


class ChebyshevBasis(Basis):
    """Chebyshev polynomials of P, for any polynomials of a degree that is known beforehand.

    Parameters
    ----------
    terms
        The rows that are kept.
    interval
        Where the eigenvalues of P are.
    degree
        The highest degree of a polynomial.
    """

    def __init__(self, terms: TermRows, interval: Interval, degree: int) -> None:
        super().__init__(terms)
        self._nodes = nodes(degree, interval)

    @classmethod
    def build(
        cls, P: Propagator, X: Representation, ids: torch.Tensor, interval: Interval, degree: int
    ) -> ChebyshevBasis:
        """Return the basis for nodes ``ids``."""
        return cls(TermRows(chebyshev_terms(P, X.dense(), degree + 1, interval), ids), interval, degree)

    @property
    def one(self) -> torch.Tensor:
        """The values of 1 at the nodes."""
        return torch.ones_like(self._nodes)

    def multiply(
        self, q: torch.Tensor, exponents: Sequence[int], weights: torch.Tensor, injection: torch.Tensor
    ) -> torch.Tensor:
        """Multiply the values at the nodes."""
        at_powers = torch.stack([self._nodes**exponent for exponent in exponents])
        return q * (weights @ at_powers) + injection[..., None]

    def expand(self, q: torch.Tensor, tolerance: float) -> torch.Tensor:
        """Return the coefficients of the terms that matter to any of the polynomials."""
        found = coefficients(q)
        return found[..., : n_needed(found.reshape(-1, found.shape[-1]), tolerance)]


@final
@dataclass(frozen=True, eq=False)
class PolynomialRows(Representation):
    """Rows of q(P) X for the nodes of a basis; row i is its i-th node.

    Parameters
    ----------
    basis
        The terms.
    q
        The polynomial as the basis has it, shape (n,), or one for each member, (members, n).

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from gbgnn.propagation.rows import DenseRows
    >>> P = Propagator(sp.csr_array([[0.0, 1.0], [1.0, 0.0]]))
    >>> basis = PowerBasis.build(P, DenseRows(torch.tensor([[1.0], [2.0]])), torch.tensor([1]))
    >>> X = PolynomialRows(basis, basis.one).mixed((0, 1), torch.tensor([[0.5, 0.5], [0.0, 1.0]]))
    >>> X.dense().tolist()
    [[[1.5]], [[1.0]]]
    """

    basis: Basis
    q: torch.Tensor

    @property
    def is_shared(self) -> bool:  # type: ignore[override]
        """Whether there is one polynomial for all members."""
        return self.q.ndim == 1

    def member(self, i: int) -> PolynomialRows:
        """Return the rows of one member."""
        return self if self.is_shared else PolynomialRows(self.basis, self.q[i])

    def members(self, positions: Sequence[int]) -> PolynomialRows:
        """Return the rows of some members."""
        return self if self.is_shared else PolynomialRows(self.basis, self.q[list(positions)])

    def mixed(
        self, exponents: Sequence[int], weights: torch.Tensor, injection: torch.Tensor | float = 0.0
    ) -> PolynomialRows:
        r"""Return :math:`\sum_j w_j P^{p_j} X + \iota X^{(1)}` for weights of shape (..., n_exponents)."""
        weights = weights.double()
        added = torch.as_tensor(injection, dtype=torch.float64).expand(weights.shape[:-1])
        return PolynomialRows(self.basis, self.basis.multiply(self.q, exponents, weights, added))

    def power_rows(self, exponents: Sequence[int], ids: torch.Tensor) -> torch.Tensor:
        """Return the rows of P^p X for each p, shape (..., n_exponents, n, C)."""
        weights = torch.eye(len(exponents), dtype=torch.float64)
        nothing = torch.zeros(len(exponents), dtype=torch.float64)
        q = self.basis.multiply(self.q[..., None, :], exponents, weights, nothing)
        return PolynomialRows(self.basis, q).rows(ids)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of kept rows and of columns."""
        _, n_rows, n_columns = self.basis.terms.first(1).shape
        return n_rows, n_columns

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the rows."""
        return self.basis.terms.first(1).dtype

    @property
    def device(self) -> torch.device:
        """Where the rows are."""
        return self.basis.terms.first(1).device

    @property
    def nbytes(self) -> int:
        """Bytes of one set of rows."""
        return self.basis.terms.first(1).nbytes

    @cached_property
    def _coefficients(self) -> torch.Tensor:
        found = self.basis.expand(self.q, float(torch.finfo(self.dtype).eps))
        return found.to(self.device, self.dtype)

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the rows of kept nodes, by their places: (n, C), or (members, n, C)."""
        return self._sum(ids)

    def dense(self) -> torch.Tensor:
        """Return all kept rows."""
        return self._sum(slice(None))

    def _sum(self, which: torch.Tensor | slice) -> torch.Tensor:
        """Sum up the terms."""
        coefficients = self._coefficients
        n_terms = coefficients.shape[-1]
        terms = self.basis.terms.first(n_terms)
        if self.is_shared and _is_single(self.q, self.basis):
            return terms[-1][which]
        terms = terms[:, which]
        mixed = coefficients.reshape(-1, n_terms) @ terms.reshape(n_terms, -1)
        return mixed.view(*coefficients.shape[:-1], *terms.shape[1:])

    def blocks(self, n_bytes: int = BLOCK_BYTES, *, sparse: bool = False) -> Iterator[torch.Tensor]:
        """Yield consecutive rows: there are few."""
        n_rows = max(1, n_bytes // max(1, self.nbytes // max(1, self.shape[0])))
        yield from self.dense().split(n_rows, dim=-2)

    def add_to_(self, result: torch.Tensor, alpha: float = 1.0) -> torch.Tensor:
        """Add ``alpha`` times the rows to ``result`` in place."""
        return result.add_(self.dense(), alpha=alpha)


def join_members(parts: Sequence[Representation]) -> Representation:
    """Return the representations of several members as one.

    Examples
    --------
    >>> from gbgnn.propagation.rows import DenseRows
    >>> X = DenseRows(torch.zeros(2, 1))
    >>> join_members([X, X]) is X
    True
    """
    first = parts[0]
    return first if all(part is first for part in parts) else MemberRows(parts)


def _is_single(q: torch.Tensor, basis: Basis) -> bool:
    """Say whether a polynomial is a power, so that nothing has to be summed."""
    return isinstance(basis, PowerBasis) and bool(q[-1] == 1) and not bool(q[:-1].any())
