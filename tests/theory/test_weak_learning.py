from __future__ import annotations

import math
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gbgnn.errors import ParameterError
from gbgnn.theory import WeakLearnings, weak_learning

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
    ("Z", "g"),
    [
        ([-1.0, 0.0], [1.0, 0.0]),
        ([0.0, 1.0], [1.0, 0.0]),
        ([0.0, 0.0], [1.0, 0.0]),
        ([1.0, 0.0], [0.0, 0.0]),
    ],
)
def test_opposite_orthogonal_and_zero_vectors_meet_nothing(Z: list[float], g: list[float]) -> None:
    quality = weak_learning(torch.tensor(Z), torch.tensor(g))
    assert not quality.is_met
    assert quality.at_step(0.5, 0.25) is None
    assert quality.alpha is quality.beta is quality.gamma is None
    assert math.isfinite(quality.cosine)


@settings(max_examples=2000)
@given(Z=VECTORS, g=VECTORS, share=st.floats(0, 1, exclude_max=True), smaller=st.booleans())
def test_every_member_of_the_family_lies_on_the_boundary(
    Z: np.ndarray, g: np.ndarray, share: float, smaller: bool
) -> None:
    quality = weak_learning(torch.tensor(Z), torch.tensor(g))
    if quality.cosine < 1e-3 or np.linalg.norm(g) < 1e-3:
        return
    ratio = quality.sine + share * (1 - quality.sine)
    if ratio >= 1 - 1e-9:
        return
    pair = quality.member(ratio, smaller=smaller)
    assert pair.alpha > pair.beta >= 0
    assert pair.beta == pytest.approx(ratio * pair.alpha)
    assert pair.gamma == pytest.approx(1 - ratio**2, abs=1e-12)
    distance, size = np.linalg.norm(Z - pair.alpha * g), pair.alpha * np.linalg.norm(g)
    assert distance == pytest.approx(pair.beta * np.linalg.norm(g), abs=1e-6 * size)
    assert pair.gamma <= quality.gamma + 1e-9


def test_the_two_branches_meet_at_the_sine() -> None:
    quality = weak_learning(torch.tensor([3.0, 4.0]), torch.tensor([2.0, 0.0]))
    low, high = quality.member(quality.sine, smaller=True), quality.member(quality.sine)
    assert low.alpha == pytest.approx(high.alpha) == pytest.approx(quality.alpha)
    assert quality.member(0.95, smaller=True).alpha < quality.alpha < quality.member(0.95).alpha


def test_ratios_outside_the_family_are_refused() -> None:
    quality = weak_learning(torch.tensor([3.0, 4.0]), torch.tensor([2.0, 0.0]))  # sine 0.8
    for ratio in (0.64, 0.7, 1.0, math.nan):  # 0.64 is the square of the sine
        with pytest.raises(ParameterError, match=r"ratio must be in \[sine, 1\) = \[0.8, 1\); got"):
            quality.member(ratio)
    with pytest.raises(ParameterError, match="not met .cosine -1., so no alpha > beta fits"):
        weak_learning(torch.tensor([-1.0]), torch.tensor([1.0])).member(0.5)


@settings(max_examples=1000)
@given(Z=VECTORS, g=VECTORS, share=st.floats(0.01, 3), smoothness=st.sampled_from([0.25, 0.5, 2.0]))
def test_a_step_of_any_length_is_the_own_step_of_its_member(
    Z: np.ndarray, g: np.ndarray, share: float, smoothness: float
) -> None:
    quality = weak_learning(torch.tensor(Z), torch.tensor(g))
    if quality.cosine < 1e-3 or np.linalg.norm(g) < 1e-3:
        return
    eta = share / (smoothness * quality.alpha)
    pair = quality.at_step(eta, smoothness)
    if abs(share - 2) < 1e-9:  # the boundary itself is a matter of rounding
        return
    assert (pair is not None) == (share < 2)
    if pair is None:
        return
    assert eta == pytest.approx(1 / (smoothness * pair.alpha))
    assert pair.gamma == pytest.approx(share * (2 - share) * quality.cosine**2)
    ratio = max(quality.sine, math.sqrt(max(0.0, 1 - pair.gamma)))
    same = quality.member(ratio, smaller=share > 1)
    assert pair.alpha == pytest.approx(same.alpha, rel=1e-3)
    size = pair.alpha * np.linalg.norm(g)
    assert np.linalg.norm(Z - pair.alpha * g) == pytest.approx(pair.beta * np.linalg.norm(g), abs=1e-5 * size)


