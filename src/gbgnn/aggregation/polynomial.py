"""PolynomialHop, a polynomial in P plus a share of the input, and the aggregations whose hop is fixed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gbgnn._checks import check_choice, check_number
from gbgnn.aggregation.base import Aggregation, Hop, HopSpace
from gbgnn.errors import ModelFileError
from gbgnn.problem import NodeInputs
from gbgnn.propagation import DenseRows, Mixable, PolynomialRows, Representation, join_members, mix
from gbgnn.rounds import RoundContext

MOST_POWER = 1024
"""The highest power of P of any aggregation; a file that asks for a higher one is not ours."""


@dataclass(frozen=True)
class PolynomialHop(Hop):
    r""":math:`X \mapsto \sum_j c_j P^{p_j} X + \iota X^{(1)}`.

    Parameters
    ----------
    powers
        The :math:`p_j`, increasing; 0 is the representation itself.
    coefficients
        The :math:`c_j`.
    injection
        :math:`\iota`, the share of the raw features.
    alignment
        The kernel target alignment these coefficients reached, where they were learned.
    free
        What fine-tuning may move. ``"coefficients"``: each by itself. ``"share"``: one number in [0, 1], the
        coefficient of the highest power; what it loses the raw features gain or, of two powers, the lower.
        None: nothing.

    Examples
    --------
    >>> from gbgnn.propagation import Propagator
    >>> P = Propagator([[0.0, 1.0], [1.0, 0.0]])
    >>> inputs = NodeInputs.from_tensor(torch.tensor([[1.0], [2.0]]), P)
    >>> X = DenseRows(torch.tensor([[10.0], [20.0]]))
    >>> PolynomialHop((1,), (0.5,), injection=0.5)(X, inputs).dense()
    tensor([[10.5000],
            [ 6.0000]])
    """

    powers: tuple[int, ...]
    coefficients: tuple[float, ...]
    injection: float = 0.0
    alignment: float | None = None
    free: str | None = None
    keeps_columns = True

    def __post_init__(self) -> None:
        """Raise when ``free`` is none of the things that can be moved."""
        if self.free is not None:
            check_choice("PolynomialHop", "free", self.free, ("coefficients", "share"))

    def __call__(
        self, X: Representation, inputs: NodeInputs, terms: Iterable[torch.Tensor] | None = None
    ) -> Representation:
        """Return the next representation; ``terms`` are the powers of P times X, where they are known."""
        if self.powers == (0,) and self.coefficients == (1.0,) and not self.injection:
            return X
        if isinstance(X, Mixable):
            return X.mixed(self.powers, torch.tensor(self.coefficients, dtype=torch.float64), self.injection)
        result = mix(inputs.P, X, self.powers, self.coefficients, terms)
        return DenseRows(inputs.features.add_to_(result, self.injection) if self.injection else result)

    def extend_walks(self, before: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the coefficients of the product of this polynomial with that of the input."""
        own = np.zeros(max(self.powers) + 1)
        own[list(self.powers)] = self.coefficients
        result = np.convolve(own, before)
        result[0] += self.injection
        return np.trim_zeros(result, "b") if result.any() else result[:1]

    def record(self) -> dict[str, Any]:
        """Return the coefficients by power, the injected share, the alignment and what is free."""
        return asdict(self) | {"powers": list(self.powers), "coefficients": list(self.coefficients)}

    @classmethod
    def from_record(cls, record: dict[str, Any], state: dict[str, torch.Tensor]) -> PolynomialHop:
        """Build the hop again."""
        lists = {"powers": tuple(record["powers"]), "coefficients": tuple(record["coefficients"])}
        if not all(type(power) is int and 0 <= power <= MOST_POWER for power in lists["powers"]):
            raise ModelFileError(f"its hop has powers of P that are not from 0 to {MOST_POWER:,}.")
        return cls(**record | lists)


IDENTITY = PolynomialHop((0,), (1.0,))  # the hop of round 1, which sees the raw features


