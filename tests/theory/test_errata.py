"""Every row of docs/errata.md: the printed statement fails on a concrete case, the corrected one on none."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.linalg import hadamard

from gbgnn.errors import ParameterError
from gbgnn.losses import SigmoidCrossEntropy
from gbgnn.theory import margin_constant, training_bound, weak_learning
from gbgnn.theory.rademacher import (
    confidence_term,
    inductive_bound,
    mlp_complexity,
    nonlinear_mlp_complexity,
    partition_term,
    q_factor,
    s_factor,
    sign_probability,
    trade_off,
)

LOSS = SigmoidCrossEntropy()
A = LOSS.smoothness
NUMBERS = st.integers(-1000, 1000).map(lambda n: n / 100)
VECTORS = arrays(np.float64, 5, elements=NUMBERS)


def sign_patterns(n_nodes: int, p: float) -> tuple[np.ndarray, np.ndarray]:
    """All values of sigma with their probabilities."""
    patterns = np.array(list(itertools.product([-1, 0, 1], repeat=n_nodes)), float)
    used = np.abs(patterns).sum(axis=1)
    return patterns, p**used * (1 - 2 * p) ** (n_nodes - used)


def exact_complexity(vectors: np.ndarray, n_labelled: int, p: float | None = None) -> float:
    """Q E max_j <sigma, v_j> over the columns v_j, by going through all sigma."""
    n_nodes = len(vectors)
    sizes = n_labelled, n_nodes - n_labelled
    patterns, chances = sign_patterns(n_nodes, sign_probability(*sizes) if p is None else p)
    return q_factor(*sizes) * float(chances @ (patterns @ vectors).max(axis=1))


# 1 ----------------------------------------------------------------------------------------------------


def test_1_no_pair_has_the_ratio_sine_squared() -> None:
    Z, g = np.array([3.0, 4.0]), np.array([1.0, 0.0])  # cos 0.6, sin 0.8
    ratios = [np.linalg.norm(Z - alpha * g) / alpha for alpha in np.geomspace(1e-3, 1e3, 100_000)]
    assert min(ratios) == pytest.approx(0.8, abs=1e-6)  # never 0.64
    with pytest.raises(ParameterError, match="ratio must be in"):
        weak_learning(torch.tensor(Z), torch.tensor(g)).member(0.64)


@settings(max_examples=2000)
@given(Z=VECTORS, g=VECTORS, share=st.floats(0, 0.99))
def test_1_every_ratio_from_the_sine_on_has_one(Z: np.ndarray, g: np.ndarray, share: float) -> None:
    quality = weak_learning(torch.tensor(Z), torch.tensor(g))
    if quality.cosine < 1e-3 or np.linalg.norm(g) < 1e-3:
        return
    ratio = quality.sine + share * (1 - quality.sine)
    pair = quality.member(min(ratio, 1 - 1e-9))
    distance = np.linalg.norm(Z - pair.alpha * g) / np.linalg.norm(g)
    assert distance == pytest.approx(pair.beta, abs=1e-5 * pair.alpha)


# 2 ----------------------------------------------------------------------------------------------------


def test_2_weights_with_signs_call_a_bad_learner_good() -> None:
    g, Z = np.array([-3.0, 1.0]), np.array([1.0, 1.0])  # wrong where it matters
    printed = g / np.abs(g).sum()
    assert printed[np.sign(g) != Z].sum() < 0.5  # "better than a coin"
    assert Z @ g < 0  # but it is not
    assert weak_learning(torch.tensor(Z), torch.tensor(g)).edge == pytest.approx(-0.5)


@settings(max_examples=2000)
@given(signs=arrays(bool, 5), g=VECTORS)
def test_2_with_absolute_values_the_two_conditions_are_one(signs: np.ndarray, g: np.ndarray) -> None:
    if np.abs(g).sum() < 1e-6:
        return
    Z = np.where(signs, 1.0, -1.0)
    weights = np.abs(g) / np.abs(g).sum()
    edge = 1 - 2 * weights[np.sign(g) != Z].sum()
    assert edge == pytest.approx(Z @ g / np.abs(g).sum(), abs=1e-9)


# 3 ----------------------------------------------------------------------------------------------------


def run_of_rounds(first_scores: float, gamma: float, n_rounds: int) -> tuple[list[float], list[float], float]:
    """Two nodes, directions with squared cosine ``gamma``; |g|^2 before each round and after the last."""
    Y, y, n_labelled = torch.full((2, 1), first_scores, dtype=torch.float64), torch.ones(2).long(), 2
    norms, gammas, first = [], [], float(LOSS.mean(Y, y))
    for t in range(n_rounds):
        g = -LOSS.gradient(Y, y) / n_labelled
        across = torch.stack([-g[1], g[0]]) * (-1) ** t
        Z = math.sqrt(gamma) * g + math.sqrt(1 - gamma) * across
        quality = weak_learning(Z, g)
        norms.append(quality.gradient_norm**2)
        gammas.append(quality.gamma)
        Y = Y + n_labelled * Z / (A * quality.alpha)
    norms.append(float((LOSS.gradient(Y, y) / n_labelled).norm()) ** 2)
    return norms, gammas, 2 * A * first / n_labelled


def test_3_gammas_paired_with_the_gradients_after_their_rounds_add_up_to_more() -> None:
    # Round 1 follows the gradient exactly (gamma 1) from -4.8 to about -0.84; then 30 rounds with gamma 1/4.
    start = -4.8 + (1 / (1 + math.exp(-4.8))) / A
    norms, gammas, limit = run_of_rounds(start, 0.25, 30)
    printed = 1.0 * norms[0] + sum(gamma * after for gamma, after in zip(gammas, norms[1:], strict=True))
    assert printed > 1.4 * limit
    assert sum(gamma * before for gamma, before in zip(gammas, norms, strict=False)) <= limit


@settings(max_examples=1000)
@given(start=st.floats(-20, 20), gamma=st.floats(0.01, 1), n_rounds=st.integers(1, 20))
def test_3_paired_with_those_before_they_never_do(start: float, gamma: float, n_rounds: int) -> None:
    norms, gammas, limit = run_of_rounds(start, gamma, n_rounds)
    total = sum(gamma * before for gamma, before in zip(gammas, norms, strict=False))
    assert total <= limit * (1 + 1e-9)


# 4 ----------------------------------------------------------------------------------------------------


def test_4_the_printed_constant_is_too_small_for_the_margin_of_probabilities() -> None:
    proba, delta = 0.74, 0.5
    assert 2 * proba - 1 < delta  # an error
    assert (1 + math.exp(delta)) * (1 - proba) < 0.7
    assert margin_constant(delta) * (1 - proba) > 1


@settings(max_examples=2000)
@given(proba=st.floats(0, 1), delta=st.floats(0, 0.999))
def test_4_the_corrected_one_never_is(proba: float, delta: float) -> None:
    if 2 * proba - 1 < delta:
        assert margin_constant(delta) * (1 - proba) >= 1 - 1e-9


# 5 ----------------------------------------------------------------------------------------------------


def test_5_ten_perfect_rounds_leave_every_node_wrong_below_the_printed_bound() -> None:
    n_labelled = 100
    Y, y = torch.full((n_labelled, 1), -50.0, dtype=torch.float64), torch.ones(n_labelled).long()
    first, gamma_total = float(LOSS.mean(Y, y)), 0.0
    for _ in range(10):
        g = -LOSS.gradient(Y, y) / n_labelled
        quality = weak_learning(0.7 * g, g)
        gamma_total += quality.gamma
        assert float(((Y[:, 0] > 0).long() != y).double().mean()) == 1.0
        Y = Y + n_labelled * 0.7 * g / (A * quality.alpha)
    settings = {"smoothness": A, "n_labelled": n_labelled}
    assert gamma_total == pytest.approx(10)
    assert training_bound(first, gamma_total, **settings, form="paper") == pytest.approx(0.05)
    assert training_bound(first, gamma_total, **settings) == pytest.approx(3.162, abs=1e-3)


@settings(max_examples=1000)
@given(
    scores=arrays(np.float64, 4, elements=st.floats(-30, 30)),
    labels=arrays(bool, 4),
    n_rounds=st.integers(1, 15),
    tilt=st.floats(0, 1.4),
    delta=st.sampled_from([0.0, 0.3, 0.9]),
)
def test_5_the_corrected_bound_holds_at_the_smallest_gradient(
    scores: np.ndarray, labels: np.ndarray, n_rounds: int, tilt: float, delta: float
) -> None:
    Y, y = torch.tensor(scores)[:, None], torch.tensor(labels).long()
    first, gamma_total, seen = float(LOSS.mean(Y, y)), 0.0, []
    for _ in range(n_rounds):
        g = -LOSS.gradient(Y, y) / 4
        proba = (Y * (2 * y - 1)[:, None]).sigmoid()  # of its own class
        seen.append((float(g.norm()), float((2 * proba - 1 < delta).double().mean())))
        across = g.roll(1) - (g.roll(1) * g).sum() / (g * g).sum().clamp_min(1e-300) * g
        quality = weak_learning(g + tilt * across, g)
        if quality.cosine < 1e-6 or quality.gradient_norm < 1e-200:
            break
        gamma_total += quality.gamma
        Y = Y + 4 * (g + tilt * across) / (A * quality.alpha)
    bound = training_bound(first, gamma_total, smoothness=A, n_labelled=4, delta=delta)
    assert min(seen)[1] <= bound + 1e-9


# 6 ----------------------------------------------------------------------------------------------------


def test_6_learning_by_heart_with_tiny_scores_beats_the_printed_bound() -> None:
    """All scores in [-1, 1] are allowed, the step is tiny, and labels are coins."""
    random, n_nodes, step = np.random.default_rng(0), 40_000, 1e-9
    M = U = n_nodes // 2
    labels = random.choice([-1.0, 1.0], n_nodes)
    scores = step * np.where(np.arange(n_nodes) < M, labels, random.choice([-1.0, 1.0], n_nodes))
    wrong = np.sign(scores) != labels
    train_error, test_error = wrong[:M].mean(), wrong[M:].mean()
    complexity = q_factor(M, U) * 2 * sign_probability(M, U) * n_nodes  # Q E |sigma|_1
    fixed = partition_term(M, U) + confidence_term(M, U, 0.95)
    assert train_error == 0
    assert test_error > 0.48
    assert train_error + step * complexity + fixed < 0.1  # as printed
    delta = 0.5
    within = (np.tanh(scores / 2) * labels < delta)[:M].mean()
    assert within + step * complexity / (2 * delta) + fixed >= test_error


@settings(max_examples=500)
@given(score=st.floats(-1000, 1000), other=st.floats(-1000, 1000), delta=st.floats(0.01, 0.99))
def test_6_the_ramp_lies_between_the_errors_and_has_the_slope_that_is_divided_by(
    score: float, other: float, delta: float
) -> None:
    def ramp(s: float) -> float:
        return min(1.0, max(0.0, 1 - math.tanh(s / 2) / delta))

    assert (score <= 0) <= ramp(score) <= (math.tanh(score / 2) < delta)
    assert abs(ramp(score) - ramp(other)) <= abs(score - other) / (2 * delta) + 1e-12


# 8 ----------------------------------------------------------------------------------------------------


def test_8_the_printed_constant_forgets_the_norm_of_the_last_layer() -> None:
    X, radius, M = np.random.default_rng(0).normal(size=(8, 3)), 10.0, 3
    norm = float(np.linalg.norm(X))
    exact = exact_complexity(radius * np.c_[X, -X], M)  # the corners of the ball
    arguments = {"n_layers": 1, "max_norm": radius}
    assert mlp_complexity(norm, M, 5, **arguments, form="paper") < exact
    assert mlp_complexity(norm, M, 5, **arguments) >= exact
    assert mlp_complexity(norm, M, 5, n_layers=1, max_norm=1.0, form="paper") == pytest.approx(
        mlp_complexity(norm, M, 5, **arguments, form="paper")
    )


@settings(max_examples=1000)
@given(
    X=arrays(np.float64, (5, 2), elements=NUMBERS),
    radius=st.floats(0.01, 100),
    M=st.integers(1, 4),
)
def test_8_the_corrected_one_never_is_too_small(X: np.ndarray, radius: float, M: int) -> None:
    exact = exact_complexity(radius * np.c_[X, -X], M)
    closed = mlp_complexity(float(np.linalg.norm(X)), M, 5 - M, n_layers=1, max_norm=radius)
    assert exact <= closed * (1 + 1e-9)


# 9 ----------------------------------------------------------------------------------------------------


def test_9_the_sigmoid_is_no_activation_of_the_bound() -> None:
    """Two layers, norms at most B: the hidden units of a zero first layer are the constant 1/2."""
    X, radius, M = np.full((6, 1), 1e-3), 1.0, 3
    constants = radius * 0.5 * np.c_[np.ones(6), -np.ones(6)]
    closed = mlp_complexity(float(np.linalg.norm(X)), M, 3, n_layers=2, max_norm=radius)
    assert exact_complexity(constants, M) > closed
    weights = np.linspace(-radius, radius, 41)
    for activation in (lambda z: np.maximum(z, 0), np.tanh):
        hidden = activation(X * weights)
        assert exact_complexity(np.c_[hidden, -hidden], M) <= closed


# 10 ----------------------------------------------------------------------------------------------------


def test_10_a_single_function_has_equality() -> None:
    one = np.random.default_rng(0).normal(size=(6, 1))
    assert exact_complexity(one, 2) == pytest.approx(0, abs=1e-12)
    assert exact_complexity(one, 2, p=0.5) == pytest.approx(0, abs=1e-12)


@settings(max_examples=1000)
@given(V=arrays(np.float64, (5, 3), elements=NUMBERS), M=st.integers(1, 4))
def test_10_the_inductive_complexity_is_never_exceeded(V: np.ndarray, M: int) -> None:
    inductive = exact_complexity(V, M, p=0.5) / q_factor(M, 5 - M) / 5
    assert exact_complexity(V, M) <= inductive_bound(max(0.0, inductive), M, 5 - M) + 1e-9


# 11 ----------------------------------------------------------------------------------------------------


def sidon_set(bits: int) -> list[int]:
    """The graph of a -> a^3, a != 0, over the field with 2^bits elements: no two pairs have the same sum."""
    modulus = {2: 0b111, 3: 0b1011, 4: 0b10011}[bits]

    def times(a: int, b: int) -> int:
        product = 0
        for i in range(bits):
            product ^= (a << i) if b >> i & 1 else 0
        for i in range(2 * bits - 2, bits - 1, -1):
            product ^= (modulus << (i - bits)) if product >> i & 1 else 0
        return product

    return [a << bits | times(a, times(a, a)) for a in range(1, 2**bits)]


def walsh_lower_bound(n_nodes: int, n_labelled: int) -> float:
    """Q E sup >= Q sqrt(N)/4 times the chance that a row with a pair is drawn, and no other of its four."""
    n_columns = math.isqrt(n_nodes) - 1
    n_pairs = n_columns * (n_columns - 1) // 2
    used = 2 * sign_probability(n_labelled, n_nodes - n_labelled)
    chance = -math.expm1(n_pairs * math.log1p(-used)) - 3 * used
    return q_factor(n_labelled, n_nodes - n_labelled) * math.sqrt(n_nodes) / 4 * chance


def printed_claim(n_nodes: int, n_labelled: int, form: str) -> float:
    n_columns = math.isqrt(n_nodes) - 1
    return nonlinear_mlp_complexity(
        math.sqrt(n_nodes * n_columns),
        n_labelled,
        n_nodes - n_labelled,
        n_layers=1,
        max_norm=1.0,
        mixing_norms=[1.0, 1.0],
        operator_norms=[1.0],
        form=form,
    )


@pytest.mark.parametrize("bits", [2, 3, 4])
def test_11_the_construction_is_what_the_page_says(bits: int) -> None:
    """By brute force: relu((x_c + x_d)/2) under the orthogonal P has sqrt(N)/4 in the row of x_c x_d."""
    n_nodes, chosen = 4**bits, sidon_set(bits)
    H = hadamard(n_nodes).astype(float)
    P, X = H / math.sqrt(n_nodes), H[:, chosen]
    assert np.linalg.norm(P, 2) == pytest.approx(1)
    rows = set()
    for c, d in itertools.combinations(range(len(chosen)), 2):
        seen = P @ np.maximum((X[:, c] + X[:, d]) / 2, 0)
        row = chosen[c] ^ chosen[d]
        assert seen[row] == pytest.approx(math.sqrt(n_nodes) / 4)
        assert np.count_nonzero(np.abs(seen) > 1e-9) == 4
        rows.add(row)
    assert len(rows) == len(chosen) * (len(chosen) - 1) // 2  # every pair a row of its own


def test_11_the_printed_claim_is_overtaken_as_the_graph_grows() -> None:
    ratios = [walsh_lower_bound(4**k, 1) / printed_claim(4**k, 1, "paper") for k in range(5, 26)]
    assert all(later > earlier for earlier, later in itertools.pairwise(ratios))
    assert ratios[0] < 1
    assert walsh_lower_bound(2**40, 1) > 7 * printed_claim(2**40, 1, "paper")


@settings(max_examples=500)
@given(k=st.integers(2, 60), n_labelled=st.integers(1, 1000))
def test_11_the_corrected_bound_never_is(k: int, n_labelled: int) -> None:
    if n_labelled < 4**k:
        assert walsh_lower_bound(4**k, n_labelled) <= printed_claim(4**k, n_labelled, "corrected")


# 12 ----------------------------------------------------------------------------------------------------


@settings(max_examples=300)
@given(M=st.integers(1, 3), alpha=st.floats(0.1, 10), share=st.floats(0, 0.99), seed=st.integers(0, 10**6))
def test_12_the_sharper_lower_bound_holds(M: int, alpha: float, share: float, seed: int) -> None:
    """V has, for each sign pattern g, one Z at distance beta |g| from alpha g, in a random direction."""
    beta = share * alpha
    patterns, _ = sign_patterns(4, 0.25)
    shifts = np.random.default_rng(seed).normal(size=patterns.shape)
    shifts *= (
        beta * np.linalg.norm(patterns, axis=1, keepdims=True) / np.linalg.norm(shifts, axis=1, keepdims=True)
    )
    V = (alpha * patterns + shifts).T
    sharp, printed = trade_off(alpha, beta, sharp=True), trade_off(alpha, beta)
    assert printed <= sharp * (1 + 1e-12)
    assert exact_complexity(V, M) >= sharp * (1 - 1e-9)


def test_12_the_sharper_one_is_attained() -> None:
    patterns, _ = sign_patterns(4, 0.25)
    assert exact_complexity(0.5 * patterns.T, 2) == pytest.approx(trade_off(1.0, 0.5, sharp=True))


# 13 ---------------------------------------------------------------------------------------------------


@given(M=st.integers(1, 10**6), U=st.integers(1, 10**6))
def test_13_the_printed_s_is_never_smaller_than_its_source_s(M: int, U: int) -> None:
    assert s_factor(M, U, form="paper") >= s_factor(M, U)
    assert round(s_factor(1, 99, form="paper"), 2) == 2.01
    assert round(s_factor(1, 99), 2) == 1.01


# 14 ---------------------------------------------------------------------------------------------------


def test_14_the_norm_of_columns_is_too_small_by_the_root_of_m() -> None:
    n, y = 100, torch.ones(100).long()
    Y = torch.full((n, 1), math.log(0.4 / 0.6), dtype=torch.float64)
    gradient = LOSS.gradient(Y, y) / n
    of_columns = float(gradient.norm(dim=0).sum())  # the paper's (2,1)-norm
    error = float((torch.tanh(Y / 2) < 0).double().mean())
    assert error == 1.0
    assert (1 + math.exp(0)) * of_columns == pytest.approx(0.12)
    assert margin_constant(0.0) * math.sqrt(n) * of_columns >= error


# 15 ---------------------------------------------------------------------------------------------------


def test_15_larger_weights_are_a_more_complex_class() -> None:
    X = np.random.default_rng(0).normal(size=(7, 3))
    hull = np.hstack([X, -X])  # corners of the linear heads of norm 1
    assert exact_complexity(10 * hull, 3) == pytest.approx(10 * exact_complexity(hull, 3))
    boosted, tuned = (
        mlp_complexity(float(np.linalg.norm(X)), 3, 4, n_layers=1, max_norm=norm) for norm in (1.0, 10.0)
    )
    assert exact_complexity(10 * hull, 3) > boosted  # of which that of the boosted class says nothing
    assert exact_complexity(10 * hull, 3) <= tuned
