from __future__ import annotations

import numpy as np
import pytest
import torch

from gbgnn.aggregation import IDENTITY, Adjacency, InputInjection, Lazy, MixingHop, PolynomialHop
from gbgnn.finetuning.representations import (
    BackpropHops,
    ChebyshevHops,
    FineTunedHops,
    FixedHops,
    HopScalars,
    make_differentiable,
)
from gbgnn.problem import Problem

HOPS = [
    IDENTITY,
    InputInjection(mixing=0.6).hop(),
    PolynomialHop((0, 1, 2), (0.5, -0.2, 0.9), free="coefficients"),
    Adjacency().hop(),
]


def representations(hops: FineTunedHops, problem: Problem, rows: torch.Tensor) -> torch.Tensor:
    terms = torch.stack([term[rows].clone() for term in hops.stream(problem.inputs, hops.n_terms())])
    return hops.mix(hops.coefficients(len(terms)), terms, rows, 2)


def gradients(
    hops: FineTunedHops, problem: Problem, rows: torch.Tensor, G: torch.Tensor
) -> list[torch.Tensor]:
    for part in (slice(0, 2), slice(2, 5)):
        X = representations(hops, problem, rows[part])
        if X.requires_grad:
            X.backward(G[:, part])
    return [theta.grad for theta in hops.thetas if len(theta)]


def assert_same_gradients(chebyshev: FineTunedHops, backprop: FineTunedHops, problem: Problem) -> None:
    rows = torch.tensor([3, 9, 27, 11, 0])
    G = torch.tensor(np.random.default_rng(0).normal(size=(len(backprop.thetas), 5, 5)))
    ours, theirs = (gradients(hops, problem, rows, G) for hops in (chebyshev, backprop))
    assert all(float(gradient.norm()) > 0 for gradient in theirs)
    torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-12)


def test_chebyshev_and_back_propagation_agree_with_each_other_and_with_the_hops(
    three_classes: Problem,
) -> None:
    rows = torch.tensor([3, 9, 27, 11, 0])
    chebyshev = make_differentiable(HOPS, three_classes.inputs)
    backprop = BackpropHops([HopScalars(hop) for hop in HOPS], three_classes.inputs)
    assert isinstance(chebyshev, ChebyshevHops)
    for move in (0.0, 0.1):
        for hops in (chebyshev, backprop):
            with torch.no_grad():
                hops.thetas[1].add_(move)
                hops.thetas[2].sub_(move)
        wanted, X = [], three_classes.inputs.features
        for hop in backprop.hops():
            X = hop(X, three_classes.inputs)
            wanted.append(X.rows(rows))
        for hops in (chebyshev, backprop):
            got = representations(hops, three_classes, rows)
            torch.testing.assert_close(got, torch.stack(wanted), rtol=1e-12, atol=1e-13)
    assert_same_gradients(chebyshev, backprop, three_classes)


@pytest.mark.parametrize(
    "hop",
    [
        InputInjection(mixing=0.0).hop(),
        InputInjection(mixing=1.0).hop(),
        Lazy(mixing=0.0).hop(),
        Lazy(mixing=1.0).hop(),
        PolynomialHop((0, 2, 16), (1.0, 0.0, 0.0), free="coefficients"),
        PolynomialHop((2, 3), (0.6, 0.4), injection=0.5, free="share"),
    ],
    ids=str,
)
def test_parameters_at_zero_and_at_one_have_their_gradients_too(
    hop: PolynomialHop, three_classes: Problem
) -> None:
    hops = [IDENTITY, *[hop] * 5]
    chebyshev = make_differentiable(hops, three_classes.inputs)
    assert isinstance(chebyshev, ChebyshevHops)
    backprop = BackpropHops([HopScalars(hop) for hop in hops], three_classes.inputs)
    assert_same_gradients(chebyshev, backprop, three_classes)


def test_nothing_moves_beside_a_hop_that_mixes_columns(three_classes: Problem) -> None:
    mixing = MixingHop.from_weight(torch.eye(5).double(), True, 0.5)
    tuned = make_differentiable([*HOPS, mixing], three_classes.inputs)
    assert isinstance(tuned, FixedHops)
    assert tuned.hops() == [*HOPS, mixing]
    assert gradients(tuned, three_classes, torch.arange(5), torch.zeros(5, 5, 5)) == []
    assert not tuned.needs_other_terms(5)
    tuned.project()


@pytest.mark.parametrize("kind", [ChebyshevHops, BackpropHops])
def test_hops_as_boosted_come_back_until_they_move(three_classes: Problem, kind: type) -> None:
    tuned = make_differentiable(HOPS, three_classes.inputs)
    if kind is BackpropHops:
        tuned = BackpropHops(tuned.scalars, three_classes.inputs)
    before, boosted = tuned.hops(), [HOPS[0], HOPS[1], HOPS[2], HOPS[3]]
    for ours, theirs in zip(before, boosted, strict=True):
        np.testing.assert_allclose(ours.coefficients, theirs.coefficients, rtol=1e-15)
        assert ours.injection == pytest.approx(theirs.injection, rel=1e-15)
    with torch.no_grad():
        tuned.thetas[1].add_(7)
    tuned.project()
    assert tuned.hops()[1] == InputInjection(mixing=1.0).hop()
