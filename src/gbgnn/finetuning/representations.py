"""The representations of the labelled nodes as differentiable functions of the hops' free parameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, final

import torch

from gbgnn.aggregation import Hop, PolynomialHop
from gbgnn.problem import NodeInputs
from gbgnn.propagation import DenseRows, Interval, Propagator, Representation, polynomial, spectral_interval
from gbgnn.propagation.polynomial import chebyshev_terms, n_needed, powers

# Arrays that a product with P may hold on the way: X row after row, and the sums of some nodes.
PRODUCT_ARRAYS = 2

# Rows of sparse features are made dense in blocks no smaller than this, so that there are not too many.
_LEAST_BLOCK = 2**20


class HopScalars:
    r"""The free numbers :math:`\theta` of one hop: its coefficients and injection are affine in them."""

    def __init__(self, hop: PolynomialHop) -> None:
        self.hop, n_powers = hop, len(hop.powers)
        self._given = torch.tensor([*hop.coefficients, hop.injection], dtype=torch.float64)
        # The first coefficient that is free; none after it is fixed.
        self._first = {"coefficients": 0, "share": n_powers - 1}.get(hop.free or "", n_powers)
        self.initial = self._given[self._first : -1]  # theta of the hop as it was boosted

    def coefficients(self, theta: torch.Tensor) -> torch.Tensor:
        """Return the coefficients and, last, the injection."""
        numbers = torch.cat([self._given[: self._first], theta, self._given[-1:]])
        if self.hop.free == "share":
            # What the highest power loses goes to the lowest one or, after a single power, to the injection.
            rest = 1 if len(self.hop.powers) == 1 else 0
            numbers[rest] = self._given[self._first] + self._given[rest] - theta[0]
        return numbers

    def rebuild(self, theta: torch.Tensor) -> PolynomialHop:
        """Return the hop with other numbers; the alignment was that of the old ones."""
        if self.hop.free is None:
            return self.hop
        *coefficients, injection = self.coefficients(theta).tolist()
        return replace(self.hop, coefficients=tuple(coefficients), injection=injection, alignment=None)


class FineTunedHops:
    """The hops of a model in fine-tuning.

    X^(1), X^(2), ... of some nodes are :meth:`mix` of two things: the *terms* of these nodes, which
    :meth:`stream` computes, and the *coefficients*, a small tensor made of the free parameters. Unless a
    class says otherwise, the terms are the representations themselves, and nothing mixes them. All methods
    are functions of their arguments and of ``thetas``, so there is no order to keep.
    """

    nbytes: int = 0  # held beside the terms
    # Arrays of all nodes alive while terms pass by: the input, the last, the next, two powers of P.
    n_arrays: int = 5 + PRODUCT_ARRAYS
    is_divisible: bool = True  # whether columns may be treated one after the other
    is_fixed: bool = True  # whether the terms stay the same, so that they may be held

    def __init__(self, scalars: Sequence[HopScalars] = ()) -> None:
        self.scalars = list(scalars)
        # The free parameters of every hop, or nothing where none is free.
        self.thetas = [hop.initial.clone().requires_grad_() for hop in scalars]

    @torch.no_grad()
    def hops(self) -> list[Hop]:
        """Return ordinary hops with the parameters of now."""
        return [hop.rebuild(theta) for hop, theta in zip(self.scalars, self.thetas, strict=True)]

    def n_terms(self) -> int:
        """Return how many terms the representations are made of."""
        return len(self.hops())

    def stream(self, inputs: NodeInputs, n_terms: int) -> Iterator[torch.Tensor]:
        """Yield the first ``n_terms`` terms of all nodes, each valid until the next is asked for."""
        X = inputs.features
        for hop in self.hops():
            X = hop(X, inputs)
            yield X.dense()

    def coefficients(self, n_terms: int) -> torch.Tensor:
        """Return what mixes the first ``n_terms`` terms, in double precision; differentiable."""
        return torch.empty(0, dtype=torch.float64)

    def mix(
        self, coefficients: torch.Tensor, terms: torch.Tensor, rows: torch.Tensor, n_columns: int
    ) -> torch.Tensor:
        """Return X^(1), X^(2), ... of the nodes ``rows`` from their terms.

        It is differentiable in ``coefficients``; ``n_columns`` columns of all nodes fit in memory at once.
        """
        return terms

    def needs_other_terms(self, n_terms: int) -> bool:
        """Return whether the hops have moved too far for ``n_terms`` terms."""
        return False

    @torch.no_grad()
    def project(self) -> None:
        """Move every parameter to the nearest value that it may have: shares to [0, 1]."""
        for hop, theta in zip(self.scalars, self.thetas, strict=True):
            if hop.hop.free == "share":
                theta.clamp_(0, 1)


@final
class FixedHops(FineTunedHops):
    """Hops without free parameters."""

    def __init__(self, hops: Sequence[Hop]) -> None:
        super().__init__()
        self._hops = list(hops)
        self.is_divisible = all(isinstance(hop, PolynomialHop) for hop in hops)  # others mix columns

    def hops(self) -> list[Hop]:
        """Return the hops as they were boosted."""
        return self._hops


@final
class ChebyshevHops(FineTunedHops):
    r"""Free hops where P has real eigenvalues: :math:`X^{(t)} = q_t(P) X = \sum_k c_{tk} V_k`.

    The terms :math:`V_k = T_k(P) X` depend on no parameter, so the loss has its gradient in all of them
    through the small matrix c, and nothing is propagated back through the graph. The polynomials
    :math:`q_t = h_t q_{t-1} + \iota_t` are computed by their values at the Chebyshev nodes of ``interval``,
    where the eigenvalues of P are.
    """

    n_arrays = 4 + PRODUCT_ARRAYS  # the input and the last three

    def __init__(self, scalars: Sequence[HopScalars], interval: Interval, like: Representation) -> None:
        super().__init__(scalars)
        self._interval, self._like, self._rounding = interval, like, float(torch.finfo(like.dtype).eps)
        self._degree = sum(hop.hop.powers[-1] for hop in scalars)
        at = polynomial.nodes(self._degree, interval)
        every = {hop.hop.powers for hop in scalars}
        self._powers = {powers: torch.stack([at**p for p in powers]) for powers in every}
        # c, its gradient, and what autograd keeps of the recurrence that c comes from.
        self.nbytes = 6 * 8 * len(self.scalars) * (self._degree + 1)

    def n_terms(self) -> int:
        """Return how many terms matter: what is left out is below the rounding of the sum."""
        # A parameter at zero hides the terms that its gradient needs; hops that moved a little show them.
        moved = [theta.detach() + 0.01 for theta in self.thetas]
        matter = max(
            n_needed(self._expand(thetas).detach(), self._rounding) for thetas in (self.thetas, moved)
        )
        # Some more, because the hops will move further.
        return min(self._degree + 1, matter * 11 // 10 + 8)

    def stream(self, inputs: NodeInputs, n_terms: int) -> Iterator[torch.Tensor]:
        """Return an iterator over T_k(P) X."""
        return chebyshev_terms(inputs.P, inputs.features.dense(), n_terms, self._interval)

    def coefficients(self, n_terms: int) -> torch.Tensor:
        """Return c, a row for each round."""
        return self._expand(self.thetas)[:, :n_terms]

    def mix(
        self, coefficients: torch.Tensor, terms: torch.Tensor, rows: torch.Tensor, n_columns: int
    ) -> torch.Tensor:
        """Return the product of c and the terms."""
        # Autograd casts the gradient of c back, so that the parts of a batch add up in double precision.
        c = coefficients.to(self._like.device, self._like.dtype)
        X: torch.Tensor = (c @ terms.flatten(1)).unflatten(1, terms.shape[1:])
        return X

    def needs_other_terms(self, n_terms: int) -> bool:
        """Return whether later terms have begun to matter."""
        return n_needed(self._expand(self.thetas).detach(), 16 * self._rounding) > n_terms

    def _expand(self, thetas: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return the Chebyshev coefficients of q_1, q_2, ..., a row each; differentiable."""
        q = torch.ones(self._degree + 1, dtype=torch.float64)
        values = []
        for hop, theta in zip(self.scalars, thetas, strict=True):
            numbers = hop.coefficients(theta)
            q = (numbers[:-1] @ self._powers[hop.hop.powers]) * q + numbers[-1]
            values.append(q)
        return polynomial.coefficients(torch.stack(values))


