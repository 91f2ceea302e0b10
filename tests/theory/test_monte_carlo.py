from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gbgnn.errors import ParameterError
from gbgnn.theory import monte_carlo
from gbgnn.theory.monte_carlo import (
    KINDS,
    Estimate,
    VectorFamily,
    inductive_rademacher,
    rademacher_complexity,
)
from gbgnn.theory.rademacher import q_factor, sign_probability

AllSigns = Callable[[int, float], tuple[np.ndarray, np.ndarray]]
CLASSES = [(kind, symmetrized) for kind in KINDS for symmetrized in (False, True)]
SMALL = arrays(
    np.float64, st.tuples(st.integers(2, 5), st.integers(1, 3)), elements=st.floats(-9, 9, width=16)
)


def suprema(vectors: Any, p: float, **options: int) -> np.ndarray:
    return VectorFamily("test", vectors).suprema(p, **options)


def supremum(sigma: np.ndarray, X: np.ndarray, kind: str, symmetrized: bool) -> np.ndarray:
    """The supremum over the class for each row of sigma, from its definition."""
    sums = sigma @ X
    if kind == "linear":
        return np.sqrt((sums**2).sum(axis=1))
    return sums.max(axis=1) if kind == "finite" and not symmetrized else abs(sums).max(axis=1)


@pytest.mark.parametrize(("kind", "symmetrized"), CLASSES)
@pytest.mark.parametrize(
    ("N", "M", "p"),
    [(2, 1, None), (5, 4, None), (10, 1, None), (10, 9, None), (10, 3, 0.02), (10, 3, 0.5), (12, 4, None)],
)
def test_interval_covers_the_exact_complexity(
    all_signs: AllSigns, kind: str, symmetrized: bool, N: int, M: int, p: float | None
) -> None:
    X = np.random.default_rng(M).standard_normal((N, 4)) + 0.5
    sigma, weights = all_signs(N, sign_probability(M, N - M) if p is None else p)
    exact = 2.5 * q_factor(M, N - M) * weights @ supremum(sigma, X, kind, symmetrized)
    estimate = rademacher_complexity(
        X, M, kind=kind, radius=2.5, symmetrized=symmetrized, p=p, n_draws=20_000, seed=M
    )
    low, high = estimate.interval(0.999)
    assert low < exact < high < estimate.upper_limit(0.999)
    assert estimate.standard_error < 0.02 * estimate.value
    assert estimate.n_draws == 20_000


@pytest.mark.parametrize("kind", KINDS)
def test_inductive_interval_covers_the_exact_complexity(all_signs: AllSigns, kind: str) -> None:
    X = np.random.default_rng(3).standard_normal((8, 3))
    sigma, weights = all_signs(8, 0.5)
    exact = 3 * weights @ supremum(sigma, X, kind, False) / 8
    low, high = inductive_rademacher(X, kind=kind, radius=3.0, n_draws=20_000).interval(0.999)
    assert low < exact < high


@pytest.mark.parametrize(("kind", "symmetrized"), CLASSES)
def test_every_kind_of_matrix_gives_the_same(kind: str, symmetrized: bool) -> None:
    X = np.random.default_rng(0).integers(-3, 4, (50, 6)) * (np.random.default_rng(1).random((50, 6)) < 0.4)

    def estimate(vectors: Any) -> Estimate:
        return rademacher_complexity(vectors, 9, kind=kind, symmetrized=symmetrized, n_draws=200)

    first = estimate(X)
    for vectors in (
        X.astype(np.float32),
        X.tolist(),
        sp.csr_matrix(X),
        sp.coo_array(X.astype(np.float32)),
        torch.tensor(X),
        torch.tensor(X, dtype=torch.bfloat16),
    ):
        other = estimate(vectors)
        np.testing.assert_allclose(list(vars(other).values()), list(vars(first).values()), rtol=1e-12)


def test_same_seed_gives_the_same_bytes_and_more_draws_continue_fewer() -> None:
    X = np.random.default_rng(0).standard_normal((300, 7)).astype(np.float32)
    draws = suprema(X, 0.1, n_draws=300, seed=5)
    assert suprema(X, 0.1, n_draws=300, seed=5).tobytes() == draws.tobytes()
    assert suprema(X, 0.1, n_draws=77, seed=5).tobytes() == draws[:77].tobytes()
    assert (suprema(X, 0.1, n_draws=300, seed=6) != draws).mean() > 0.9
    assert len(np.unique(draws)) == 300


@pytest.mark.parametrize("p", [0.003, 0.2, 0.5])
def test_result_does_not_depend_on_the_size_of_a_block(p: float, monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).standard_normal((100, 5))
    whole = suprema(X, p, n_draws=150)
    for block in (2**10, 2**13 - 5, 2**17):
        monkeypatch.setattr(monte_carlo, "_BLOCK", block)
        np.testing.assert_allclose(suprema(X, p, n_draws=150), whole, rtol=1e-12)
        np.testing.assert_allclose(suprema(sp.csr_array(X), p, n_draws=150), whole, rtol=1e-12)