@settings(max_examples=1000)
@given(signs=arrays(bool, 6), g=VECTORS, size=st.floats(0.01, 10))
def test_edge_is_adaboosts_and_at_least_the_cosine(signs: np.ndarray, g: np.ndarray, size: float) -> None:
    Z = np.where(signs, 1.0, -1.0)
    quality = weak_learning(torch.tensor(size * Z), torch.tensor(g))
    if not np.abs(g).sum() > 1e-3:
        return
    weights = np.abs(g) / np.abs(g).sum()
    error = weights[np.sign(g) != Z].sum()
    assert quality.edge == pytest.approx(1 - 2 * error, abs=1e-9)
    assert abs(quality.edge) >= abs(quality.cosine) - 1e-9
    if abs(quality.cosine) > 1e-12:  # else rounding decides
        assert (quality.edge > 0) == (quality.inner > 0)  # the third form of the condition


def test_only_signs_have_an_edge() -> None:
    assert weak_learning(torch.tensor([1.0, -0.5]), torch.tensor([1.0, 1.0])).edge is None
    assert weak_learning(torch.tensor([0.0, 0.0]), torch.tensor([1.0, 1.0])).edge is None
    assert weak_learning(torch.tensor([1.0, -1.0]), torch.tensor([0.0, 0.0])).edge is None


def test_weights_are_those_of_inner_products() -> None:
    Z, g, w = torch.tensor([[1.0, 2.0], [3.0, -1.0]]), torch.tensor([[2.0, 0.0], [1.0, 1.0]]), [0.5, 3.0]
    scale = torch.tensor(w).sqrt()[:, None]
    weighted, scaled = weak_learning(Z, g, torch.tensor(w)), weak_learning(Z * scale, g * scale)
    assert weighted.inner == pytest.approx(scaled.inner)
    assert weighted.cosine == pytest.approx(scaled.cosine)
    assert weighted.alpha == pytest.approx(scaled.alpha)


def test_shapes_must_agree() -> None:
    with pytest.raises(ParameterError, match=r"direction has shape .2,., but gradient has shape .3,."):
        weak_learning(torch.zeros(2), torch.zeros(3))


def test_tiny_and_huge_vectors_keep_their_angle() -> None:
    for scale in (1e-150, 1e150):
        Z, g = torch.tensor([3.0, 4.0]).double() * scale, torch.tensor([2.0, 0.0]).double() * scale
        quality = weak_learning(Z, g)
        assert quality.cosine == pytest.approx(0.6)
        assert quality.alpha == pytest.approx(25 / 6)


def test_arrays_lists_and_tensors_are_the_same() -> None:
    Z, g, w = np.array([[3, 4], [1, 0]]), np.array([[1.0, 0.0], [0.5, 1.0]]), np.array([0.25, 0.75])
    wanted = weak_learning(torch.tensor(Z), torch.tensor(g), torch.tensor(w))
    assert weak_learning(Z, g, w) == weak_learning(Z.tolist(), g.tolist(), w.tolist()) == wanted
    assert weak_learning(Z[::-1], g[::-1], w[::-1]).cosine == pytest.approx(wanted.cosine)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["a"], [1.0]), "direction must be an array of numbers; got list"),
        (([1.0], [1j]), "gradient must be real numbers; got torch.complex128"),
        (([1.0, 2.0], [1.0]), r"direction has shape \(2,\), but gradient has shape \(1,\)"),
        ((1.0, 2.0), r"direction needs a row per labelled node.*got shape \(\)"),
        (([1.0], [1.0], [1.0, 2.0]), r"got shape \(1,\) and weights of shape \(2,\)"),
    ],
)
def test_what_is_no_direction_is_named(arguments: tuple, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        weak_learning(*arguments)


def test_what_was_found_cannot_be_changed() -> None:
    quality = weak_learning(torch.tensor([2.0, 1.0]), torch.tensor([1.0, 1.0]))
    for found in (quality, quality.member(0.9)):
        with pytest.raises(FrozenInstanceError):
            found.alpha = 0.0


def test_many_are_measured_as_each_alone() -> None:
    random = torch.Generator().manual_seed(0)
    Z, g = (torch.randn(2, 5, 3, generator=random, dtype=torch.float64) for _ in range(2))
    found = WeakLearnings.measure(Z, g)
    for i in range(2):
        assert found[i].cosine == pytest.approx(weak_learning(Z[i], g[i]).cosine)
        assert found[i].gradient_norm == pytest.approx(float(g[i].norm()))


def test_a_step_that_goes_the_wrong_way_belongs_to_no_pair() -> None:
    opposite, good = (weak_learning(torch.tensor([z]), torch.tensor([1.0])) for z in (-1.0, 1.0))
    for eta in (0.01, 1.0, 100.0):
        assert opposite.at_step(eta, 0.25) is None
    assert good.at_step(0.0, 0.25) is None
