from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from gbgnn.features.neighbours import STATISTICS, Neighbours
from gbgnn.propagation import RandomWalk

DrawWeights = Callable[..., sp.csr_array]
SIZES, SEEDS = st.integers(1, 12), st.integers(0, 2**32 - 1)


def walk_ends(A: np.ndarray, node: int, hops: int) -> list[tuple[int, float]]:
    """Every walk of so many steps from a node, as its end and its chance."""
    ends = [(node, 1.0)]
    for _ in range(hops):
        ends = [
            (j, chance * A[i, j] / A[i].sum()) for i, chance in ends for j in np.flatnonzero(A[i]).tolist()
        ]
    return ends


def by_walking(A: np.ndarray, x: np.ndarray, node: int, hops: int) -> dict[str, float]:
    ends = walk_ends(A, node, hops)
    known = [(x[j], chance) for j, chance in ends if not np.isnan(x[j])]
    result = dict.fromkeys(STATISTICS, np.nan)
    if ends:
        result["missing"] = 1 - sum(c for _, c in known) / sum(c for _, c in ends)
    if known:
        values, chances = map(np.array, zip(*known, strict=True))
        mean = np.average(values, weights=chances)
        std = np.sqrt(np.average((values - mean) ** 2, weights=chances))
        result |= {"mean": mean, "std": std, "min": values.min(), "max": values.max()}
    return result


@settings(max_examples=50)
@given(n_nodes=SIZES, seed=SEEDS, offset=st.sampled_from([0.0, 1e4]))
def test_statistics_are_those_of_the_ends_of_walks(
    draw_weights: DrawWeights, n_nodes: int, seed: int, offset: float
) -> None:
    A = draw_weights(n_nodes, seed)
    random = np.random.default_rng(seed)
    X = random.normal(size=(A.shape[0], 3)) + offset
    X[random.random(X.shape) < [0.0, 0.3, 0.9]] = np.nan  # no gaps, some, and next to nothing else
    for hop, found in enumerate(Neighbours(A).statistics(X, 3, STATISTICS), start=1):
        for node, column in product(range(A.shape[0]), range(3)):
            expected = by_walking(A.toarray(), X[:, column], node, hop)
            assert {name: found[name][node, column] for name in STATISTICS} == pytest.approx(
                expected, rel=1e-9, abs=1e-6, nan_ok=True
            )


def test_mean_is_a_power_of_the_walk() -> None:
    A = sp.random_array((50, 50), density=0.2, rng=np.random.default_rng(0), format="csr")
    X = np.random.default_rng(1).normal(size=(50, 4))
    P = RandomWalk().build(A).toarray()
    for hop, found in enumerate(Neighbours(A).statistics(X, 4, ("mean",)), start=1):
        np.testing.assert_allclose(found["mean"], np.linalg.matrix_power(P, hop) @ X, atol=1e-12)
        assert set(found) == {"mean"}


def test_equal_neighbours_have_no_deviation_however_large_they_are() -> None:
    star = np.zeros((4, 4))
    star[0, 1:] = 1
    (found,) = Neighbours(sp.csr_array(star)).statistics(np.full((4, 1), 1e9 + 0.1), 1, ("std",))
    assert found["std"][0, 0] == 0
    assert np.isnan(found["std"][1:]).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extremes_are_the_very_numbers_of_the_neighbours(dtype: Any) -> None:
    random = np.random.default_rng(0)
    A = sp.csr_array((random.random((40, 40)) < 0.2).astype(np.float32))
    X = random.normal(size=(40, 5)).astype(dtype)
    (found,) = Neighbours(A).statistics(X, 1, ("min", "max"))
    for name, reduce in {"min": np.minimum, "max": np.maximum}.items():
        expected = np.array([reduce.reduce(X[A[[i]].indices], axis=0) for i in range(40)])
        assert found[name].dtype == dtype
        np.testing.assert_array_equal(found[name], expected)


def test_inputs_are_left_alone() -> None:
    X = np.array([[1.0], [np.nan], [3.0]])
    before = X.copy()
    list(Neighbours(sp.csr_array(np.ones((3, 3)))).statistics(X, 2, STATISTICS))
    np.testing.assert_array_equal(X, before)
