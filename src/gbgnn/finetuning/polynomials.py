"""The numbers of a polynomial hop that may be moved, and the polynomials they make of all hops together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from gbgnn.aggregation import PolynomialHop
from gbgnn.propagation import polynomial
from gbgnn.propagation.interval import Interval


@dataclass(frozen=True, eq=False)
class HopScalars:
    r"""The free numbers :math:`\theta` of one hop: its coefficients and injection are affine in them."""

    hop: PolynomialHop  # the hop as it was boosted
    initial: torch.Tensor  # theta of this hop, in double precision; empty where nothing is free
    # offset, jacobian: the coefficients, followed by the injection, are offset + jacobian @ theta.
    offset: torch.Tensor
    jacobian: torch.Tensor

    @classmethod
    def from_hop(cls, hop: PolynomialHop) -> HopScalars:
        """Return what a hop says is free in it, as numbers."""
        given = torch.tensor([*hop.coefficients, hop.injection], dtype=torch.float64)
        n_powers, offset = len(hop.powers), given.clone()
        if hop.free == "coefficients":
            offset[:-1] = 0
            return cls(hop, given[:-1], offset, torch.eye(n_powers + 1, n_powers, dtype=torch.float64))
        if hop.free == "share":
            # The share of the highest power; the rest goes to the lowest one or, after a single power, to the
            # injection.
            highest, rest = n_powers - 1, 1 if n_powers == 1 else 0
            jacobian = given.new_zeros(n_powers + 1, 1)
            jacobian[highest], jacobian[rest] = 1, -1
            offset[highest], offset[rest] = 0, given[highest] + given[rest]
            return cls(hop, given[highest : highest + 1], offset, jacobian)
        return cls(hop, given[:0], offset, given.new_zeros(n_powers + 1, 0))

    @property
    def is_share(self) -> bool:
        r"""Whether :math:`\theta` is one share, which must stay in [0, 1]."""
        return self.hop.free == "share"

    def coefficients(self, theta: torch.Tensor) -> torch.Tensor:
        """Return the coefficients and, last, the injection."""
        return self.offset + self.jacobian @ theta

    def rebuild(self, theta: torch.Tensor) -> PolynomialHop:
        """Return the hop with other numbers; the alignment was that of the old ones."""
        if self.hop.free is None:
            return self.hop
        *coefficients, injection = self.coefficients(theta).tolist()
        return replace(self.hop, coefficients=tuple(coefficients), injection=injection, alignment=None)


class HopPolynomials:
    r"""X^(t) = q_t(P) X with :math:`q_t = h_t q_{t-1} + \iota_t`, by values at the Chebyshev nodes.

    Parameters
    ----------
    hops
        The scalars of every hop, from the first.
    interval
        Where the eigenvalues of P are.
    """

    def __init__(self, hops: Sequence[HopScalars], interval: Interval) -> None:
        self.hops = list(hops)
        self.degree = sum(hop.hop.powers[-1] for hop in hops)
        at = polynomial.nodes(self.degree, interval)
        nothing = torch.zeros_like(at)  # the injection is no multiple of the representation
        self._powers = {
            powers: torch.stack([*(at**p for p in powers), nothing])
            for powers in {h.hop.powers for h in hops}
        }

    def coefficients(self, thetas: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return the Chebyshev coefficients of q_1, q_2, ..., a row each; differentiable."""
        q = torch.ones(self.degree + 1, dtype=torch.float64)
        values = []
        for hop, theta in zip(self.hops, thetas, strict=True):
            numbers = hop.coefficients(theta)
            q = (numbers @ self._powers[hop.hop.powers]) * q + numbers[-1]
            values.append(q)
        return polynomial.coefficients(torch.stack(values))
