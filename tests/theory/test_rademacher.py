from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.linalg import hadamard

from gbgnn.errors import ParameterError
from gbgnn.theory.monte_carlo import inductive_rademacher, rademacher_complexity
from gbgnn.theory.rademacher import (
    C0,
    confidence_term,
    head_factor,
    inductive_bound,
    mlp_complexity,
    nonlinear_mlp_complexity,
    partition_term,
    q_factor,
    s_factor,
    sign_probability,
    trade_off,
)

AllSigns = Callable[[int, float], tuple[np.ndarray, np.ndarray]]
SIZES = st.integers(1, 10**6)
NORMS = st.floats(0, 1e3)
HOPS = st.lists(st.tuples(st.floats(0, 3), st.floats(0, 3)), min_size=1, max_size=4)


@pytest.mark.parametrize(
    ("M", "U", "Q", "S", "p0"),
    [
        (1, 1, 2, 8 / 3, 1 / 4),
        (1, 2, 3 / 2, 24 / 15, 2 / 9),
        (2, 4, 3 / 4, 96 / 77, 8 / 36),
        (20, 40, 3 / 40, 9600 / (119 * 79), 2 / 9),
        (40, 20, 3 / 40, 9600 / (119 * 79), 2 / 9),
    ],
)
def test_factors_equal_their_hand_worked_values(M: int, U: int, Q: float, S: float, p0: float) -> None:
    assert q_factor(M, U) == pytest.approx(Q)
    assert s_factor(M, U) == pytest.approx(S)
    assert sign_probability(M, U) == pytest.approx(p0)


def test_the_printed_s_has_the_smaller_number() -> None:
    assert s_factor(1, 2, form="paper") == pytest.approx(12 / 5)
    assert s_factor(40, 20, form="paper") == pytest.approx(4800 / (119 * 39))
    assert confidence_term(1, 2, 0.9, form="paper") > confidence_term(1, 2, 0.9)


def test_deviation_terms_equal_their_hand_worked_values() -> None:
    assert pytest.approx(5.045, abs=5e-4) == C0
    assert partition_term(4, 12) == pytest.approx(C0 * 2 / 3)
    assert confidence_term(1, 1, 1 - math.exp(-3)) == pytest.approx(math.sqrt(8))


@given(M=SIZES, U=SIZES)
def test_scale_and_sign_probability_cancel(M: int, U: int) -> None:
    """Q p0 N = 1 and Q sqrt(p0) = 1 / sqrt(MU), on which every closed form rests."""
    assert q_factor(M, U) * sign_probability(M, U) * (M + U) == pytest.approx(1)
    assert q_factor(M, U) * math.sqrt(sign_probability(M, U)) == pytest.approx(1 / math.sqrt(M * U))


@given(M=SIZES, U=SIZES, more=SIZES, confidence=st.floats(0.01, 0.99))
def test_terms_fall_with_unlabelled_nodes_and_rise_with_confidence(
    M: int, U: int, more: int, confidence: float
) -> None:
    low, high = sorted((U, more))
    assert q_factor(M, high) <= q_factor(M, low)
    assert s_factor(M, high) <= s_factor(M, low) * (1 + 1e-12)
    assert confidence_term(M, high, confidence) <= confidence_term(M, low, confidence) * (1 + 1e-12)
    assert confidence_term(M, U, confidence / 2) < confidence_term(M, U, confidence)


def test_numpy_integers_do_not_overflow() -> None:
    M, U = np.int32(100_000), np.int32(900_000)
    assert sign_probability(M, U) == 0.09
    assert s_factor(M, U) == s_factor(100_000, 900_000)
    assert mlp_complexity(1.0, M, U, n_layers=1, max_norm=1.0) == pytest.approx(math.sqrt(2 / 9e10))


def test_closed_forms_equal_their_hand_worked_values() -> None:
    assert head_factor(3, 2.0) == 32
    assert head_factor(3, 2.0, form="paper") == 32
    assert head_factor(1, 7.0, form="paper") == 2
    settings = {"n_layers": 2, "max_norm": 3.0, "mixing_norms": [2.0, 0.5]}
    # sqrt(2) B 2B C2 C3 |PX|_F / sqrt(MU), and 2 sqrt(2) 2B C2 C3 |PX|_F / sqrt(MU).
    assert mlp_complexity(5.0, 8, 25, **settings) == pytest.approx(9)
    assert mlp_complexity(5.0, 8, 25, form="paper", **settings) == pytest.approx(6)
    # The constant column adds N = 33 to the square of C2 C3 |PX|_F = 4.
    assert mlp_complexity(4.0, 8, 25, bias=True, **settings) == pytest.approx(9 * 7 / 5)


