from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gbgnn.aggregation import IDENTITY, Adjacency, InputInjection, Lazy, PolynomialHop
from gbgnn.finetuning.representations import ChebyshevHops, HopScalars
from gbgnn.propagation import DenseRows, Interval

KTA = PolynomialHop((0, 1, 2, 4), (0.3, -0.1, 0.5, 0.2), alignment=0.8, free="coefficients")


@given(st.floats(0, 1))
def test_share_of_injection_and_lazy_is_free_and_comes_back(mixing: float) -> None:
    for aggregation in (InputInjection, Lazy):
        hop = aggregation(mixing=mixing).hop()
        scalars = HopScalars(hop)
        assert scalars.hop.free == "share"
        assert scalars.initial.tolist() == [mixing]
        again = scalars.rebuild(scalars.initial)
        np.testing.assert_allclose(again.coefficients, hop.coefficients, atol=1e-15)
        assert again.injection == pytest.approx(hop.injection, abs=1e-15)
        other = aggregation(mixing=0.25).hop()
        assert scalars.rebuild(torch.tensor([0.25], dtype=torch.float64)) == other


def test_learned_coefficients_are_free_and_moved_ones_have_no_alignment() -> None:
    scalars = HopScalars(KTA)
    moved = scalars.rebuild(2 * scalars.initial)
    assert moved == replace(KTA, coefficients=tuple(2 * c for c in KTA.coefficients), alignment=None)
    assert scalars.hop.free != "share"


@given(st.sampled_from(["coefficients", "share"]), st.floats(-2, 2), st.floats(-2, 2), st.floats(-2, 2))
def test_whatever_is_free_starts_where_the_hop_is(free: str, low: float, high: float, iota: float) -> None:
    for hop in (
        PolynomialHop((3,), (high,), iota, free=free),
        PolynomialHop((0, 3), (low, high), iota, free=free),
    ):
        scalars = HopScalars(hop)
        np.testing.assert_allclose(
            scalars.coefficients(scalars.initial), [*hop.coefficients, hop.injection], rtol=1e-15, atol=1e-15
        )


@pytest.mark.parametrize(
    "hop", [KTA, Lazy().hop(), InputInjection().hop(), InputInjection(mixing=1.0).hop()], ids=str
)
def test_moved_hop_is_free_to_move_again(hop: PolynomialHop) -> None:
    scalars = HopScalars(hop)
    moved = scalars.rebuild(scalars.initial / 2)
    assert moved.free == hop.free
    torch.testing.assert_close(HopScalars(moved).initial, scalars.initial / 2)


@pytest.mark.parametrize(
    "hop",
    [
        IDENTITY,
        Adjacency().hop(),
        PolynomialHop((0, 1), (0.5, 0.5)),
        PolynomialHop((0, 1), (1, 2), alignment=1),
    ],
    ids=str,
)
def test_other_hops_have_nothing_free_and_stay_the_same_object(hop: PolynomialHop) -> None:
    scalars = HopScalars(hop)
    assert len(scalars.initial) == 0
    assert scalars.rebuild(scalars.initial) is hop


@settings(max_examples=20)
@given(st.lists(st.sampled_from(["kta", "lazy", "injection", "adjacency"]), max_size=12), st.floats(0.3, 2))
def test_polynomials_are_the_hops_one_after_the_other(kinds: list[str], radius: float) -> None:
    hops = {
        "kta": KTA,
        "lazy": Lazy().hop(),
        "injection": InputInjection().hop(),
        "adjacency": Adjacency().hop(),
    }
    chain = [HopScalars(hop) for hop in (IDENTITY, *(hops[kind] for kind in kinds))]
    interval = Interval(0.1, radius)
    hops = ChebyshevHops(chain, interval, like=DenseRows(torch.ones(1, 1).double()))
    c = hops.coefficients(n_terms=100).detach()
    x = np.linspace(0.1 - radius, 0.1 + radius, 7)
    q = np.ones_like(x)
    for scalars, row in zip(chain, c.numpy(), strict=True):
        hop = scalars.hop
        q = sum(w * x**p for w, p in zip(hop.coefficients, hop.powers, strict=True)) * q + hop.injection
        got = np.polynomial.chebyshev.chebval((x - 0.1) / radius, row)
        np.testing.assert_allclose(got, q, rtol=1e-10, atol=1e-12 * abs(row).sum())
