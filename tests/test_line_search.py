from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gbgnn._line_search import find_step


@settings(max_examples=50)
@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=5), st.floats(1e-8, 1e8))
def test_the_minimum_of_parabolas_is_found_from_any_guess(minima: list[float], guess: float) -> None:
    goals = torch.tensor(minima, dtype=torch.float64)
    found = find_step(lambda eta: eta - goals, torch.full_like(goals, guess))
    np.testing.assert_allclose(found, goals, rtol=2e-3, atol=1e-10 * guess)


def test_the_weighted_median_is_the_step_along_a_constant() -> None:
    """Sum of |eta - y| is least at the median."""
    y = torch.tensor([1.0, 2.0, 5.0, 40.0, 100.0], dtype=torch.float64)
    found = find_step(lambda eta: (eta[:, None] - y).sign().sum(dim=-1), torch.ones(1, dtype=torch.float64))
    assert float(found) == pytest.approx(5.0)


def test_a_function_that_does_not_fall_gets_no_step_and_one_that_always_falls_an_end() -> None:
    guess = torch.ones(1, dtype=torch.float64)
    assert find_step(lambda eta: eta, guess).tolist() == [0.0]
    decays = find_step(lambda eta: -torch.exp(-eta), guess)
    assert float(decays) == pytest.approx(math.log(1000), rel=1e-6)
    assert math.isfinite(float(find_step(lambda eta: -torch.ones_like(eta), guess)))