def test_nonlinear_closed_forms_equal_their_hand_worked_values() -> None:
    head = {"n_layers": 2, "max_norm": 3.0}
    one = {"mixing_norms": [2.0], **head}
    assert nonlinear_mlp_complexity(5.0, 8, 25, form="paper", **one) == pytest.approx(4 * 2 * 6)
    # One hop: twice the linear bound.
    linear = mlp_complexity(5.0, 800, 2500, **one)
    assert nonlinear_mlp_complexity(5.0, 800, 2500, **one) == pytest.approx(2 * linear)
    # Two hops, Q = 1/4096: by comparison Q B 2B 2^2 C2 C3 |P3| |P2 X|_F sqrt(pi / 2).
    two = {"mixing_norms": [2.0, 0.5], "operator_norms": [3.0], **head}
    expected = 18 * 4 * 3 * 5 / 4096 * math.sqrt(math.pi / 2)
    assert nonlinear_mlp_complexity(5.0, 8192, 8192, **two) == pytest.approx(expected)
    # With 8 labels it is by norms: sqrt(2Q) B^2 C2 C3 |P3| |P2 X|_F.
    assert nonlinear_mlp_complexity(5.0, 8, 8, **two) == pytest.approx(math.sqrt(0.5) * 9 * 3 * 5)
    # A longest column of norm sqrt(N) = 16 where the others are shorter.
    assert nonlinear_mlp_complexity(5.0, 8, 248, bias=True, **two) == pytest.approx(
        math.sqrt(2 * q_factor(8, 248)) * 9 * 16
    )


def test_bounds_become_infinite_but_never_fail() -> None:
    assert head_factor(500, 10.0) == math.inf
    hops = {"mixing_norms": [1.0] * 2000, "operator_norms": [1.0] * 1999}
    bound = nonlinear_mlp_complexity(1.0, 8, 8, n_layers=2, max_norm=1.0, **hops)
    assert bound == pytest.approx(math.sqrt(0.5))
    assert nonlinear_mlp_complexity(0.0, 8, 8, n_layers=2, max_norm=1.0, **hops) == 0
    assert nonlinear_mlp_complexity(1.0, 8, 8, n_layers=2, max_norm=1.0, form="paper", **hops) == math.inf


@settings(max_examples=100)
@given(
    form=st.sampled_from(["corrected", "paper"]),
    layers=st.integers(1, 5),
    B=st.floats(0.5, 10),
    M=SIZES,
    U=SIZES,
    norm=NORMS,
    hops=HOPS,
    grow=st.floats(1, 2),
)
def test_bounds_rise_with_everything_but_the_nodes(
    form: str, layers: int, B: float, M: int, U: int, norm: float, hops: Any, grow: float
) -> None:
    """In the number of layers from 2B >= 1 on, or B >= 1 where the bound is one of norms."""
    mixing, operators = [C for C, _ in hops], [P for _, P in hops[1:]]

    def bounds(
        layers: int = layers,
        B: float = B,
        U: int = U,
        norm: float = norm,
        C: float = 1.0,
        P: float = 1.0,
        bias: bool = False,
    ) -> np.ndarray:
        head = {"n_layers": layers, "max_norm": B, "form": form, "bias": bias}
        head["mixing_norms"] = [mixing[0] * C, *mixing[1:]]
        ops = [operator * P for operator in operators]
        linear = mlp_complexity(norm, M, U, **head)
        return np.array([linear, nonlinear_mlp_complexity(norm, M, U, operator_norms=ops, **head)])

    base, slack = bounds(), 1 + 1e-9
    assert (bounds(B=B * grow) * slack >= base).all()
    assert (bounds(norm=norm * grow) * slack >= base).all()
    assert (bounds(C=grow) * slack >= base).all()
    assert (bounds(P=grow) * slack >= base).all()
    assert (bounds(layers=layers + 1) * slack >= base)[: 2 if B >= 1 else 1].all()
    assert (bounds(U=U + 1) <= base * slack).all()
    if form == "corrected":
        assert (bounds(bias=True) * slack >= base).all()
        # Not so of the nonlinear bound: the norm of a constant column grows with the nodes.
        assert bounds(bias=True, U=U + 1)[0] <= bounds(bias=True)[0] * slack


