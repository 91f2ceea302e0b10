from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gbgnn.aggregation import IDENTITY, PolynomialHop
from gbgnn.finetuning.representations import backpropagate_hops
from gbgnn.problem import NodeInputs
from gbgnn.propagation import Propagator

HOPS = [
    IDENTITY,
    PolynomialHop((0, 1, 2), (0.3, 0.5, -0.4)),
    PolynomialHop((1,), (0.6,), injection=0.4),
    PolynomialHop((0, 3), (1.0, 0.2), injection=-0.1),
]


@settings(max_examples=10)
@given(st.integers(0, 1000), st.integers(1, 4))
def test_gradients_are_those_that_differences_find(seed: int, n_columns: int) -> None:
    random = np.random.default_rng(seed)
    P = Propagator(sp.csr_array(random.normal(size=(6, 6)) / 4), dtype=torch.float64)
    inputs = NodeInputs.from_tensor(torch.tensor(random.normal(size=(6, 3))), P)
    rows, gradients = torch.tensor([4, 1]), torch.tensor(random.normal(size=(len(HOPS), 2, 3)))

    def value(hops: list[PolynomialHop]) -> float:
        X, total = inputs.features, 0.0
        for hop, gradient in zip(hops, gradients, strict=True):
            X = hop(X, inputs)
            total += float((X.rows(rows) * gradient).sum())
        return total

    found = backpropagate_hops(HOPS, inputs, P.transpose(), rows, gradients, n_columns)
    step = 1e-6
    for t, hop in enumerate(HOPS):
        numbers = np.array([*hop.coefficients, hop.injection])
        for j in range(len(numbers)):
            ends = []
            for sign in (1, -1):
                moved = numbers + sign * step * np.eye(len(numbers))[j]
                other = replace(hop, coefficients=tuple(moved[:-1]), injection=moved[-1])
                ends.append(value([*HOPS[:t], other, *HOPS[t + 1 :]]))
            assert abs(float(found[t][j]) - (ends[0] - ends[1]) / (2 * step)) < 1e-6


def test_features_are_left_alone() -> None:
    P = Propagator(sp.csr_array([[0.0, 1.0], [0.5, 0.0]]), dtype=torch.float64)
    features = torch.tensor([[1.0], [2.0]]).double()
    inputs = NodeInputs.from_tensor(features, P)
    backpropagate_hops(HOPS, inputs, P.transpose(), torch.tensor([0]), torch.ones(4, 1, 1), 1)
    assert features.tolist() == [[1.0], [2.0]]
