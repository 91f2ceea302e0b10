from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax

from gbgnn.errors import ParameterError
from gbgnn.theory import margin_constant, training_bound


@settings(max_examples=2000)
@given(score=st.floats(-1000, 1000), delta=st.floats(0, 0.999))
def test_margin_error_is_at_most_kappa_times_the_residual(score: float, delta: float) -> None:
    """``score`` is that of the true class: a node within the margin has a residual of at least 1 / kappa."""
    residual = math.exp(-np.logaddexp(0, score))  # 1 - p
    if math.tanh(score / 2) < delta:
        assert margin_constant(delta) * residual >= 1 - 1e-9
    if score < delta:
        assert margin_constant(delta, "logit") * residual >= 1 - 1e-9


@settings(max_examples=1000)
@given(seed=st.integers(0, 10**6), K=st.integers(2, 6), size=st.floats(0.1, 100))
def test_residuals_of_several_scores_are_longer_than_what_is_missing(seed: int, K: int, size: float) -> None:
    p = softmax(size * np.random.default_rng(seed).normal(size=K))
    residual = np.eye(K)[0] - p
    assert 1 - p[0] <= np.linalg.norm(residual) * math.sqrt((K - 1) / K) + 1e-12


def test_no_smaller_share_does() -> None:
    p = np.array([0.4, 0.2, 0.2, 0.2])
    assert 1 - p[0] == pytest.approx(np.linalg.norm(np.eye(4)[0] - p) * math.sqrt(3 / 4))
    bounds = [training_bound(1.0, 1.0, smoothness=0.5, n_labelled=9, n_scores=K) for K in (1, 4)]
    assert bounds[1] == pytest.approx(bounds[0] * math.sqrt(3 / 4))
    printed = {
        training_bound(1.0, 1.0, smoothness=0.5, n_labelled=9, n_scores=K, form="paper") for K in (1, 4)
    }
    assert len(printed) == 1


def test_no_smaller_kappa_does() -> None:
    for delta in (0.0, 0.3, 0.9):
        score = 2 * math.atanh(delta) - 1e-9
        assert margin_constant(delta) * (1 / (1 + math.exp(score))) == pytest.approx(1, abs=1e-6)
        assert margin_constant(delta, "logit") * (1 / (1 + math.exp(delta - 1e-9))) == pytest.approx(1)


NUMBERS = st.floats(1e-3, 1e3)


@settings(max_examples=500)
@given(loss=NUMBERS, gamma=NUMBERS, A=NUMBERS, M=st.integers(1, 10**6), delta=st.floats(0, 0.9))
def test_bounds_move_with_their_arguments(loss: float, gamma: float, A: float, M: int, delta: float) -> None:
    for form in ("corrected", "paper"):

        def bound(loss=loss, gamma=gamma, A=A, M=M, delta=delta, form=form) -> float:
            return training_bound(loss, gamma, smoothness=A, n_labelled=M, delta=delta, form=form)

        assert bound(loss=2 * loss) > bound()
        assert bound(A=2 * A) > bound()
        assert bound(gamma=2 * gamma) < bound()
        assert bound(delta=min(0.95, delta + 0.05)) > bound()
        assert bound(M=M + 1) <= bound()
    assert bound(form="corrected", gamma=4 * gamma) == pytest.approx(bound(form="corrected") / 2)
    assert bound(form="paper", gamma=4 * gamma) == pytest.approx(bound(form="paper") / 4)


def test_without_certified_rounds_there_is_no_bound() -> None:
    for form in ("corrected", "paper"):
        assert training_bound(1.0, 0.0, smoothness=0.25, n_labelled=1, form=form) == math.inf


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"delta": 1.0}, r"delta must be in \[0, 1\); got 1.0"),
        ({"delta": -0.1}, "delta must be in"),
        ({"margin": "hinge"}, "margin must be one of probability, logit; got 'hinge'"),
        ({"form": "printed"}, "form must be one of corrected, paper"),
        ({"n_scores": 0}, "n_scores must be an integer >= 1"),
        ({"n_labelled": 0}, "n_labelled must be an integer >= 1"),
    ],
)
def test_bad_arguments_are_named(arguments: dict, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        training_bound(1.0, 1.0, **{"smoothness": 0.25, "n_labelled": 10, **arguments})