@settings(max_examples=60)
@given(
    X=arrays(
        np.float64, st.tuples(st.integers(2, 6), st.integers(1, 4)), elements=st.floats(-9, 9, width=16)
    ),
    M=st.integers(1, 5),
    B=st.floats(0, 20),
    bias=st.booleans(),
)
def test_closed_form_exceeds_the_exact_complexity_of_linear_heads(
    all_signs: AllSigns, X: np.ndarray, M: int, B: float, bias: bool
) -> None:
    N = len(X)
    M = min(M, N - 1)
    sigma, weights = all_signs(N, sign_probability(M, N - M))
    columns = np.column_stack([X, np.ones(N)]) if bias else X
    exact = q_factor(M, N - M) * B * weights @ abs(sigma @ columns).max(axis=1)
    bound = mlp_complexity(np.linalg.norm(X), M, N - M, n_layers=1, max_norm=B, bias=bias)
    assert exact <= bound * (1 + 1e-9) + 1e-12


def test_printed_bound_is_below_the_complexity_and_the_corrected_one_above() -> None:
    X = np.random.default_rng(0).standard_normal((60, 5))
    estimate = rademacher_complexity(X, 20, radius=10.0, n_draws=4000)
    printed, corrected = (
        mlp_complexity(np.linalg.norm(X), 20, 40, n_layers=1, max_norm=10.0, form=form)
        for form in ("paper", "corrected")
    )
    assert printed < 2 < 6 < estimate.interval(0.999)[0]
    assert estimate.upper_limit(0.999) < corrected


def test_printed_nonlinear_claim_fails_on_a_cube_with_one_label() -> None:
    """Nodes are the corners of a cube, X holds their +-1 coordinates, P_2 = I, P_3 is Hadamard's matrix.

    Row S of P_3 is the parity of the coordinates in S, whose correlation with relu(mean of these) is c(|S|).
    So for the sigma with a sign at S some network has <sigma, v> = c sqrt(N), up to terms whose expectation
    is 0, and the complexity is at least Q P(sigma != 0) E c sqrt(N).
    """

    def correlation(size: int) -> float:
        sums = ((-1) ** k * math.comb(size, k) * max(size - 2 * k, 0) for k in range(size + 1))
        return abs(sum(sums)) / size / 2**size if size else 0.0

    signs = hadamard(16)  # all coordinates are the rows whose number is a power of 2
    for S in ([1, 2], [1, 2, 4, 8]):
        parity, mean = signs[sum(S)], signs[S].mean(axis=0)
        assert abs(parity @ np.maximum(mean, 0)) / 16 == pytest.approx(correlation(len(S)))

    dimension, M = 32, 1
    N = 2**dimension
    drawn = -math.expm1(N * math.log1p(-2 * sign_probability(M, N - M)))
    expected = sum(math.comb(dimension, size) * correlation(size) for size in range(dimension + 1)) / N
    least = q_factor(M, N - M) * drawn * expected * math.sqrt(N)
    printed, corrected = (
        nonlinear_mlp_complexity(
            math.sqrt(N * dimension),
            M,
            N - M,
            n_layers=1,
            max_norm=1.0,
            mixing_norms=[1.0, 1.0],
            operator_norms=[1.0],
            form=form,
        )
        for form in ("paper", "corrected")
    )
    assert printed < 130 < 190 < least < corrected


@settings(max_examples=30)
@given(
    X=arrays(
        np.float64, st.tuples(st.integers(2, 6), st.integers(1, 4)), elements=st.floats(-9, 9, width=16)
    ),
    M=st.integers(1, 5),
    ps=st.tuples(st.floats(0.001, 0.5), st.floats(0.001, 0.5)),
)
def test_complexity_rises_with_p_up_to_the_inductive_bound(
    all_signs: AllSigns, X: np.ndarray, M: int, ps: tuple[float, float]
) -> None:
    N = len(X)
    M = min(M, N - 1)

    def expected(p: float) -> float:
        sigma, weights = all_signs(N, p)
        return float(weights @ (sigma @ X).max(axis=1))

    low, high = sorted(ps)
    assert expected(low) <= expected(high) + 1e-9
    exact = q_factor(M, N - M) * expected(sign_probability(M, N - M))
    assert exact <= inductive_bound(abs(expected(0.5)) / N, M, N - M) + 1e-9


def test_inductive_bound_of_a_single_vector_is_an_equality() -> None:
    v = np.array([[1.0], [-2.0], [0.5]])
    assert rademacher_complexity(v, 1, kind="finite").value == 0
    assert inductive_bound(inductive_rademacher(v, kind="finite").value, 1, 2) == 0


@given(M=SIZES, U=SIZES)
def test_inductive_bound_is_the_ratio_of_the_scales(M: int, U: int) -> None:
    r = U / M
    assert inductive_bound(3.0, M, U) == pytest.approx(3 * (1 + r) ** 2 / r)
    assert inductive_bound(1 / (M + U), M, U) == pytest.approx(q_factor(M, U))


