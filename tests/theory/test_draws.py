"""Theorem 3 and Lemma 4 of docs/theory.md, by enumeration of all draws and all signs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import FrozenInstanceError
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from gbgnn.errors import ParameterError
from gbgnn.theory import Draw, confidence_term, independence_factor, q_factor, sign_probability

AllSigns = Callable[[int, float], tuple[np.ndarray, np.ndarray]]


def every_draw(draw: Draw) -> Iterator[np.ndarray]:
    """Yield s: 1/U on unlabelled nodes, -1/M on labelled ones, of each equally likely choice."""
    ends = np.cumsum([0, *(M + U for M, U in zip(draw.labelled, draw.unlabelled, strict=True))])
    choices = [
        combinations(range(start, end), M)
        for start, end, M in zip(ends[:-1], ends[1:], draw.labelled, strict=True)
    ]
    for chosen in product(*choices):
        s = np.full(ends[-1], 1 / draw.n_unlabelled)
        s[[node for part in chosen for node in part]] = -1 / draw.n_labelled
        yield s


POWERS = st.integers(0, 4)
SIZES = st.tuples(st.integers(0, 4), st.integers(0, 4)).filter(lambda pair: sum(pair) > 0)


@st.composite
def small_draws(draw: st.DrawFn) -> Draw:
    pairs = draw(
        st.lists(SIZES, min_size=1, max_size=3).filter(
            lambda pairs: sum(M for M, _ in pairs) and sum(U for _, U in pairs) and sum(map(sum, pairs)) <= 8
        )
    )
    return Draw(*(tuple(part) for part in zip(*pairs, strict=True)))


@settings(max_examples=150, deadline=None)
@given(
    draw=small_draws(), seed=st.integers(0, 2**32 - 1), n_vectors=st.integers(1, 8), power=st.integers(0, 4)
)
def test_independent_signs_bound_the_largest_gap(
    draw: Draw, seed: int, n_vectors: int, power: int, all_signs: AllSigns
) -> None:
    """E sup (mean over unlabelled - mean over labelled) <= R / c + imbalance, for losses in [0, 1]."""
    N = draw.n_labelled + draw.n_unlabelled
    V = np.random.default_rng(seed).random((n_vectors, N)) ** power
    V = V.round() if power == 1 else V
    gap = np.mean([(V @ s).max() for s in every_draw(draw)])
    signs, chances = all_signs(N, draw.sign_probability)
    Q = q_factor(draw.n_labelled, draw.n_unlabelled)
    complexity = Q * chances @ (signs @ V.T).max(axis=1)
    assert gap <= complexity * draw.independence + draw.imbalance + 1e-12
    if draw.is_uniform:
        assert draw.imbalance == 0


@pytest.mark.parametrize(("M", "U"), [(1, 1), (1, 4), (2, 3), (4, 2), (5, 5)])
def test_one_vector_of_signs_remembers_c_of_the_draw(M: int, U: int) -> None:
    """The step of the proof that has a number: E[zeta | s] = c s, by counting."""
    N, Q = M + U, q_factor(M, U)
    expected = {True: 0.0, False: 0.0}  # of a labelled, an unlabelled node
    for k in range(N + 1):
        chance = binom.pmf(k, N, U / N)
        taken = {False: min(k, U) / U, True: max(k - U, 0) / M}
        for is_labelled, share in taken.items():
            expected[is_labelled] += chance * (share / U - (1 - share) / M)
    c = 1 - Q * sum(binom.pmf(k, N, U / N) * max(k - U, 0) for k in range(N + 1))
    assert expected[False] == pytest.approx(c / U)
    assert expected[True] == pytest.approx(-c / M)
    assert independence_factor(M, U) == pytest.approx(1 / c)


@settings(max_examples=100, deadline=None)
@given(draw=small_draws(), seed=st.integers(0, 2**32 - 1), confidence=st.sampled_from([0.5, 0.8, 0.95]))
def test_the_gap_is_near_its_expectation(draw: Draw, seed: int, confidence: float) -> None:
    """Lemma 4: it exceeds it by the deviation with at most the probability that is left."""
    random = np.random.default_rng(seed)
    V = random.integers(0, 2, (random.integers(1, 5), draw.n_labelled + draw.n_unlabelled))
    gaps = np.array([(V @ s).max() for s in every_draw(draw)])
    fails = np.mean(gaps > gaps.mean() + draw.deviation(confidence) + 1e-12)
    assert fails <= 1 - confidence + 1e-12


@given(M=st.integers(1, 10**6), U=st.integers(1, 10**6), confidence=st.floats(0.01, 0.999))
def test_one_stratum_is_the_uniform_draw(M: int, U: int, confidence: float) -> None:
    draw = Draw((M,), (U,))
    assert draw.sign_probability == sign_probability(M, U)
    assert draw.deviation(confidence) == pytest.approx(confidence_term(M, U, confidence), rel=1e-9)
    assert 1 < draw.independence <= 2
    assert draw.independence == independence_factor(M, U) == pytest.approx(independence_factor(U, M))


def test_what_the_signs_cost_on_known_graphs() -> None:
    assert independence_factor(1, 1) == 2.0
    assert independence_factor(140, 2568) == pytest.approx(1.036, abs=5e-4)  # Cora, the public split
    assert independence_factor(1354, 1354) == pytest.approx(1.0155, abs=5e-4)  # half of its nodes


def test_equal_shares_cost_nothing_beside_the_smallest_stratum() -> None:
    draw = Draw((10, 30, 2), (20, 60, 4))
    assert draw.imbalance == pytest.approx(0)
    assert draw.independence == independence_factor(2, 4)
    assert draw.sign_probability == pytest.approx(sign_probability(42, 84))
    assert draw.deviation(0.95) <= 1.05 * Draw((42,), (84,)).deviation(0.95)


def test_unequal_shares_are_a_difference_of_means() -> None:
    draw = Draw((20, 20), (30, 330))
    assert draw.imbalance == pytest.approx(330 / 360 - 0.5)
    assert draw.sign_probability == pytest.approx(max(20 * 30 / 50**2, 20 * 330 / 350**2))


def test_strata_without_chance_take_no_part() -> None:
    draw = Draw((3, 2, 0), (5, 0, 4))
    assert draw.independence == independence_factor(3, 5)
    assert draw.sign_probability == sign_probability(3, 5)
    fixed = Draw((2, 0), (0, 3))
    assert (fixed.independence, fixed.sign_probability, fixed.deviation(0.9)) == (1.0, 0.0, 0.0)
    assert fixed.imbalance == 1.0


def test_of_strata_counts_rows() -> None:
    assert Draw.of_strata(None, [1, 2], 7) == Draw((2,), (5,))
    assert Draw.of_strata([5, 5, 7, 5], [2]) == Draw((0, 1), (3, 0))


@pytest.mark.parametrize("sizes", [((0,), (3,)), ((3,), (0,)), ((1, 2), (3,)), ((), ())])
def test_a_draw_leaves_something(sizes: tuple) -> None:
    with pytest.raises(ParameterError, match="a draw leaves nodes labelled and others not"):
        Draw(*sizes)


def test_counts_and_confidence_are_checked() -> None:
    with pytest.raises(ParameterError, match=r"labelled\[1\] must be an integer >= 0; got -1"):
        Draw((2, -1), (3, 3))
    with pytest.raises(ParameterError, match=r"Draw.deviation.confidence must be in \(0, 1\)"):
        Draw((2,), (3,)).deviation(1)
    assert Draw((1,), (1,)).deviation(1 - math.exp(-3)) == pytest.approx(math.sqrt(8))


def test_the_whole_inequality_over_thousands_of_draws() -> None:
    """5,000 uniform draws of half of 60 nodes, a class of 200 losses: the bound may fail in 5 %."""
    random = np.random.default_rng(0)
    V = random.integers(0, 2, (200, 60)).astype(float)
    draw = Draw((30,), (30,))
    signs = random.choice([-1, 0, 1], p=[0.25, 0.5, 0.25], size=(20_000, 60))
    complexity = q_factor(30, 30) * (signs @ V.T).max(axis=1).mean()
    limit = complexity * draw.independence + draw.deviation(0.95)
    gaps = []
    for _ in range(5000):
        s = np.full(60, 1 / 30)
        s[random.permutation(60)[:30]] = -1 / 30
        gaps.append((V @ s).max())
    assert np.mean(np.array(gaps) > limit) <= 0.05
    assert complexity * draw.independence < 2 * np.mean(gaps)  # and it is not far from what happens


def test_a_draw_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        Draw((1,), (2,)).labelled = (2,)