def test_equal_seeds_draw_equal_signs_for_every_class() -> None:
    X, Y = np.random.default_rng(0).standard_normal((2, 40, 3))
    both = suprema(np.hstack([X, Y]), 0.2, n_draws=50)
    np.testing.assert_allclose(both, np.maximum(suprema(X, 0.2, n_draws=50), suprema(Y, 0.2, n_draws=50)))


@settings(max_examples=40)
@given(X=SMALL, p=st.floats(0.01, 0.5), family=st.sampled_from(CLASSES))
def test_no_sign_changes_more_and_nothing_varies_more_than_stated(
    all_signs: AllSigns, X: np.ndarray, p: float, family: tuple[str, bool]
) -> None:
    kind, symmetrized = family
    N = len(X)
    sigma, weights = all_signs(N, p)
    if family == ("finite", False):
        X = X - X.mean(axis=1, keepdims=True)
    values = supremum(sigma, X, kind, symmetrized)
    assert values.min() >= -1e-9
    changes = VectorFamily("test", X, kind=kind, symmetrized=symmetrized).differences()
    grid = values.reshape((3,) * N)
    for n in range(N):
        assert np.ptp(grid, axis=n).max() <= changes[n] * (1 + 1e-9) + 1e-9
    bound = Estimate.from_draws([0.0, 0.0], float(np.linalg.norm(changes)), p).variance_bound
    mean = weights @ values
    assert weights @ (values - mean) ** 2 <= bound * (1 + 1e-9) + 1e-9


def test_mean_of_a_finite_class_changes_neither_value_nor_bounds() -> None:
    X = np.random.default_rng(0).standard_normal((30, 4))
    shifted = X + 100 * np.random.default_rng(1).standard_normal((30, 1))
    plain, other = (rademacher_complexity(V, 10, kind="finite", n_draws=100) for V in (X, shifted))
    np.testing.assert_allclose(list(vars(plain).values()), list(vars(other).values()), rtol=1e-9)
    alone = rademacher_complexity(X[:, :1], 10, kind="finite")
    assert alone.value == alone.standard_error == alone.upper_limit(0.99) == 0
    equal = rademacher_complexity(np.repeat(X[:, :1], 7, axis=1), 10, kind="finite")
    assert 0 <= equal.value <= equal.upper_limit(0.99) < 1e-12


@pytest.mark.parametrize(("M", "N"), [(1, 7), (3, 7), (6, 7)])
@pytest.mark.parametrize("n_draws", [2, 5, 40])
def test_upper_limit_fails_no_more_often_than_it_may(
    all_signs: AllSigns, M: int, N: int, n_draws: int
) -> None:
    X = np.zeros((N, 2))
    X[0, 0], X[1:, 1] = 5.0, 0.3  # most draws are far below the expectation
    sigma, weights = all_signs(N, sign_probability(M, N - M))
    exact = q_factor(M, N - M) * weights @ supremum(sigma, X, "hull", False)
    estimates = [rademacher_complexity(X, M, n_draws=n_draws, seed=seed) for seed in range(150)]
    for confidence in (0.5, 0.9):
        failures = np.mean([estimate.upper_limit(confidence) < exact for estimate in estimates])
        assert failures <= 1 - confidence
    below = np.mean([estimate.value < exact for estimate in estimates])
    assert 0.1 < below < 0.9


def test_upper_limit_is_the_smaller_of_two_bounds() -> None:
    by_mcdiarmid = Estimate(3.0, 0.1, 100, bounded_differences=1.0, variance_bound=50.0)
    assert by_mcdiarmid.upper_limit(0.9) == pytest.approx(3 + np.sqrt(np.log(10) / 200))
    by_variance = Estimate(3.0, 0.1, 100, bounded_differences=1e3, variance_bound=2.0)
    E = by_variance.upper_limit(0.9)
    assert pytest.approx(np.sqrt(2 * np.log(10) / 100 * (E**2 + 2.0))) == E - 3.0
    # Two draws are too few for the second bound.
    assert Estimate(3.0, 0.1, 2, 1e3, 2.0).upper_limit(0.9) == pytest.approx(3 + 500 * np.sqrt(np.log(10)))


def test_few_labels_are_estimated_as_closely_as_many() -> None:
    X = np.random.default_rng(0).standard_normal((20_000, 8))
    for M in (20, 10_000):
        estimate = rademacher_complexity(X, M, n_draws=1000)
        assert 0 < estimate.upper_limit(0.95) - estimate.value < 0.2 * estimate.value
        assert estimate.standard_error < 0.02 * estimate.value


