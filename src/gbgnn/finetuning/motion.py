"""How the representations of the labelled nodes follow the numbers of the hops, and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from gbgnn.aggregation import Hop, PolynomialHop
from gbgnn.finetuning.polynomials import HopPolynomials, HopScalars, scalars_of
from gbgnn.finetuning.representations import OF_A_PRODUCT, ChebyshevTerms, HopTerms, Terms
from gbgnn.finetuning.sweep import slopes_by_sweep
from gbgnn.problem import NodeInputs
from gbgnn.propagation import Representation
from gbgnn.propagation.interval import Interval, spectral_interval
from gbgnn.propagation.polynomial import n_needed


class HopMotion(ABC):
    """The hops of a model in tuning.

    For every gradient, ``begin`` is called once, then ``mix`` and ``add_slope`` for a few nodes at a time,
    then ``finish``, which adds to the gradients of ``thetas``.
    """

    thetas: Sequence[torch.Tensor] = ()
    """The free numbers of every hop, or nothing where none moves."""

    nbytes: int = 0
    """What is held beside the terms."""

    @abstractmethod
    def terms(self) -> Terms:
        """Return the terms to compute for the labelled nodes."""

    @abstractmethod
    def hops(self) -> list[Hop]:
        """Return the hops as they are now."""

    def needs_other_terms(self, terms: Terms) -> bool:
        """Return whether the hops have moved too far for these terms."""
        return False

    @abstractmethod
    def begin(self, terms: Terms) -> None:
        """Take the numbers as they are now."""

    def mix(self, terms: torch.Tensor) -> torch.Tensor:
        """Return X^(1), X^(2), ... of some nodes from their terms."""
        return terms

    @abstractmethod
    def add_slope(self, slope: torch.Tensor, terms: torch.Tensor, rows: torch.Tensor, n_columns: int) -> None:
        """Take in the loss's gradient in what ``mix`` returned, of the nodes ``rows``."""

    @abstractmethod
    def finish(self) -> None:
        """Add to the gradients of the free numbers."""

    @abstractmethod
    def project(self) -> None:
        """Move numbers back to where they make sense."""


class StillHops(HopMotion):
    """Hops of which nothing moves."""

    def __init__(self, hops: Sequence[Hop]) -> None:
        self._hops = list(hops)

    def terms(self) -> Terms:
        """Return the representations themselves."""
        return HopTerms(self._hops)

    def hops(self) -> list[Hop]:
        """Return the hops."""
        return self._hops

    def begin(self, terms: Terms) -> None:
        """Nothing to take."""

    def add_slope(self, slope: torch.Tensor, terms: torch.Tensor, rows: torch.Tensor, n_columns: int) -> None:
        """Nothing to find."""

    def finish(self) -> None:
        """Nothing to add to."""

    def project(self) -> None:
        """Nothing has moved."""


class MovedHops(HopMotion):
    """Polynomial hops with free numbers."""

    def __init__(self, scalars: Sequence[HopScalars]) -> None:
        self.scalars = list(scalars)
        self.thetas = [hop.initial.clone().requires_grad_() for hop in scalars]

    @torch.no_grad()
    def hops(self) -> list[Hop]:
        """Return hops with the numbers of now."""
        return [hop.rebuild(theta) for hop, theta in zip(self.scalars, self.thetas, strict=True)]

    @torch.no_grad()
    def project(self) -> None:
        """Keep shares within [0, 1]."""
        for hop, theta in zip(self.scalars, self.thetas, strict=True):
            if hop.is_share:
                theta.clamp_(0, 1)


