from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy.optimize import minimize

from gbgnn._projections import project_columns

NUMBERS = st.floats(-1e3, 1e3) | st.sampled_from([0.0, -0.0, 1.0, 1e30, -1e30, 3e38, 5e-324, -1e-310, 1e-45])
MATRICES = arrays(np.float64, array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=12), elements=NUMBERS)
RADII = st.sampled_from([1e-12, 0.1, 1.0, 2.5, 1e6, 1e29]) | st.floats(1e-6, 1e6)


def projected(W: np.ndarray, radius: float, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    result = torch.tensor(W, dtype=dtype)
    project_columns(result, radius)
    return result


def is_in_ball(W: torch.Tensor, radius: float) -> bool:
    """Whatever the order in which the absolute values are added, or whether they are added exactly."""
    sizes = W.double().abs()
    orders = [sizes, sizes.flip(0), sizes.sort(dim=0).values, sizes.sort(dim=0, descending=True).values]
    sums = [order.sum(dim=0) for order in orders] + [order.cumsum(dim=0)[-1] for order in orders]
    exact = [math.fsum(column) for column in sizes.t().tolist()]
    return all(bool((s <= radius).all()) for s in sums) and all(s <= radius for s in exact)


@settings(max_examples=60)
@given(
    arrays(np.float64, st.integers(1, 5), elements=st.floats(-10, 10)),
    st.floats(0.05, 20),
)
def test_projection_solves_the_quadratic_program(v: np.ndarray, radius: float) -> None:
    """min |p - q - v|^2 with p, q >= 0 that sum to the radius at most, by a general solver."""
    n = len(v)

    def distance(x: np.ndarray) -> tuple[float, np.ndarray]:
        error = x[:n] - x[n:] - v
        return 0.5 * error @ error, np.concatenate([error, -error])

    solved = minimize(
        distance,
        np.full(2 * n, radius / (4 * n)),
        jac=True,
        method="SLSQP",
        bounds=[(0, None)] * (2 * n),
        constraints={"type": "ineq", "fun": lambda x: radius - x.sum(), "jac": lambda x: -np.ones(2 * n)},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    mine = projected(v[:, None], radius).numpy()[:, 0]
    np.testing.assert_allclose(mine, solved.x[:n] - solved.x[n:], atol=1e-4)
    assert np.sum((mine - v) ** 2) <= np.sum((solved.x[:n] - solved.x[n:] - v) ** 2) + 1e-9


@settings(max_examples=200)
@given(MATRICES, RADII)
def test_projection_meets_the_optimality_conditions(W: np.ndarray, radius: float) -> None:
    """Outside the ball: sum = radius, and one threshold that survivors lie above and the others below."""
    result = projected(W, radius)
    sizes = torch.tensor(W).abs()
    for before, after in zip(sizes.t(), result.abs().t(), strict=True):
        if before.sum() <= radius:
            continue
        survives = after > 0
        assert math.fsum(after.tolist()) == pytest.approx(radius, rel=1e-12)
        down = before.max() - before  # entries of 1e30 leave nothing of a threshold, differences stay
        level = (after + down)[survives]
        np.testing.assert_allclose(level, level[0].expand_as(level), rtol=1e-9)
        assert (down[~survives] >= level[0] * (1 - 1e-9)).all()


@settings(max_examples=200)
@given(MATRICES, RADII, st.sampled_from([torch.float64, torch.float32, torch.bfloat16]))
def test_columns_are_in_the_ball_to_the_last_bit(W: np.ndarray, radius: float, dtype: torch.dtype) -> None:
    W = np.clip(W, -3e38, 3e38)
    once = projected(W, radius, dtype)
    assert is_in_ball(once, radius)
    twice = once.clone()
    project_columns(twice, radius)
    assert torch.equal(once, twice)


@settings(max_examples=200)
@given(MATRICES, RADII)
def test_signs_order_and_inner_columns_are_kept(W: np.ndarray, radius: float) -> None:
    result = projected(W, radius).numpy()
    inside = np.abs(W).sum(axis=0) <= radius * (1 - 1e-12)
    assert result[:, inside].tobytes() == W[:, inside].tobytes()
    assert (result * np.sign(W) >= 0).all()
    assert (np.abs(result) <= np.abs(W) + 1e-12 * radius).all()
    order = np.argsort(np.abs(W), axis=0)
    assert (np.diff(np.take_along_axis(np.abs(result), order, axis=0), axis=0) >= 0).all()


@settings(max_examples=200)
@given(st.data(), st.integers(1, 10), st.floats(0.01, 100))
def test_projection_is_not_expansive(data: st.DataObject, n: int, radius: float) -> None:
    columns = arrays(np.float64, (n, 1), elements=st.floats(-50, 50))
    v, w = data.draw(columns), data.draw(columns)
    moved = projected(v, radius) - projected(w, radius)
    assert float(moved.norm()) <= np.linalg.norm(v - w) + 1e-9


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_many_rows_stay_in_the_ball(dtype: torch.dtype) -> None:
    W = torch.randn(3000, 40, generator=torch.Generator().manual_seed(0), dtype=dtype)
    project_columns(W, 1.0)
    assert is_in_ball(W, 1.0)
    sums = W.double().abs().sum(dim=0)
    assert (sums >= 1 - 1e-6).all()


def test_one_row_is_clipped_and_zeros_stay() -> None:
    assert projected(np.array([[5.0, -7.0, 0.5, 0.0]]), 2.0).tolist() == [
        [pytest.approx(2), pytest.approx(-2), 0.5, 0.0]
    ]


def test_a_view_of_a_longer_vector_is_projected_in_place() -> None:
    flat = torch.full((7,), 3.0)
    project_columns(flat[:6].view(3, 2), 1.5)
    torch.testing.assert_close(flat, torch.tensor([0.5] * 6 + [3.0]))


def test_infinite_weights_end_as_no_numbers() -> None:
    """A diverged network must be seen as one, and not be waited for."""
    W = torch.tensor([[math.inf, 1.0], [1.0, math.nan]])
    project_columns(W, 1.0)
    assert W.isnan().any(dim=0).all()
