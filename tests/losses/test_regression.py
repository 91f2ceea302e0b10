"""Losses of numbers, beside scikit-learn's own and beside derivatives by differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from sklearn._loss.loss import AbsoluteError as SkAbsolute
from sklearn._loss.loss import HalfPoissonLoss, HalfSquaredError, HuberLoss, PinballLoss

from gbgnn.errors import GraphError, ParameterError
from gbgnn.losses import AbsoluteError, Huber, Loss, Poisson, Quantile, SquaredError
from gbgnn.testing import check_loss

RANDOM = np.random.default_rng(0)
SCORES, COUNTS = RANDOM.normal(size=40), RANDOM.poisson(2.0, size=40).astype(float)

ORACLES = [
    (SquaredError(), HalfSquaredError(), 2.0),
    (AbsoluteError(), SkAbsolute(), 1.0),
    (Huber(delta=0.7), HuberLoss(delta=0.7), 1.0),
    (Quantile(levels=0.3), PinballLoss(quantile=0.3), 1.0),
    (Poisson(), HalfPoissonLoss(), 1.0),
]
NUMBERS = [SquaredError(), AbsoluteError(), Huber(), Quantile(levels=[0.2, 0.9]), Poisson()]


def column(values: np.ndarray) -> torch.Tensor:
    return torch.as_tensor(values, dtype=torch.float64)[:, None]


@pytest.mark.parametrize(("loss", "oracle", "factor"), ORACLES, ids=lambda each: type(each).__name__)
def test_values_and_gradients_are_those_of_scikit_learn(loss: Loss, oracle: object, factor: float) -> None:
    ours = loss.values(column(SCORES), column(COUNTS)).numpy()
    theirs = factor * oracle.loss(COUNTS, SCORES)
    constant = oracle.constant_to_optimal_zero(COUNTS) if isinstance(loss, Poisson) else 0.0
    np.testing.assert_allclose(ours, theirs + constant, atol=1e-12)
    gradient = loss.gradient(column(SCORES), column(COUNTS)).numpy()[:, 0]
    np.testing.assert_allclose(gradient, factor * oracle.gradient(COUNTS, SCORES), atol=1e-12)


@pytest.mark.parametrize("loss", NUMBERS, ids=repr)
def test_derivatives_are_those_of_autograd(loss: Loss) -> None:
    scores = torch.as_tensor(RANDOM.normal(size=(8, 4)))
    check_loss(loss, scores, torch.as_tensor(RANDOM.poisson(2.0, size=(8, 4)).astype(float)))


@settings(max_examples=100)
@given(
    st.sampled_from(NUMBERS),
    st.floats(-1e4, 1e4),
    st.floats(0, 1e4),
    st.sampled_from([torch.float32, torch.float64]),
)
def test_everything_stays_finite_and_convex(
    loss: Loss, score: float, target: float, dtype: torch.dtype
) -> None:
    scores = torch.tensor([[score, score]], dtype=dtype)
    targets = torch.tensor([[target, target]], dtype=torch.float64)
    for found in (loss.values(scores, targets), loss.gradient(scores, targets), loss.link(scores)):
        assert bool(found.isfinite().all())
    assert float(loss.values(scores, targets)) >= 0
    further = loss.gradient(scores + 1, targets)
    assert bool((further >= loss.gradient(scores, targets)).all())


def test_poisson_near_the_optimum_does_not_cancel() -> None:
    target = torch.tensor([[1e6]], dtype=torch.float64)
    value = Poisson().values(target.log() + 1e-5, target)
    assert float(value) == pytest.approx(1e6 * 1e-10 / 2, rel=1e-5)


def test_poisson_goes_on_as_a_line_where_an_exponential_would_overflow() -> None:
    loss, scores = Poisson(), torch.tensor([[59.0], [61.0], [1000.0]])
    zero = torch.zeros(3, 1)
    assert loss.gradient(scores, zero)[1] == loss.gradient(scores, zero)[2]
    assert bool((loss.values(scores, zero).diff() > 0).all())
    assert loss.curvature(scores, zero)[:, 0].tolist()[1:] == [0.0, 0.0]
    assert bool((loss.link(torch.tensor([[-1e4]])) > 0).all())


@pytest.mark.parametrize("loss", [SquaredError(), AbsoluteError(), Huber(), Quantile(levels=0.8), Poisson()])
def test_a_score_of_zero_is_the_best_constant(loss: Loss) -> None:
    """That of Huber is near it: its own has no closed form."""
    y = RANDOM.gamma(2.0, size=(401, 1))
    centre, scale = loss.standardise(y, "y")
    targets = torch.as_tensor((y - centre) / scale)

    def mean_loss(score: float) -> float:
        return float(loss.mean(torch.full_like(targets, score), targets))

    best = minimize_scalar(mean_loss, bracket=(-0.5, 0.5)).x
    assert best == pytest.approx(0.0, abs=0.3 if isinstance(loss, Huber) else 0.02)


@settings(max_examples=60)
@given(
    st.sampled_from([SquaredError(), AbsoluteError(), Huber(), Quantile(levels=[0.1, 0.5])]),
    st.lists(st.integers(-1000, 1000), min_size=2, max_size=12),
    st.floats(-1e3, 1e3),
    st.floats(1e-3, 1e3),
)
def test_targets_do_not_depend_on_shift_and_unit_of_y(
    loss: Loss, numbers: list[int], shift: float, unit: float
) -> None:
    y = np.array(numbers, float)[:, None]

    def encode(y: np.ndarray) -> np.ndarray:
        centre, scale = loss.standardise(y, "y")
        return (y - centre) / scale

    expected = encode(y) if np.ptp(y) > 0 else np.zeros_like(encode(y))
    np.testing.assert_allclose(encode(shift + unit * y), expected, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("loss", [SquaredError(), AbsoluteError(), Huber(), Quantile(levels=0.3), Poisson()])
def test_a_weight_of_three_is_three_nodes(loss: Loss) -> None:
    random = np.random.default_rng(3)
    y, weights = random.gamma(2.0, size=(41, 2)), random.integers(0, 4, size=41).astype(float)
    repeated = np.repeat(y, weights.astype(int), axis=0)
    found, expected = (
        loss.standardise(y, "y", weights),
        loss.standardise(repeated, "y", np.ones(len(repeated))),
    )
    np.testing.assert_allclose(found, expected)


def test_huber_stands_where_most_of_y_is_one_number() -> None:
    y = np.array([[0.0]] * 9 + [[10.0]])
    centre, scale = Huber().standardise(y, "y")
    assert (centre.tolist(), scale.tolist()) == ([0.0], [1.0])  # the mean distance: 10 / 10


def test_every_number_has_a_score_for_each_level() -> None:
    loss = Quantile(levels=[0.25, 0.75])
    y = np.column_stack([np.arange(5.0), 10 * np.arange(5.0)])
    centre, scale = loss.standardise(y, "y")
    assert centre.tolist() == [1.0, 3.0, 10.0, 30.0]
    assert scale.tolist() == [1.2, 1.2, 12.0, 12.0]
    gradient = loss.gradient(torch.zeros(1, 4), torch.ones(1, 4))
    torch.testing.assert_close(gradient, torch.tensor([[-0.25, -0.75, -0.25, -0.75]]))


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (Huber(delta=0.0), r"Huber.delta must be in \(0, inf\); got 0"),
        (Quantile(levels=1.0), r"Quantile.levels must be in \(0, 1\); got 1.0"),
        (
            Quantile(levels=[0.5, 0.1]),
            r"levels must be ascending, at least one and none twice; got \[0.5, 0.1\]",
        ),
        (Quantile(levels=[]), "levels must be ascending, at least one"),
        (Quantile(levels="median"), r"levels must be numbers in \(0, 1\); got 'median'"),
    ],
    ids=repr,
)
def test_settings_are_checked(loss: Loss, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        loss.check()


def test_counts_must_be_counts() -> None:
    with pytest.raises(GraphError, match="y must not be negative under the Poisson loss; got -3"):
        Poisson().standardise(np.array([[1.0], [-3.0]]), "y")
    with pytest.raises(GraphError, match="y is zero for every training node"):
        Poisson().standardise(np.zeros((3, 1)), "y")