@settings(max_examples=40)
@given(
    N=st.integers(2, 6),
    M=st.integers(1, 5),
    alpha=st.floats(0.01, 10),
    share=st.floats(0, 0.99),
    seed=st.integers(0, 99),
    worst=st.booleans(),
)
def test_sets_that_follow_every_sign_pattern_are_as_complex_as_the_trade_off_says(
    all_signs: AllSigns, N: int, M: int, alpha: float, share: float, seed: int, worst: bool
) -> None:
    M = min(M, N - 1)
    sigma, weights = all_signs(N, sign_probability(M, N - M))
    errors = np.random.default_rng(seed).standard_normal(sigma.shape)
    errors *= np.linalg.norm(sigma, axis=1, keepdims=True) / np.linalg.norm(errors, axis=1, keepdims=True)
    V = alpha * sigma + alpha * share * (-sigma if worst else errors)
    complexity = q_factor(M, N - M) * weights @ (sigma @ V.T).max(axis=1)
    printed, sharp = trade_off(alpha, alpha * share), trade_off(alpha, alpha * share, sharp=True)
    assert printed <= sharp * (1 + 1e-9)
    assert sharp <= complexity * (1 + 1e-9)
    if share == 0:
        assert printed == pytest.approx(alpha)


def test_sharp_trade_off_is_attained() -> None:
    """By V = {(alpha - beta) g}: every g is followed, and sup <sigma, Z> = (alpha - beta) |sigma|^2."""
    assert trade_off(3.0, 1.0, sharp=True) == 4
    assert trade_off(3.0, 1.0) == pytest.approx(8 / 3)


@pytest.mark.parametrize(
    "function",
    [
        q_factor,
        s_factor,
        sign_probability,
        partition_term,
        lambda M, U: confidence_term(M, U, 0.9),
        lambda M, U: inductive_bound(0.1, M, U),
        lambda M, U: mlp_complexity(1.0, M, U, n_layers=1, max_norm=1.0),
        lambda M, U: nonlinear_mlp_complexity(1.0, M, U, n_layers=1, max_norm=1.0, mixing_norms=[1.0]),
    ],
)
@pytest.mark.parametrize("wrong", [0, -3, 2.5, "20", None, True])
def test_numbers_of_nodes_are_checked(function: Callable[..., float], wrong: object) -> None:
    with pytest.raises(ParameterError, match=rf"\.n_labelled must be an integer >= 1; got {wrong!r}"):
        function(wrong, 5)
    with pytest.raises(ParameterError, match=rf"\.n_unlabelled must be an integer >= 1; got {wrong!r}"):
        function(5, wrong)


LINEAR: dict[str, Any] = {"n_layers": 1, "max_norm": 1.0}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: confidence_term(3, 3, 1.0), r"confidence_term.confidence must be in \(0, 1\); got 1.0"),
        (lambda: head_factor(0, 1.0), "head_factor.n_layers must be an integer >= 1; got 0"),
        (lambda: head_factor(1, -1.0), r"head_factor.max_norm must be in \[0, inf\); got -1.0"),
        (
            lambda: head_factor(1, 1.0, form="papre"),
            "one of corrected, paper; got 'papre'. Did you mean 'paper'",
        ),
        (lambda: mlp_complexity(math.inf, 3, 3, **LINEAR), r"frobenius_norm must be in \[0, inf\); got inf"),
        (
            lambda: mlp_complexity(1.0, 3, 3, mixing_norms=[1.0, math.nan], **LINEAR),
            r"mlp_complexity.mixing_norms\[1\] must be in \[0, inf\); got nan",
        ),
        (
            lambda: mlp_complexity(1.0, 3, 3, bias=True, form="paper", **LINEAR),
            'mlp_complexity: form="paper" has no biases; use form="corrected", or append a column of ones',
        ),
        (
            lambda: nonlinear_mlp_complexity(1.0, 3, 3, mixing_norms=[], **LINEAR),
            "one operator norm per hop after the first; got 0 and 0. Without a hop, use mlp_complexity",
        ),
        (
            lambda: nonlinear_mlp_complexity(1.0, 3, 3, mixing_norms=[1.0], operator_norms=[1.0], **LINEAR),
            "got 1 and 1",
        ),
        (lambda: inductive_bound(-0.1, 3, 3), r"inductive_bound.inductive must be in \[0, inf\); got -0.1"),
        (lambda: trade_off(1.0, 1.0), "trade_off needs alpha > beta; got alpha = 1.0 and beta = 1.0"),
        (lambda: trade_off(1.0, -0.5), r"trade_off.beta must be in \[0, inf\); got -0.5"),
    ],
)
def test_settings_that_cannot_work_are_named(call: Callable[[], float], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        call()
