from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import chebyshev as reference
from scipy.fft import dct

from gbgnn.aggregation import Adjacency, Identity, InputInjection, Lazy, PolynomialHop
from gbgnn.aggregation.polynomial import FixedAggregation, mix_members
from gbgnn.problem import NodeInputs
from gbgnn.propagation import (
    DenseRows,
    Interval,
    MemberRows,
    PolynomialRows,
    Propagator,
    chebyshev_terms,
    join_members,
    spectral_interval,
)
from gbgnn.propagation.polynomial import (
    Basis,
    ChebyshevBasis,
    PowerBasis,
    TermRows,
    coefficients,
    n_needed,
    nodes,
    powers,
)
from gbgnn.testing import make_problem, two_blocks


@settings(max_examples=30)
@given(
    st.lists(st.floats(-5, 5), min_size=1, max_size=30),
    st.floats(-2, 2),
    st.floats(0.1, 3),
)
def test_values_at_the_nodes_give_the_coefficients_back(c: list[float], centre: float, radius: float) -> None:
    at = nodes(len(c) - 1, Interval(centre, radius))
    values = torch.tensor(reference.chebval((at.numpy() - centre) / radius, c))
    np.testing.assert_allclose(coefficients(values[None])[0].numpy(), c, atol=1e-12)


