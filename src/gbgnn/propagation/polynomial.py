r"""Polynomials in P: its powers times X, Chebyshev terms, and rows of :math:`q(P) X` for many polynomials q.

On an interval that holds the eigenvalues of P, :math:`q(P) X = \sum_k c_k T_k(P) X`, where the terms
:math:`T_k(P) X` do not depend on q and none is larger than X: sums of them lose no digits, which those of
powers of P do.

A population needs the rows of labelled and validation nodes alone. Terms are computed once for all members,
of all nodes, and only those rows are kept; a member's hop is then a product of polynomials, numbers on the
host, and its representation a sum of terms.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from threading import Lock
from typing import final

import numpy as np
import torch

from gbgnn.propagation.mixable import Mixable
from gbgnn.propagation.propagator import Propagator
from gbgnn.propagation.rows import Representation
from gbgnn.propagation.spectrum import Interval


def powers(P: Propagator, X: torch.Tensor, exponents: Iterable[int]) -> Iterator[torch.Tensor]:
    """Yield P^p X for each p of ``exponents``, increasing, each valid until the next is asked for.

    Two buffers take turns: fresh memory for every product would cost as much as the product. X is left alone.

    Examples
    --------
    >>> P = Propagator([[2.0]])
    >>> [float(term) for term in powers(P, torch.ones(1, 1), (0, 1, 3))]
    [1.0, 2.0, 8.0]
    """
    reached, Z, spare = 0, X, None
    for exponent in exponents:
        for _ in range(exponent - reached):
            Z, spare = P(Z, out=spare), None if Z is X else Z
        reached = exponent
        yield Z


def nodes(degree: int, interval: Interval) -> torch.Tensor:
    """Return the degree + 1 points whose values settle a polynomial best, in double precision."""
    n_points = degree + 1
    angles = (torch.arange(n_points, dtype=torch.float64) + 0.5) * (math.pi / n_points)
    return interval.centre + interval.radius * angles.cos()


def coefficients(values: torch.Tensor) -> torch.Tensor:
    """Return the Chebyshev coefficients of polynomials from their values at :func:`nodes`, row by row.

    A cosine transform, through the Fourier transform of the mirrored values; differentiable.
    """
    n_points = values.shape[-1]
    spectrum = torch.fft.rfft(torch.cat([values, values.flip(-1)], dim=-1))[..., :n_points]
    angles = torch.arange(n_points, dtype=torch.float64, device=values.device) * (math.pi / (2 * n_points))
    cosines = spectrum.real * angles.cos() + spectrum.imag * angles.sin()
    halved = torch.ones_like(angles)
    halved[0] = 0.5
    result: torch.Tensor = cosines * halved / n_points
    return result


def n_needed(coefficients: torch.Tensor, tolerance: float) -> int:
    """Return how many terms matter: those left out sum to ``tolerance`` of all in no row."""
    sizes = coefficients.abs()
    tails = sizes.flip(1).cumsum(dim=1).flip(1)  # of each row, the sum from k on
    matters = (tails > tolerance * tails[:, :1]).any(dim=0)
    return max(1, int(matters.sum()))


def chebyshev_terms(
    P: Propagator, X: torch.Tensor, n_terms: int, interval: Interval
) -> Iterator[torch.Tensor]:
    """Yield T_0(P) X = X, T_1(P) X, ..., each valid until the next is asked for; P scaled to [-1, 1]."""
    yield X
    before, now, spare = None, X, None
    for _ in range(1, n_terms):
        after = P(now, out=spare)
        if interval.centre:
            after.sub_(now, alpha=interval.centre)
        after.mul_((1 if before is None else 2) / interval.radius)
        if before is not None:
            after.sub_(before)
        spare = None if before is X else before
        before, now = now, after
        yield now


class TermRows:
    """The rows of nodes ``ids`` of a stream of representations, computed when first asked for, and kept.

    Each representation of the stream need be valid only until the next is asked for.
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


