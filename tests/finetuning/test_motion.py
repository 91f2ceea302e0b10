from __future__ import annotations

import numpy as np
import pytest
import torch

from gbgnn.aggregation import IDENTITY, Adjacency, InputInjection, Lazy, MixingHop, PolynomialHop
from gbgnn.finetuning.motion import ChebyshevHops, HopMotion, StillHops, SweptHops, motion_of
from gbgnn.finetuning.polynomials import scalars_of
from gbgnn.problem import Problem

HOPS = [
    IDENTITY,
    InputInjection(mixing=0.6).hop(),
    PolynomialHop((0, 1, 2), (0.5, -0.2, 0.9), free="coefficients"),
    Adjacency().hop(),
]


def representations(motion: HopMotion, problem: Problem, rows: torch.Tensor) -> torch.Tensor:
    terms = motion.terms()
    motion.begin(terms)
    return motion.mix(torch.stack([term[rows].clone() for term in terms.stream(problem.inputs)]))


def slopes(motion: HopMotion, problem: Problem, rows: torch.Tensor, G: torch.Tensor) -> list[torch.Tensor]:
    terms = motion.terms()
    motion.begin(terms)
    of_rows = torch.stack([term[rows].clone() for term in terms.stream(problem.inputs)])
    for part in (slice(0, 2), slice(2, 5)):
        motion.add_slope(G[:, part], of_rows[:, part], rows[part], 2)
    motion.finish()
    return [theta.grad for theta in motion.thetas if len(theta)]


def assert_same_slopes(chebyshev: HopMotion, swept: HopMotion, problem: Problem) -> None:
    rows = torch.tensor([3, 9, 27, 11, 0])
    G = torch.tensor(np.random.default_rng(0).normal(size=(len(swept.thetas), 5, 5)))
    ours, theirs = (slopes(motion, problem, rows, G) for motion in (chebyshev, swept))
    assert all(float(slope.norm()) > 0 for slope in theirs)
    torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-12)


def test_chebyshev_and_sweep_agree_with_each_other_and_with_the_hops(three_classes: Problem) -> None:
    rows = torch.tensor([3, 9, 27, 11, 0])
    chebyshev = motion_of(HOPS, three_classes.inputs)
    swept = SweptHops([scalars_of(hop) for hop in HOPS], three_classes.inputs)
    assert isinstance(chebyshev, ChebyshevHops)
    for move in (0.0, 0.1):
        for motion in (chebyshev, swept):
            with torch.no_grad():
                motion.thetas[1].add_(move)
                motion.thetas[2].sub_(move)
        wanted, X = [], three_classes.inputs.features
        for hop in swept.hops():
            X = hop(X, three_classes.inputs)
            wanted.append(X.rows(rows))
        for motion in (chebyshev, swept):
            got = representations(motion, three_classes, rows)
            torch.testing.assert_close(got, torch.stack(wanted), rtol=1e-12, atol=1e-13)
    assert_same_slopes(chebyshev, swept, three_classes)


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
def test_numbers_at_zero_and_at_one_have_their_slopes_too(hop: PolynomialHop, three_classes: Problem) -> None:
    hops = [IDENTITY, *[hop] * 5]
    chebyshev = motion_of(hops, three_classes.inputs)
    assert isinstance(chebyshev, ChebyshevHops)
    swept = SweptHops([scalars_of(hop) for hop in hops], three_classes.inputs)
    assert_same_slopes(chebyshev, swept, three_classes)


def test_nothing_moves_beside_a_hop_that_mixes_columns(three_classes: Problem) -> None:
    mixing = MixingHop.from_weight(torch.eye(5).double(), True, 0.5)
    motion = motion_of([*HOPS, mixing], three_classes.inputs)
    assert isinstance(motion, StillHops)
    assert motion.hops() == [*HOPS, mixing]
    assert slopes(motion, three_classes, torch.arange(5), torch.zeros(5, 5, 5)) == []
    assert not motion.needs_other_terms(motion.terms())
    motion.project()


@pytest.mark.parametrize("kind", [ChebyshevHops, SweptHops])
def test_hops_as_boosted_come_back_until_they_move(three_classes: Problem, kind: type) -> None:
    motion = motion_of(HOPS, three_classes.inputs)
    if kind is SweptHops:
        motion = SweptHops(motion.scalars, three_classes.inputs)
    before, boosted = motion.hops(), [HOPS[0], HOPS[1], HOPS[2], HOPS[3]]
    for ours, theirs in zip(before, boosted, strict=True):
        np.testing.assert_allclose(ours.coefficients, theirs.coefficients, rtol=1e-15)
        assert ours.injection == pytest.approx(theirs.injection, rel=1e-15)
    with torch.no_grad():
        motion.thetas[1].add_(7)
    motion.project()
    assert motion.hops()[1] == InputInjection(mixing=1.0).hop()