@final
class BackpropHops(FineTunedHops):
    """Free hops on a directed graph: the gradient is propagated back through the hops, last to first.

    The coefficients are those of all hops in a row. Every gradient takes twice the products with P that
    applying the model does.
    """

    is_fixed = False

    def __init__(self, scalars: Sequence[HopScalars], inputs: NodeInputs) -> None:
        super().__init__(scalars)
        self._inputs, self._transposed = inputs, inputs.P.transpose()
        self.nbytes = inputs.P.nbytes
        # Going back holds the representations of all rounds, two gradients and two powers of P.
        self.n_arrays = len(self.scalars) + 4 + PRODUCT_ARRAYS

    def coefficients(self, n_terms: int) -> torch.Tensor:
        """Return the coefficients and the injection of every hop, one after the other."""
        pairs = zip(self.scalars, self.thetas, strict=True)
        return torch.cat([hop.coefficients(theta) for hop, theta in pairs])

    def mix(
        self, coefficients: torch.Tensor, terms: torch.Tensor, rows: torch.Tensor, n_columns: int
    ) -> torch.Tensor:
        """Return the terms, with a gradient in the coefficients."""
        hops = [hop for hop in self.hops() if isinstance(hop, PolynomialHop)]
        go_back = partial(backpropagate_hops, hops, self._inputs, self._transposed, rows, n_columns=n_columns)
        X: torch.Tensor = _WithGradient.apply(coefficients, terms, go_back)  # type: ignore[no-untyped-call]
        return X