@final
class PowerBasis:
    """Powers of P, for polynomials whose coefficients are not negative, so that nothing cancels.

    A polynomial q stands for a sum of terms by numbers on the host, here its coefficients.
    """

    def __init__(self, terms: TermRows) -> None:
        self.terms = terms
        self.one = torch.ones(1, dtype=torch.float64)  # the polynomial 1, shape (n,)

    @classmethod
    def build(cls, P: Propagator, X: Representation, ids: torch.Tensor) -> PowerBasis:
        """Return the basis for nodes ``ids``."""
        return cls(TermRows(powers(P, X.dense(), count()), ids))

    def multiply(
        self, q: torch.Tensor, exponents: Sequence[int], weights: torch.Tensor, injection: torch.Tensor
    ) -> torch.Tensor:
        r"""Return :math:`q(x) \sum_j w_j x^{p_j} + \iota`, shape (..., n); weights (..., n_exponents)."""
        n_before = q.shape[-1]
        front = np.broadcast_shapes(q.shape[:-1], weights.shape[:-1])
        result = torch.zeros(*front, n_before + max(exponents), dtype=torch.float64)
        for exponent, weight in zip(exponents, weights.unbind(-1), strict=True):
            result[..., exponent : exponent + n_before] += weight[..., None] * q
        result[..., 0] += injection
        return result

    def expand(self, q: torch.Tensor, tolerance: float) -> torch.Tensor:
        """Return the coefficients of the terms that matter, shape (..., n_terms)."""
        return q


@final
class ChebyshevBasis:
    """Chebyshev polynomials of P, for any polynomials up to a degree known beforehand, by values at nodes."""

    def __init__(self, terms: TermRows, interval: Interval, degree: int) -> None:
        self.terms, self._nodes = terms, nodes(degree, interval)
        self.one = torch.ones_like(self._nodes)

    def multiply(
        self, q: torch.Tensor, exponents: Sequence[int], weights: torch.Tensor, injection: torch.Tensor
    ) -> torch.Tensor:
        """Return what :meth:`PowerBasis.multiply` does, as values at the nodes."""
        at_powers = torch.stack([self._nodes**exponent for exponent in exponents])
        return q * (weights @ at_powers) + injection[..., None]

    def expand(self, q: torch.Tensor, tolerance: float) -> torch.Tensor:
        """Return the coefficients of the terms that matter to any of the polynomials."""
        found = coefficients(q)
        return found[..., : n_needed(found.reshape(-1, found.shape[-1]), tolerance)]


Basis = PowerBasis | ChebyshevBasis


@final
@dataclass(frozen=True, eq=False)
class PolynomialRows(Mixable):
    """Rows of q(P) X for the nodes of a basis; row i is its i-th node.

    Examples
    --------
    >>> from gbgnn.propagation import DenseRows
    >>> P = Propagator([[0.0, 1.0], [1.0, 0.0]])
    >>> basis = PowerBasis.build(P, DenseRows(torch.tensor([[1.0], [2.0]])), torch.tensor([1]))
    >>> X = PolynomialRows(basis, basis.one).mixed((0, 1), torch.tensor([[0.5, 0.5], [0.0, 1.0]]))
    >>> X.dense().tolist()
    [[[1.5]], [[1.0]]]
    """

    basis: Basis
    q: torch.Tensor  # the polynomial as the basis has it, shape (n,), or one for each member, (members, n)

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
    def _numbers(self) -> torch.Tensor:
        return self.basis.terms.first(1)  # one set of rows

    @cached_property
    def _coefficients(self) -> torch.Tensor:
        found = self.basis.expand(self.q, float(torch.finfo(self.dtype).eps))
        return found.to(self.device, self.dtype)

    def rows(self, ids: torch.Tensor | slice) -> torch.Tensor:
        """Return the rows of kept nodes, by their places: (n, C), or (members, n, C)."""
        q, coefficients = self.q, self._coefficients
        n_terms = coefficients.shape[-1]
        terms = self.basis.terms.first(n_terms)
        if self.is_shared and isinstance(self.basis, PowerBasis) and q[-1] == 1 and not q[:-1].any():
            return terms[-1][ids]  # a power of P: there is nothing to sum
        terms = terms[:, ids]
        mixed = coefficients.reshape(-1, n_terms) @ terms.reshape(n_terms, -1)
        return mixed.view(*coefficients.shape[:-1], *terms.shape[1:])

    def dense(self) -> torch.Tensor:
        """Return all kept rows."""
        return self.rows(slice(None))