class ChebyshevHops(MovedHops):
    r"""Hops in motion where P has real eigenvalues: :math:`X^{(t)} = \sum_k c_{tk} V_k`.

    The terms :math:`V_k = T_k(P) X` depend on nothing that moves, so the loss has its gradient in all numbers
    through the small matrix c, and nothing is propagated back through the graph.
    """

    def __init__(self, scalars: Sequence[HopScalars], interval: Interval, like: Representation) -> None:
        super().__init__(scalars)
        self._polynomials, self._interval = HopPolynomials(scalars, interval), interval
        self._like, self._rounding = like, float(torch.finfo(like.dtype).eps)
        self.nbytes = 6 * 8 * len(self.scalars) * (self._polynomials.degree + 1)

    def terms(self) -> Terms:
        """Return as many terms as matter: what is left out is below the rounding of the sum."""
        # A number at zero hides the terms that its slope needs; those of hops that moved a little show them.
        moved = [theta.detach() + 0.01 for theta in self.thetas]
        matter = max(
            n_needed(self._polynomials.coefficients(thetas).detach(), self._rounding)
            for thetas in (self.thetas, moved)
        )
        # Some more, because the hops will move further.
        n_terms = min(self._polynomials.degree + 1, matter * 11 // 10 + 8)
        return ChebyshevTerms(n_terms, self._interval)

    def needs_other_terms(self, terms: Terms) -> bool:
        """Return whether later terms have begun to matter."""
        return n_needed(self._coefficients().detach(), 16 * self._rounding) > terms.n_terms

    def begin(self, terms: Terms) -> None:
        """Compute c, in double precision."""
        self._c = self._coefficients()[:, : terms.n_terms]
        self._mixing = self._c.detach().to(self._like.device, self._like.dtype)
        self._slope = torch.zeros_like(self._mixing, dtype=torch.float64)

    def mix(self, terms: torch.Tensor) -> torch.Tensor:
        """Multiply by c."""
        X: torch.Tensor = (self._mixing @ terms.flatten(1)).unflatten(1, terms.shape[1:])
        return X

    def add_slope(self, slope: torch.Tensor, terms: torch.Tensor, rows: torch.Tensor, n_columns: int) -> None:
        """Add inner products of slopes with terms."""
        self._slope += slope.flatten(1) @ terms.flatten(1).T

    def finish(self) -> None:
        """Go back from c to the numbers it is made of."""
        self._c.backward(self._slope.to(self._c))

    def _coefficients(self) -> torch.Tensor:
        return self._polynomials.coefficients(self.thetas)


class SweptHops(MovedHops):
    """Hops in motion on a directed graph: the gradient is propagated back through the hops, last to first.

    Every gradient takes twice the products with P that applying the model does.
    """

    def __init__(self, scalars: Sequence[HopScalars], inputs: NodeInputs) -> None:
        super().__init__(scalars)
        self._inputs, self._transposed = inputs, inputs.P.transpose()
        self.nbytes = inputs.P.nbytes

    def terms(self) -> Terms:
        """Return the representations under the numbers at the time they are asked for."""
        return MovingTerms(self)

    def begin(self, terms: Terms) -> None:
        """Take the hops as they are now."""
        self._now = [hop for hop in self.hops() if isinstance(hop, PolynomialHop)]
        self._slopes = [torch.zeros_like(hop.offset) for hop in self.scalars]

    def add_slope(self, slope: torch.Tensor, terms: torch.Tensor, rows: torch.Tensor, n_columns: int) -> None:
        """Sweep back through the hops."""
        found = slopes_by_sweep(self._now, self._inputs, self._transposed, rows, slope, n_columns)
        for total, more in zip(self._slopes, found, strict=True):
            total += more

    def finish(self) -> None:
        """Go back from coefficients and injections to the free numbers."""
        for hop, theta, slope in zip(self.scalars, self.thetas, self._slopes, strict=True):
            if len(theta):
                hop.terms(theta).backward(slope)


@dataclass(frozen=True, eq=False)
class MovingTerms(Terms):
    """The representations X^(1), X^(2), ... under hops that move: never held."""

    motion: MovedHops
    is_divisible: bool = True
    is_fixed: bool = False

    @property
    def n_terms(self) -> int:  # type: ignore[override]
        """One per round."""
        return len(self.motion.scalars)

    @property
    def n_arrays(self) -> int:  # type: ignore[override]
        """The sweep holds the representations of all rounds, two gradients and two powers of P."""
        return self.n_terms + 4 + OF_A_PRODUCT

    def stream(self, inputs: NodeInputs) -> Iterator[torch.Tensor]:
        """Apply hop after hop."""
        return HopTerms(self.motion.hops()).stream(inputs)


def motion_of(hops: Sequence[Hop], inputs: NodeInputs) -> HopMotion:
    """Return the hops in motion, by the cheapest way there is for P.

    A hop that is no polynomial in P has nothing to move, and those beside it stay as they are too.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from gbgnn.aggregation import IDENTITY, Adjacency, Lazy
    >>> from gbgnn.propagation import Propagator
    >>> undirected, directed = ([[0.5, 0.5], [0.5, 0.5]], [[0.5, 0.5], [0.0, 1.0]])
    >>> for P, hop in (undirected, Adjacency()), (undirected, Lazy()), (directed, Lazy()):
    ...     inputs = NodeInputs.from_tensor(torch.eye(2), Propagator(sp.csr_array(P)))
    ...     print(type(motion_of([IDENTITY, hop.hop()], inputs)).__name__)
    StillHops
    ChebyshevHops
    SweptHops
    """
    polynomials = [hop for hop in hops if isinstance(hop, PolynomialHop)]
    if len(polynomials) < len(hops) or all(hop.free is None for hop in polynomials):
        return StillHops(hops)
    scalars = [scalars_of(hop) for hop in polynomials]
    interval = spectral_interval(inputs.P)
    if interval is None:
        return SweptHops(scalars, inputs)
    return ChebyshevHops(scalars, interval, like=inputs.features)