def test_limits_close_in_on_the_value_as_draws_grow() -> None:
    X = np.random.default_rng(0).standard_normal((30, 4))
    widths = []
    for n_draws in (100, 1000, 10_000):
        estimate = rademacher_complexity(X, 10, n_draws=n_draws)
        low, high = estimate.interval()
        widths.append((high - low, estimate.upper_limit() - estimate.value))
    assert (np.diff(widths, axis=0) < 0).all()
    wide, narrow = estimate.interval(0.99), estimate.interval(0.5)
    assert wide[0] < narrow[0] < estimate.value < narrow[1] < wide[1]
    assert estimate.upper_limit(0.5) < estimate.upper_limit(0.99)


def test_a_sparse_matrix_is_never_made_dense() -> None:
    N, C = 100_000, 50_000  # 40 GB dense
    rng = np.random.default_rng(0)
    X = sp.csr_array((np.ones(N, np.float32), rng.integers(C, size=N), np.arange(N + 1)), shape=(N, C))
    for kind in KINDS:
        assert rademacher_complexity(X, 50, kind=kind, n_draws=2).value > 0


def test_signs_are_never_held_whole() -> None:
    X = np.ones((100_000, 2), np.float32)
    tracemalloc.start()
    try:
        inductive_rademacher(X, n_draws=128)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**24  # a byte for every sign would be 12.8 MB, the eight of a double 102 MB


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device")
@pytest.mark.parametrize(("kind", "symmetrized"), CLASSES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
def test_gpu_agrees_with_cpu_and_with_itself(kind: str, symmetrized: bool, dtype: torch.dtype) -> None:
    X = (10 * torch.randn(5000, 20, generator=torch.Generator().manual_seed(0))).to(dtype)

    def estimate(vectors: torch.Tensor) -> Estimate:
        return rademacher_complexity(vectors, 600, kind=kind, symmetrized=symmetrized, n_draws=300)

    on_gpu, on_cpu = estimate(X.cuda()), estimate(X)
    assert estimate(X.cuda()) == on_gpu
    np.testing.assert_allclose(list(vars(on_gpu).values()), list(vars(on_cpu).values()), rtol=1e-9)


X23 = np.ones((3, 2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: rademacher_complexity(X23, 3),
            "n_labelled must be less than the number of rows .* got 3 of 3",
        ),
        (
            lambda: rademacher_complexity(X23, 0),
            "rademacher_complexity.n_labelled must be an integer >= 1; got 0",
        ),
        (
            lambda: rademacher_complexity(X23, 1, kind="hul"),
            "one of hull, linear, finite; got 'hul'. Did you mean",
        ),
        (
            lambda: rademacher_complexity(X23, 1, p=0.6),
            r"rademacher_complexity.p must be in \(0, 0.5\]; got 0.6",
        ),
        (
            lambda: rademacher_complexity(X23, 1, p=0.0),
            r"rademacher_complexity.p must be in \(0, 0.5\]; got 0.0",
        ),
        (
            lambda: rademacher_complexity(X23, 1, radius=-1),
            r"complexity.radius must be in \[0, inf\); got -1",
        ),
        (
            lambda: rademacher_complexity(X23, 1, n_draws=1),
            "complexity.n_draws must be an integer >= 2; got 1",
        ),
        (lambda: rademacher_complexity(X23, 1, seed=-1), "complexity.seed must be an integer >= 0; got -1"),
        (lambda: rademacher_complexity(X23[0], 1), "rademacher_complexity.vectors must be a matrix"),
        (
            lambda: inductive_rademacher(X23 / 0 * 0),
            "inductive_rademacher.vectors has NaN or infinite entries",
        ),
        (lambda: suprema(X23, 0.7), r"test.p must be in \(0, 0.5\]; got 0.7"),
        (
            lambda: inductive_rademacher(X23, kind="all"),
            "inductive_rademacher.kind must be one of hull, linear, finite; got 'all'",
        ),
        (lambda: Estimate.from_draws([1.0], 1.0), "Estimate.n_draws must be an integer >= 2; got 1"),
        (lambda: Estimate.from_draws([1.0, -2.0], 1.0), r"Estimate.draws must be in \[0, inf\); got -2.0"),
        (
            lambda: Estimate.from_draws([1.0, 2.0], -1.0),
            r"Estimate.bounded_differences must be in \[0, inf\); got -1.0",
        ),
        (lambda: Estimate.from_draws([1.0, 2.0], 1.0, p=0.9), r"Estimate.p must be in \(0, 0.5\]; got 0.9"),
        (
            lambda: Estimate.from_draws([1.0, 2.0], 1.0).interval(1.0),
            r"interval.confidence must be in \(0, 1\); got 1.0",
        ),
        (
            lambda: Estimate.from_draws([1.0, 2.0], 1.0).upper_limit(0.0),
            r"upper_limit.confidence must be in \(0, 1\)",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_settings_that_cannot_work_are_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        call()
