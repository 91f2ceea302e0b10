from __future__ import annotations

from itertools import count

import numpy as np
import torch
from gbgnn.population.terms import TermRows

from gbgnn.propagation import powers
from gbgnn.testing import make_problem, two_blocks

PROBLEM = make_problem(*two_blocks(30), np.arange(8))


def test_powers_are_products_with_p() -> None:
    P, X = PROBLEM.inputs.P, PROBLEM.inputs.features.dense()
    before = X.clone()
    expected = X
    for _, term in zip(range(5), powers(P, X, count()), strict=False):
        assert torch.equal(term, expected)
        expected = P(expected)
    assert torch.equal(X, before)


def test_rows_are_kept_padded_and_the_same_however_often_they_are_asked_for() -> None:
    P, X = PROBLEM.inputs.P, PROBLEM.inputs.features.dense()
    nodes = torch.tensor([4, 0, 4])
    rows = TermRows(powers(P, X, count()), nodes, width=8)
    few = rows.first(2).clone()
    many = rows.first(9)
    assert many.shape == (9, 3, 8)
    assert torch.equal(many[:2], few)
    assert torch.equal(rows.first(9), many)
    assert torch.equal(many[3, :, :5], P(P(P(X)))[nodes])
    assert not many[..., 5:].any()


def test_terms_are_computed_once_and_no_earlier_than_needed() -> None:
    asked: list[int] = []

    def stream():
        for k in range(100):
            asked.append(k)
            yield torch.full((2, 1), float(k))

    rows = TermRows(stream(), torch.tensor([1]), width=1)
    assert rows.first(3).flatten().tolist() == [0, 1, 2]
    rows.first(2)
    assert rows.first(4).flatten().tolist() == [0, 1, 2, 3]
    assert asked == [0, 1, 2, 3]
