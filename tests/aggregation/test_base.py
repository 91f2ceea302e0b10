from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from gbgnn.aggregation import Aggregation, Hop, PolynomialHop
from gbgnn.rounds import RoundContext
from gbgnn.testing import check_aggregation, make_round, two_blocks


@dataclass(kw_only=True, eq=False, repr=False)
class TwoHops(Aggregation):
    """The example of the family's docstring."""

    def check(self) -> None:
        pass

    def fit(self, context: RoundContext) -> Hop:
        return PolynomialHop(powers=(2,), coefficients=(1.0,))


@pytest.mark.parametrize("family", [Aggregation, Hop])
def test_families_are_abstract(family: type) -> None:
    with pytest.raises(TypeError, match="abstract"):
        family()


def test_an_aggregation_of_ones_own_needs_two_methods() -> None:
    check_aggregation(TwoHops())
    graph, y = two_blocks(20)
    context = make_round(graph, y, np.arange(8))
    hop, X = TwoHops().step(context)
    P = context.inputs.P
    torch.testing.assert_close(X.dense(), P(P(context.X.dense())))
    assert hop.state() == {}
    assert TwoHops().hypothesis_space() is None  # no norm is known that bounds it
