from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gbgnn.losses import Loss, SigmoidCrossEntropy, SoftmaxCrossEntropy

CASES = [(SoftmaxCrossEntropy(), 3), (SoftmaxCrossEntropy(), 2), (SigmoidCrossEntropy(), 2)]


@settings(max_examples=100)
@given(seed=st.integers(0, 10**6), case=st.sampled_from(CASES), scale=st.sampled_from([0.1, 3.0, 1e3]))
def test_residuals_are_the_negative_gradient(seed: int, case: tuple[Loss, int], scale: float) -> None:
    loss, n_classes = case
    random = torch.Generator().manual_seed(seed)
    scores = scale * torch.randn(5, loss.n_outputs(n_classes), generator=random, dtype=torch.float64)
    targets = torch.randint(n_classes, (5,), generator=random)
    scores.requires_grad_()
    values = loss.values(scores, targets)
    values.sum().backward()
    assert (values >= 0).all()
    torch.testing.assert_close(loss.residuals(scores.detach(), targets), -scores.grad)


@settings(max_examples=200)
@given(seed=st.integers(0, 10**6), case=st.sampled_from(CASES), scale=st.sampled_from([0.1, 1.0, 10.0]))
def test_smoothness_bounds_the_hessian_and_is_nearly_reached(
    seed: int, case: tuple[Loss, int], scale: float
) -> None:
    loss, n_classes = case
    scores = scale * torch.randn(
        loss.n_outputs(n_classes), generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    target = torch.tensor([0])
    hessian = torch.autograd.functional.hessian(lambda s: loss.values(s[None], target).sum(), scores)
    assert torch.linalg.eigvalsh(hessian).max() <= loss.smoothness + 1e-12
    flat = torch.zeros(loss.n_outputs(2), dtype=torch.float64)
    flat_hessian = torch.autograd.functional.hessian(lambda s: loss.values(s[None], target).sum(), flat)
    assert torch.linalg.eigvalsh(flat_hessian).max() == pytest.approx(loss.smoothness)


@pytest.mark.parametrize(("loss", "n_classes"), CASES)
def test_probabilities_and_predictions_agree(loss: Loss, n_classes: int) -> None:
    scores = torch.randn(50, loss.n_outputs(n_classes), generator=torch.Generator().manual_seed(0))
    proba = loss.proba(scores)
    assert proba.shape == (50, n_classes)
    torch.testing.assert_close(proba.sum(dim=1), torch.ones(50))
    assert torch.equal(proba.argmax(dim=1), loss.predict(scores))


def test_sigmoid_equals_softmax_of_half_the_score_on_each_side() -> None:
    score = torch.linspace(-5, 5, 11, dtype=torch.float64)[:, None]
    pair = torch.cat([-score / 2, score / 2], dim=1)
    targets = torch.arange(11) % 2
    torch.testing.assert_close(SigmoidCrossEntropy().proba(score), SoftmaxCrossEntropy().proba(pair))
    torch.testing.assert_close(
        SigmoidCrossEntropy().values(score, targets), SoftmaxCrossEntropy().values(pair, targets)
    )


def test_huge_scores_stay_finite() -> None:
    for sign in (1, -1):
        value = SigmoidCrossEntropy().values(torch.tensor([[sign * 1e3]]), torch.tensor([1]))
        assert float(value) == pytest.approx(0 if sign == 1 else 1e3)


def test_weighted_mean() -> None:
    loss = SoftmaxCrossEntropy()
    scores, targets = torch.tensor([[0.0, 0.0], [math.log(3), 0.0]]), torch.tensor([0, 0])
    values = np.array([math.log(2), math.log(4 / 3)])
    assert loss.mean(scores, targets) == pytest.approx(values.mean(), rel=1e-6)
    weights = torch.tensor([0.25, 0.75])
    assert loss.mean(scores, targets, weights) == pytest.approx(values @ [0.25, 0.75], rel=1e-6)
