from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import chebyshev as reference
from scipy.fft import dct

from gbgnn.propagation import Interval, Propagator
from gbgnn.propagation.polynomial import chebyshev_terms, coefficients, n_needed, nodes, powers


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
