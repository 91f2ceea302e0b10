"""The aggregations with nothing to learn: Adjacency, Lazy, InputInjection, Identity."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from gbgnn._checks import check_number
from gbgnn.aggregation.base import Aggregation, Hop, HopSpace
from gbgnn.aggregation.polynomial import PolynomialHop, mix_members
from gbgnn.propagation import PolynomialRows, Representation
from gbgnn.rounds import RoundContext


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
        first, shared = aggregations[0], aggregations[0].hop()
        hops = [shared if vars(each) == vars(first) else each.hop() for each in aggregations]
        if isinstance(context.X, PolynomialRows):
            return hops, mix_members(context.X, hops)
        return super().step_many(aggregations, context)

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

    def check(self) -> None:
        """Nothing to check."""

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

    def check(self) -> None:
        """Nothing to check."""

    def hop(self) -> PolynomialHop:
        """Return the identity."""
        return IDENTITY


IDENTITY = PolynomialHop((0,), (1.0,))
"""The hop of round 1, which sees the raw features."""
