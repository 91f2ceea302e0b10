r"""Polynomials in P: its powers times X, and polynomials by their Chebyshev coefficients.

On an interval that holds the eigenvalues of P, :math:`q(P) X = \sum_k c_k T_k(P) X`, where the terms
:math:`T_k(P) X` do not depend on q and none is larger than X: sums of them lose no digits, which those of
powers of P do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import torch

from gbgnn.propagation.interval import Interval
from gbgnn.propagation.propagator import Propagator


def powers(P: Propagator, X: torch.Tensor, exponents: Iterable[int]) -> Iterator[torch.Tensor]:
    """Yield P^p X for each p of ``exponents``, increasing, each valid until the next is asked for.

    Two buffers take turns: fresh memory for every product would cost as much as the product. X is left alone.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> P = Propagator(sp.csr_array([[2.0]]))
    >>> [float(term) for term in powers(P, torch.ones(1, 1), (0, 1, 3))]
    [1.0, 2.0, 8.0]
    """
    reached, Z, spare = 0, X, None
    for exponent in exponents:
        for _ in range(exponent - reached):
            Z, spare = P(Z, out=spare), None if Z is X else Z
        reached = exponent
        yield Z


def nodes(degree: int, interval: Interval, device: torch.device | str = "cpu") -> torch.Tensor:
    """Return the degree + 1 points whose values settle a polynomial best, in double precision.

    Examples
    --------
    >>> nodes(1, Interval(0.0, 1.0)).round(decimals=4)
    tensor([ 0.7071, -0.7071], dtype=torch.float64)
    """
    n_points = degree + 1
    angles = (torch.arange(n_points, dtype=torch.float64, device=device) + 0.5) * (math.pi / n_points)
    return interval.centre + interval.radius * angles.cos()


def coefficients(values: torch.Tensor) -> torch.Tensor:
    """Return the Chebyshev coefficients of polynomials from their values at :func:`nodes`, row by row.

    A cosine transform, through the Fourier transform of the mirrored values; differentiable.

    Examples
    --------
    >>> at = nodes(2, Interval(0.0, 1.0))
    >>> coefficients((2 * at**2 - 1 + 3 * at)[None]).round(decimals=4).abs()
    tensor([[0., 3., 1.]], dtype=torch.float64)
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
    """Return how many terms matter: those left out sum to ``tolerance`` of all in no row.

    Examples
    --------
    >>> n_needed(torch.tensor([[1.0, 0.5, 1e-9], [1.0, 0.0, 0.0]]), 1e-6)
    2
    """
    sizes = coefficients.abs()
    tails = sizes.flip(1).cumsum(dim=1).flip(1)  # of each row, the sum from k on
    matters = (tails > tolerance * tails[:, :1]).any(dim=0)
    return max(1, int(matters.sum()))


def chebyshev_terms(
    P: Propagator, X: torch.Tensor, n_terms: int, interval: Interval
) -> Iterator[torch.Tensor]:
    """Yield T_0(P) X = X, T_1(P) X, ..., each valid until the next is asked for; P scaled to [-1, 1].

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> P = Propagator(sp.csr_array([[2.0]]))
    >>> [float(term) for term in chebyshev_terms(P, torch.ones(1, 1), 3, Interval(0.0, 4.0))]
    [1.0, 0.5, -0.5]
    """
    yield X
    before, now = None, X
    spare: torch.Tensor | None = None
    for k in range(1, n_terms):
        factor = (1 if k == 1 else 2) / interval.radius
        after = P(now, out=spare)
        if interval.centre:
            after.sub_(now, alpha=interval.centre)
        after.mul_(factor)
        if before is not None:
            after.sub_(before)
        spare = None if before is None or before is X else before
        before, now = now, after
        yield now