def mix_members(X: PolynomialRows, hops: Sequence[PolynomialHop]) -> PolynomialRows:
    """Return what the hops of several members, of the same powers, make of their rows."""
    first = hops[0]
    if X.is_shared and all(hop is first or hop == first for hop in hops):
        hops = hops[:1]
    weights = torch.tensor([hop.coefficients for hop in hops], dtype=torch.float64)
    injection = torch.tensor([hop.injection for hop in hops], dtype=torch.float64)
    mixed = X.mixed(first.powers, weights, injection)
    return mixed.member(0) if len(hops) == 1 else mixed


class FixedAggregation(Aggregation):
    """An aggregation whose hop is the same every round and looks at no label."""

    is_polynomial = True

    @abstractmethod
    def hop(self) -> PolynomialHop:
        """Return the hop."""

    @classmethod
    def step_many(
        cls, aggregations: Sequence[FixedAggregation], context: RoundContext
    ) -> tuple[Sequence[Hop], Representation]:
        """Return the hops, and what they make of the members' representations."""
        first, shared, X = aggregations[0], aggregations[0].hop(), context.X
        hops = [shared if vars(each) == vars(first) else each.hop() for each in aggregations]
        if isinstance(X, PolynomialRows):
            return hops, mix_members(X, hops)
        return hops, join_members([hop(X.member(i), context.inputs) for i, hop in enumerate(hops)])

    def check(self) -> None:
        """Nothing to check, unless there are settings."""

    def fit(self, context: RoundContext) -> Hop:
        """Return the hop: there is nothing to learn."""
        return self.hop()

    def hypothesis_space(self) -> HopSpace:
        """Return the one hop there is."""
        return HopSpace(self.hop())


@dataclass(kw_only=True, eq=False, repr=False)
class Adjacency(FixedAggregation):
    r"""Multiply by the propagation matrix: :math:`X^{(t)} = P X^{(t-1)}` (GB-GNN-Adj in the paper).

    Examples
    --------
    >>> Adjacency().hop().record()["coefficients"]
    [1.0]
    """

    def hop(self) -> PolynomialHop:
        """Return the product with P."""
        return PolynomialHop((1,), (1.0,))


@dataclass(kw_only=True, eq=False, repr=False)
class Lazy(FixedAggregation):
    r"""Move only part of the way: :math:`X^{(t)} = (\rho P + (1-\rho) I) X^{(t-1)}`.

    Parameters
    ----------
    mixing
        The paper's :math:`\rho`, in [0, 1]. At 1 this is :class:`Adjacency`; at 0 it is :class:`Identity`.

    Examples
    --------
    >>> Lazy(mixing=0.75).hop().record()["coefficients"]
    [0.25, 0.75]
    """

    mixing: float = 0.5

    def check(self) -> None:
        """Raise when ``mixing`` is outside [0, 1]."""
        check_number("Lazy", "mixing", self.mixing, 0, 1)

    def hop(self) -> PolynomialHop:
        """Return the lazy product."""
        return PolynomialHop((0, 1), (1 - self.mixing, self.mixing), free="share")


@dataclass(kw_only=True, eq=False, repr=False)
class InputInjection(FixedAggregation):
    r"""Keep a fixed share of the raw features: :math:`X^{(t)} = \rho P X^{(t-1)} + (1-\rho) X^{(1)}`.

    Depth cannot wash the input out (GB-GNN-II in the paper).

    Parameters
    ----------
    mixing
        Share of the aggregated features, in [0, 1] (the paper's :math:`\rho`). At 1 this is
        :class:`Adjacency`; at 0 the graph is ignored.

    Examples
    --------
    >>> InputInjection(mixing=0.75).hop().record()["injection"]
    0.25
    """

    mixing: float = 0.9

    def check(self) -> None:
        """Raise when ``mixing`` is outside [0, 1]."""
        check_number("InputInjection", "mixing", self.mixing, 0, 1)

    def hop(self) -> PolynomialHop:
        """Return the product with P plus the injected input."""
        return PolynomialHop((1,), (self.mixing,), injection=1 - self.mixing, free="share")


@dataclass(kw_only=True, eq=False, repr=False)
class Identity(FixedAggregation):
    r"""Leave the representation alone, :math:`X^{(t)} = X^{(t-1)}`: boosting without a graph.

    Examples
    --------
    >>> Identity().hop().record()["powers"]
    [0]
    """

    def hop(self) -> PolynomialHop:
        """Return the identity."""
        return IDENTITY
