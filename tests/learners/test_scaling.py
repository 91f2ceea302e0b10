from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gbgnn.learners.scaling import largest_eigenvalue, norm


@settings(max_examples=50)
@given(arrays(np.float64, (4,), elements=st.floats(1e-3, 1)), st.sampled_from([1e-250, 1.0, -1e250]))
def test_norm_survives_any_unit(values: np.ndarray, unit: float) -> None:
    expected = math.sqrt(math.fsum(values**2)) * abs(unit)
    assert norm(torch.tensor(values) * unit) == pytest.approx(expected)


def test_norm_of_zeros_is_zero() -> None:
    assert norm(torch.zeros(3)) == 0


def test_single_precision_is_added_up_in_double() -> None:
    assert norm(torch.full((4,), 1e-30)) == pytest.approx(2e-30)


@settings(max_examples=30)
@given(st.integers(1, 12), st.integers(0, 10**6))
def test_power_iteration_comes_near_the_largest_eigenvalue_from_below(n: int, seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    A = torch.randn(n, n, generator=random, dtype=torch.float64)
    S, start = A @ A.t(), torch.randn(n, generator=random, dtype=torch.float64)
    true = float(torch.linalg.eigvalsh(S)[-1])
    found = largest_eigenvalue(S.matmul, start, n_steps=200)
    assert 0.9 * true <= found <= true * (1 + 1e-12)


def test_the_zero_operator_has_eigenvalue_zero() -> None:
    assert largest_eigenvalue(torch.zeros(2, 2).matmul, torch.ones(2), n_steps=5) == 0
