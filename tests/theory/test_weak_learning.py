from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gbgnn.theory import weak_learning

VECTORS = arrays(np.float64, 6, elements=st.floats(-100, 100, width=32))


@settings(max_examples=1000)
@given(Z=VECTORS, g=VECTORS)
def test_tightest_member_meets_the_condition_exactly(Z: np.ndarray, g: np.ndarray) -> None:
    quality = weak_learning(torch.tensor(Z), torch.tensor(g))
    assert quality.is_met == (quality.cosine > 0)
    if not quality.is_met or np.linalg.norm(g) < 1e-3 or quality.cosine < 1e-3:
        return
    left = np.linalg.norm(Z - quality.alpha * g)
    right = quality.beta * np.linalg.norm(g)
    scale = quality.alpha * np.linalg.norm(g)
    assert left <= right + 1e-6 * scale
    assert quality.alpha > quality.beta >= 0
    assert quality.gamma == pytest.approx((quality.alpha**2 - quality.beta**2) / quality.alpha**2, abs=1e-9)


@settings(max_examples=300)
@given(Z=VECTORS, g=VECTORS, alpha=st.floats(0.01, 100))
def test_no_other_alpha_is_tighter(Z: np.ndarray, g: np.ndarray, alpha: float) -> None:
    quality = weak_learning(torch.tensor(Z), torch.tensor(g))
    if not quality.is_met or np.linalg.norm(g) < 1e-3:
        return
    needed = np.linalg.norm(Z - alpha * g) / np.linalg.norm(g)  # the least beta for this alpha
    if needed < alpha:
        assert 1 - (needed / alpha) ** 2 <= quality.gamma + 1e-9


def test_hand_worked_case() -> None:
    quality = weak_learning(torch.tensor([3.0, 4.0]), torch.tensor([2.0, 0.0]))
    assert quality.cosine == pytest.approx(0.6)
    assert quality.alpha == pytest.approx(25 / 6)
    assert quality.beta == pytest.approx(25 / 6 * 0.8)
    assert quality.gamma == pytest.approx(0.36)


@pytest.mark.parametrize(
    ("Z", "g"), [([-1.0, 0.0], [1.0, 0.0]), ([0.0, 0.0], [1.0, 0.0]), ([1.0, 0.0], [0.0, 0.0])]
)
def test_opposite_and_zero_vectors_meet_nothing(Z: list[float], g: list[float]) -> None:
    quality = weak_learning(torch.tensor(Z), torch.tensor(g))
    assert not quality.is_met
    assert quality.alpha is quality.beta is quality.gamma is None
    assert math.isfinite(quality.cosine)
