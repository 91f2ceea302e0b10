from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gbgnn.theory.kernels import relu_kernel, separate_rows


def rows(n: int, n_features: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(n, n_features, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize("n_features", [1, 3, 20])
def test_kernel_equals_its_definition_by_monte_carlo(n_features: int) -> None:
    X = rows(6, n_features) * torch.tensor([1e-3, 1.0, 2.0, 5.0, 1.0, 0.0])[:, None].double()
    n_draws = 200_000
    is_on = (rows(n_draws, n_features, seed=1) @ X.t() >= 0).double()
    sampled = (X @ X.t()) * (is_on.t() @ is_on) / n_draws
    scale = X.norm(dim=1, keepdim=True) * X.norm(dim=1)
    assert ((sampled - relu_kernel(X)).abs() <= 5 / math.sqrt(n_draws) * scale).all()


@settings(max_examples=100)
@given(arrays(np.float64, (5, 3), elements=st.floats(-10, 10)), st.sampled_from([1e-100, 1e-3, 1.0, 1e100]))
def test_kernel_is_symmetric_positive_and_homogeneous(X: np.ndarray, factor: float) -> None:
    H = relu_kernel(torch.tensor(X))
    torch.testing.assert_close(H, H.t(), rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(H.diagonal(), (X**2).sum(axis=1) / 2, rtol=1e-12, atol=1e-300)
    assert torch.linalg.eigvalsh(H)[0] >= -1e-6 * H.diagonal().max()
    if np.abs(X).max() > 1e-3:
        unit = relu_kernel(torch.tensor(X) * factor) / factor / factor
        torch.testing.assert_close(unit, H, rtol=1e-6, atol=1e-9)


def test_two_rows_by_hand() -> None:
    """Angle 60 degrees: H = x.y / 3, eigenvalues 1/2 +- 1/6."""
    X = torch.tensor([[1.0, 0.0], [0.5, math.sqrt(0.75)]], dtype=torch.float64)
    torch.testing.assert_close(
        relu_kernel(X), torch.tensor([[1 / 2, 1 / 6], [1 / 6, 1 / 2]], dtype=torch.float64)
    )
    found = separate_rows(X, torch.arange(2))
    assert found.smallest_eigenvalue == pytest.approx(1 / 3)
    assert found.is_separated


@settings(max_examples=60)
@given(
    st.integers(2, 6),
    st.sampled_from([1e-6, 0.3, 3.0, 7e4]),
    st.sampled_from([torch.float32, torch.float64]),
    st.integers(0, 10**6),
)
def test_parallel_rows_are_found_in_any_type(n: int, factor: float, dtype: torch.dtype, seed: int) -> None:
    X = rows(n + 1, 8, seed, dtype)
    X[n] = factor * X[0]
    found = separate_rows(X, 100 + torch.arange(n + 1))
    assert found.parallel_rows == [[100, 100 + n]]
    assert (found.n_parallel_pairs, found.n_zero_rows, found.is_separated) == (1, 0, False)
    assert found.smallest_eigenvalue <= 1e-12 * float(X.double().square().sum())


def test_opposite_rows_are_parallel_though_the_kernel_tells_them_apart() -> None:
    found = separate_rows(torch.tensor([[1.0, 2.0], [-2.0, -4.0]]), torch.tensor([3, 5]))
    assert found.parallel_rows == [[3, 5]]
    assert found.smallest_eigenvalue == pytest.approx(2.5)


def test_nearly_parallel_rows_are_not_named() -> None:
    X = torch.tensor([[1.0, 0.0], [1.0, 1e-5]], dtype=torch.float64)
    found = separate_rows(X, torch.arange(2))
    assert found.is_separated
    assert found.smallest_eigenvalue == pytest.approx(1e-5 / (2 * math.pi), rel=1e-3)


def test_zero_rows_are_named_and_parallel_to_nothing() -> None:
    X = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    found = separate_rows(X, torch.tensor([4, 6, 9]))
    assert (found.zero_rows, found.n_zero_rows, found.n_parallel_pairs) == ([4, 9], 2, 0)
    assert found.smallest_eigenvalue == 0
    assert not found.is_separated


def test_lists_are_short_and_counts_whole() -> None:
    found = separate_rows(torch.ones(30, 2), torch.arange(30))
    assert found.n_parallel_pairs == 30 * 29 // 2
    assert len(found.parallel_rows) == 20
    assert found.parallel_rows[:2] == [[0, 1], [0, 2]]
    assert len(separate_rows(torch.zeros(30, 2), torch.arange(30)).zero_rows) == 20


def test_too_many_rows_are_looked_at_for_zeros_only() -> None:
    X = torch.tensor([[1.0], [2.0], [0.0]])
    found = separate_rows(X, torch.arange(3), most_rows=2)
    assert (found.smallest_eigenvalue, found.parallel_rows, found.n_parallel_pairs) == (None, None, None)
    assert found.zero_rows == [2]
    assert found.note == "kernel and angles are not computed for more than 2 rows"
    assert not found.is_separated
    assert separate_rows(X[:2], torch.arange(2), most_rows=1).is_separated