class _WithGradient(torch.autograd.Function):
    """The value is known; ``go_back`` turns its gradient into those of the coefficients, hop by hop."""

    @staticmethod
    def forward(ctx: Any, coefficients: torch.Tensor, value: torch.Tensor, go_back: Any) -> torch.Tensor:
        ctx.go_back = go_back
        return value.view_as(value)  # autograd would take an input returned as it is for one changed in place

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return torch.cat(ctx.go_back(gradient)), None, None


def make_differentiable(hops: Sequence[Hop], inputs: NodeInputs) -> FineTunedHops:
    """Return hops whose parameters are free, with the cheapest gradient there is for P.

    A hop that is no polynomial in P has no free parameter, and those beside it are fixed too.
    """
    polynomials = [hop for hop in hops if isinstance(hop, PolynomialHop)]
    if len(polynomials) < len(hops) or all(hop.free is None for hop in polynomials):
        return FixedHops(hops)
    scalars = [HopScalars(hop) for hop in polynomials]
    interval = spectral_interval(inputs.P)
    if interval is None:
        return BackpropHops(scalars, inputs)
    return ChebyshevHops(scalars, interval, like=inputs.features)


def backpropagate_hops(
    hops: Sequence[PolynomialHop],
    inputs: NodeInputs,
    transposed: Propagator,
    rows: torch.Tensor,
    gradients: torch.Tensor,
    n_columns: int,
) -> list[torch.Tensor]:
    r"""Return the gradient in the coefficients and, last, the injection of every hop, in double precision.

    With :math:`G_t` the gradient in :math:`X^{(t)}` of what follows at once, that of all that follows is
    :math:`A_t = G_t + h_{t+1}(P^\top) A_{t+1}`, and :math:`\langle A_t, P^p X^{(t-1)}\rangle` is that in the
    coefficient of the power p. Hops mix no columns, so these go one block after the other: narrow enough,
    the representations of all rounds fit in memory.

    ``transposed`` multiplies by the transpose of P. ``gradients`` holds :math:`G_t` of the nodes ``rows``,
    shape (n_hops, n_rows, C); elsewhere it is zero.
    """
    found = [torch.zeros(len(hop.powers) + 1, dtype=torch.float64) for hop in hops]
    for start in range(0, inputs.features.shape[1], n_columns):
        columns = slice(start, start + n_columns)
        block = NodeInputs.from_tensor(dense_columns(inputs.features, columns), inputs.P)
        X = [block.features]
        for hop in hops[:-1]:
            X.append(hop(X[-1], block))
        A = torch.zeros_like(block.features.dense())
        for hop, gradient, total in zip(reversed(hops), gradients.flip(0), reversed(found), strict=True):
            A[rows] += gradient[:, columns]
            for j, Z in enumerate(powers(inputs.P, X.pop().dense(), hop.powers)):
                total[j] += _inner(A, Z)
            total[-1] += _inner(A, block.features.dense())
            # A hop's transpose is the same polynomial in the transpose of P; what it injects is constant.
            back = NodeInputs(DenseRows(A), transposed)
            A = replace(hop, injection=0.0)(back.features, back).dense()
    return found


def _inner(A: torch.Tensor, Z: torch.Tensor) -> float:
    return float((A * Z).sum(dtype=torch.float64))


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