def test_coefficients_are_a_cosine_transform_with_its_gradient() -> None:
    values = torch.randn(3, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    wanted = dct(values.numpy(), type=2, axis=1) / 12
    wanted[:, 0] /= 2
    np.testing.assert_allclose(coefficients(values).numpy(), wanted, atol=1e-14)
    assert torch.autograd.gradcheck(coefficients, values.requires_grad_())


@pytest.mark.parametrize("n_terms", [1, 2, 3, 9])
def test_terms_are_chebyshev_polynomials_of_the_matrix_and_leave_the_input_alone(n_terms: int) -> None:
    random = np.random.default_rng(0)
    S = random.normal(size=(6, 6))
    S = S + S.T
    values, vectors = np.linalg.eigh(S)
    interval = Interval.around(values[0], values[-1])
    X = random.normal(size=(6, 2))
    features = torch.tensor(X)
    P = Propagator(sp.csr_array(S), dtype=torch.float64)
    terms = [term.clone() for term in chebyshev_terms(P, features, n_terms, interval)]
    assert len(terms) == n_terms
    assert np.array_equal(features.numpy(), X)
    scaled = (values - interval.centre) / interval.radius
    for k, term in enumerate(terms):
        T_k = vectors * reference.chebval(scaled, np.eye(n_terms)[k]) @ vectors.T
        np.testing.assert_allclose(term.numpy(), T_k @ X, atol=1e-11)
        assert float(term.norm()) <= np.linalg.norm(X) * (1 + 1e-12)


def test_terms_that_matter_are_counted_by_the_worst_row() -> None:
    c = torch.tensor([[1.0, 1e-3, 1e-9, 0.0], [1e-6, 0.0, 1e-10, 0.0]])
    assert n_needed(c, 1e-2) == 1
    assert n_needed(c, 1e-5) == 3
    assert n_needed(torch.zeros(1, 3), 1e-5) == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("exponents", [(0,), (1,), (0, 1, 2, 4, 8), (3,), (2, 3), ()])
def test_powers_are_those_of_the_matrix_and_leave_the_input_alone(
    exponents: tuple[int, ...], dtype: torch.dtype
) -> None:
    random = np.random.default_rng(0)
    A = random.normal(size=(7, 7)) / 4
    X = torch.tensor(random.normal(size=(7, 3)), dtype=dtype)
    before = X.clone()
    terms = [term.clone() for term in powers(Propagator(sp.csr_array(A), dtype=dtype), X, exponents)]
    assert torch.equal(X, before)
    assert len(terms) == len(exponents)
    for exponent, term in zip(exponents, terms, strict=True):
        expected = np.linalg.matrix_power(A, exponent) @ before.double().numpy()
        np.testing.assert_allclose(term, expected, atol=1e-5 if dtype == torch.float32 else 1e-13)


def test_powers_take_turns_in_two_buffers() -> None:
    P = Propagator(sp.csr_array(np.eye(3) / 2))
    X = torch.ones(3, 2)
    places = {term.data_ptr() for term in powers(P, X, range(1, 9))}
    assert len(places) == 2
    assert X.data_ptr() not in places


INPUTS = make_problem(*two_blocks(30), np.arange(8)).inputs
NODES = torch.tensor([4, 0, 29, 7, 4])
DEGREE = 24


def make_basis(kind: str, degree: int = DEGREE, inputs: NodeInputs = INPUTS) -> Basis:
    if kind == "powers":
        return PowerBasis.build(inputs.P, inputs.features, NODES)
    interval = spectral_interval(inputs.P)
    assert interval is not None
    terms = chebyshev_terms(inputs.P, inputs.features.dense(), degree + 1, interval)
    return ChebyshevBasis(TermRows(terms, NODES), interval, degree)


def make_rows(kind: str) -> PolynomialRows:
    basis = make_basis(kind)
    return PolynomialRows(basis, basis.one)


def apply(hops: Sequence[PolynomialHop]) -> torch.Tensor:
    """The rows after hops of the representation of all nodes."""
    X = INPUTS.features
    for hop in hops:
        X = hop(X, INPUTS)
    return X.dense()[NODES]


def test_terms_are_kept_and_the_same_however_often_they_are_asked_for() -> None:
    terms = make_basis("powers").terms
    few = terms.first(2).clone()
    many = terms.first(9)
    assert many.shape == (9, 5, 5)
    assert torch.equal(many[:2], few)
    assert torch.equal(terms.first(9), many)
    X, P = INPUTS.features.dense(), INPUTS.P
    assert torch.equal(many[0], X[NODES])
    assert torch.equal(many[3], P(P(P(X)))[NODES])


def test_terms_are_computed_once_and_no_earlier_than_needed() -> None:
    asked: list[int] = []

    def stream() -> Iterator[torch.Tensor]:
        for k in range(100):
            asked.append(k)
            yield torch.full((2, 1), float(k))

    terms = TermRows(stream(), torch.tensor([1]))
    assert terms.first(3).flatten().tolist() == [0, 1, 2]
    terms.first(2)
    assert terms.first(4).flatten().tolist() == [0, 1, 2, 3]
    assert asked == [0, 1, 2, 3]


def test_rows_of_chebyshev_terms_are_those_of_the_recurrence() -> None:
    terms = chebyshev_terms(INPUTS.P, INPUTS.features.dense(), 6, spectral_interval(INPUTS.P))
    expected = torch.stack([term[NODES] for term in terms])
    torch.testing.assert_close(make_basis("chebyshev").terms.first(6), expected)


@pytest.mark.parametrize("kind", ["powers", "chebyshev"])
@pytest.mark.parametrize("aggregation", [Adjacency(), Identity()])
def test_rows_that_all_members_share_are_those_of_the_hops(kind: str, aggregation: FixedAggregation) -> None:
    X, hop = make_rows(kind), aggregation.hop()
    for t in range(6):
        expected = apply([hop] * t)
        assert X.is_shared
        assert X.member(3) is X.members([1, 2]) is X
        torch.testing.assert_close(X.dense(), expected, rtol=1e-12, atol=1e-14)
        if kind == "powers":  # a power of P is looked up, nothing is summed
            assert torch.equal(X.dense(), expected)
        X = mix_members(X, [hop, hop])


@pytest.mark.parametrize("kind", ["powers", "chebyshev"])
@pytest.mark.parametrize("part", [InputInjection, Lazy])
@pytest.mark.parametrize("mixing", [(0.0, 1.0), (0.3, 0.85)])
def test_rows_of_members_are_those_of_their_hops(
    kind: str, part: type[FixedAggregation], mixing: tuple[float, float]
) -> None:
    hops = [part(mixing=each).hop() for each in mixing]
    X = make_rows(kind)
    for t in range(1, 7):
        X = mix_members(X, hops)
        assert not X.is_shared
        for i in (0, 1):
            expected = apply([hops[i]] * t)
            for mine in (X.dense()[i], X.member(i).dense(), X.members([1, i]).dense()[1]):
                torch.testing.assert_close(mine, expected, rtol=1e-12, atol=1e-13)


def test_members_that_go_the_same_way_share_their_rows_and_one_that_is_left_needs_no_axis() -> None:
    same, other = Lazy(mixing=0.3).hop(), Lazy(mixing=0.4).hop()
    X = make_rows("powers")
    assert mix_members(X, [same, same]).is_shared
    apart = mix_members(X, [same, other])
    assert not mix_members(apart, [same, same]).is_shared  # they came by other ways
    left = mix_members(apart.members([1]), [same])
    assert left.is_shared
    torch.testing.assert_close(left.dense(), apply([other, same]))


def test_coefficients_of_any_sign_and_size_lose_no_digits() -> None:
    """As kernel target alignment learns them; sums of powers of P would cancel."""
    random = np.random.default_rng(0)
    exponents = (0, 1, 2, 4)
    hops = [[PolynomialHop(exponents, tuple(random.normal(size=4))) for _ in range(6)] for _ in range(3)]
    X = make_rows("chebyshev")
    for t in range(6):
        X = mix_members(X, [own[t] for own in hops])
    for i, own in enumerate(hops):
        expected = apply(own)
        atol = 1e-12 * float(expected.abs().max())
        torch.testing.assert_close(X.member(i).dense(), expected, rtol=0, atol=atol)
    torch.testing.assert_close(X.dense(), torch.stack([X.member(i).dense() for i in range(3)]))


@pytest.mark.parametrize("kind", ["powers", "chebyshev"])
def test_a_hop_of_one_member_takes_its_rows(kind: str) -> None:
    hop = PolynomialHop((0, 3), (0.25, 0.5), injection=0.125)
    X = make_rows(kind)
    assert PolynomialHop((0,), (1.0,))(X, INPUTS) is X
    torch.testing.assert_close(hop(hop(X, INPUTS), INPUTS).dense(), apply([hop, hop]))


@pytest.mark.parametrize("kind", ["powers", "chebyshev"])
@pytest.mark.parametrize("is_shared", [True, False])
def test_rows_of_powers_are_those_of_every_power(kind: str, is_shared: bool) -> None:
    hops = [Lazy(mixing=0.3).hop(), Lazy(mixing=0.3 if is_shared else 0.9).hop()]
    X, exponents, ids = mix_members(make_rows(kind), hops), (0, 1, 4), torch.tensor([2, 0])
    found = X.power_rows(exponents, ids)
    assert found.shape == (3, 2, 5) if is_shared else (2, 3, 2, 5)
    for i, hop in enumerate(hops):
        for k, exponent in enumerate(exponents):
            mine = found[k] if is_shared else found[i, k]
            torch.testing.assert_close(mine, apply([hop, PolynomialHop((exponent,), (1.0,))])[ids])


@pytest.mark.parametrize("is_shared", [True, False])
def test_rows_are_reached_by_place_in_blocks_and_added(is_shared: bool) -> None:
    hops = [Lazy(mixing=0.3).hop(), Lazy(mixing=0.3 if is_shared else 0.9).hop()]
    X = mix_members(make_rows("powers"), hops)
    whole, ids = X.dense(), torch.tensor([3, 0, 3])
    assert (X.shape, X.dtype, X.device.type, X.nbytes) == ((5, 5), torch.float64, "cpu", 200)
    torch.testing.assert_close(X.rows(ids), whole[..., ids, :])
    for n_bytes, n_blocks in ((1, 5), (80, 3), (10**6, 1)):
        blocks = list(X.blocks(n_bytes))
        assert len(blocks) == n_blocks
        torch.testing.assert_close(torch.cat(blocks, dim=-2), whole)
    result = torch.ones_like(whole)
    assert X.add_to_(result, alpha=-2.0) is result
    torch.testing.assert_close(result, 1 - 2 * whole)


def test_only_terms_that_matter_in_the_precision_of_the_rows_are_computed() -> None:
    """A hop that all but stays where it is needs few terms, however many rounds there may be."""
    inputs = make_problem(*two_blocks(30), np.arange(8), dtype=torch.float32).inputs
    basis = make_basis("chebyshev", 400, inputs)
    X = PolynomialRows(basis, basis.one).mixed((0, 1), torch.tensor([1.0, 1e-3]))
    torch.testing.assert_close(X.dense(), apply([PolynomialHop((0, 1), (1.0, 1e-3))]).float())
    assert basis.terms._n_known == 2


def test_members_with_one_representation_share_it_and_others_have_each_their_own() -> None:
    X, Z = DenseRows(torch.ones(3, 2)), DenseRows(torch.zeros(3, 2))
    assert join_members([X, X]) is X
    joined = join_members([X, Z])
    assert isinstance(joined, MemberRows)
    assert [joined.member(i) for i in (0, 1)] == [X, Z]
    polynomials = [make_rows("powers").mixed((1,), torch.tensor([1.0])) for _ in range(2)]
    torch.testing.assert_close(
        join_members(polynomials).dense(), torch.stack([each.dense() for each in polynomials])
    )
