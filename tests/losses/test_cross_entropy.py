from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gbgnn.losses import Loss, SigmoidCrossEntropy, SoftmaxCrossEntropy
from gbgnn.testing import check_loss

CASES: list[tuple[Loss, int]] = [
    (SoftmaxCrossEntropy(), 3),
    (SoftmaxCrossEntropy(), 2),
    (SigmoidCrossEntropy(), 1),
    (SigmoidCrossEntropy(), 4),
]
# Ordinary scores, and those at which a careless formula says 0, infinity or NaN.
SCORE = st.one_of(st.floats(-5, 5), st.sampled_from([0.0, 40.0, -40.0, 700.0, -700.0, 1e4, -1e4]))


def random_targets(loss: Loss, n: int, n_outputs: int, seed: int) -> torch.Tensor:
    random = torch.Generator().manual_seed(seed)
    if loss.takes == "classes":
        return torch.randint(n_outputs, (n,), generator=random)
    return torch.randint(2, (n, n_outputs) if n_outputs > 1 else (n,), generator=random)


@settings(max_examples=150)
@given(case=st.sampled_from(CASES), seed=st.integers(0, 10**6), data=st.data())
def test_gradient_and_curvature_are_those_of_autograd_at_any_score(
    case: tuple[Loss, int], seed: int, data: st.DataObject
) -> None:
    loss, n_outputs = case
    drawn = data.draw(st.lists(SCORE, min_size=3 * n_outputs, max_size=3 * n_outputs))
    scores = torch.tensor(drawn, dtype=torch.float64).view(3, n_outputs)
    targets = random_targets(loss, 3, n_outputs, seed)
    check_loss(loss, scores, targets)
    values, gradient = loss.values(scores, targets), loss.gradient(scores, targets)
    curvature = loss.curvature(scores, targets)
    for result in (values, gradient, curvature, loss.link(scores)):
        assert result.isfinite().all()
    assert (values >= 0).all()
    assert (curvature >= 0).all()
    yes = torch.nn.functional.one_hot(targets, n_outputs) if loss.takes == "classes" else targets
    yes = yes.view(3, n_outputs).bool()
    assert (gradient[yes] <= 0).all()
    assert (gradient[~yes] >= 0).all()


@settings(max_examples=100)
@given(case=st.sampled_from(CASES), seed=st.integers(0, 10**6), scale=st.sampled_from([0.1, 3.0, 1e3]))
def test_single_precision_follows_double(case: tuple[Loss, int], seed: int, scale: float) -> None:
    loss, n_outputs = case
    scores = scale * torch.randn(5, n_outputs, generator=torch.Generator().manual_seed(seed))
    targets = random_targets(loss, 5, n_outputs, seed)
    for part in (loss.values, loss.gradient, loss.curvature):
        single, double = part(scores, targets), part(scores.double(), targets)
        torch.testing.assert_close(single.double(), double, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("dtype", "margin", "accuracy"),
    [(torch.float64, 40.0, 1e-14), (torch.float64, 700.0, 1e-12), (torch.float32, 40.0, 1e-5)],
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_row_that_is_all_but_certain_still_has_its_gradient_and_curvature(
    dtype: torch.dtype, margin: float, accuracy: float, n_classes: int
) -> None:
    """exp(-40) is far below the distance of 1 to the next number, and far above the smallest."""
    tiny = math.exp(-margin)
    scores = torch.zeros(1, n_classes, dtype=dtype)
    scores[0, 1] = margin
    softmax, right = SoftmaxCrossEntropy(), torch.tensor([1])
    expected = [tiny] * n_classes
    expected[1] = -(n_classes - 1) * tiny
    assert softmax.gradient(scores, right)[0].tolist() == pytest.approx(expected, rel=accuracy)
    expected[1] = -expected[1]
    assert softmax.curvature(scores, right)[0].tolist() == pytest.approx(expected, rel=accuracy)
    wrong = softmax.gradient(scores, torch.tensor([0]))[0].tolist()
    assert wrong[:2] == pytest.approx([-1, 1], rel=accuracy)
    sigmoid, pair = SigmoidCrossEntropy(), torch.tensor([[margin], [-margin]], dtype=dtype)
    for labels, signs in (([1, 0], [-tiny, tiny]), ([0, 1], [1, -1])):
        gradient = sigmoid.gradient(pair, torch.tensor(labels))[:, 0].tolist()
        assert gradient == pytest.approx(signs, rel=accuracy)
    curvature = sigmoid.curvature(pair, torch.tensor([0, 1]))[:, 0].tolist()
    assert curvature == pytest.approx([tiny, tiny], rel=accuracy)
    assert sigmoid.values(pair, torch.tensor([1, 0])).tolist() == pytest.approx([tiny, tiny], rel=accuracy)


@pytest.mark.parametrize(("loss", "n_outputs"), CASES)
def test_smoothness_is_reached_between_two_classes(loss: Loss, n_outputs: int) -> None:
    """The bound that check_loss holds every Hessian to is the best there is."""
    flat = torch.zeros(2 if loss.takes == "classes" else n_outputs, dtype=torch.float64)
    target = torch.tensor([0]) if loss.takes == "classes" else torch.zeros(1, n_outputs)
    hessian = torch.autograd.functional.hessian(lambda s: loss.values(s[None], target).sum(), flat)
    assert float(torch.linalg.eigvalsh(hessian).max()) == pytest.approx(loss.smoothness)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_softmax_links_to_probabilities_that_sum_to_one(n_classes: int) -> None:
    scores = torch.randn(50, n_classes, generator=torch.Generator().manual_seed(0))
    proba = SoftmaxCrossEntropy().link(scores)
    torch.testing.assert_close(proba.sum(dim=1), torch.ones(50))
    assert torch.equal(proba.argmax(dim=1), scores.argmax(dim=1))


def test_sigmoid_equals_softmax_of_half_the_score_on_each_side() -> None:
    score = torch.linspace(-5, 5, 11, dtype=torch.float64)[:, None]
    pair = torch.cat([-score / 2, score / 2], dim=1)
    targets = torch.arange(11) % 2
    torch.testing.assert_close(SigmoidCrossEntropy().link(score), SoftmaxCrossEntropy().link(pair)[:, 1:])
    torch.testing.assert_close(
        SigmoidCrossEntropy().values(score, targets), SoftmaxCrossEntropy().values(pair, targets)
    )


def test_sigmoid_of_several_columns_is_each_by_itself() -> None:
    random = torch.Generator().manual_seed(0)
    scores = 3 * torch.randn(20, 4, generator=random, dtype=torch.float64)
    targets = torch.randint(2, (20, 4), generator=random)
    loss = SigmoidCrossEntropy()
    columns = [(scores[:, [k]], targets[:, k]) for k in range(4)]
    torch.testing.assert_close(loss.values(scores, targets), sum(loss.values(*column) for column in columns))
    for part in (loss.gradient, loss.curvature):
        torch.testing.assert_close(part(scores, targets), torch.hstack([part(*column) for column in columns]))
    expected = torch.nn.functional.binary_cross_entropy_with_logits(
        scores, targets.double(), reduction="none"
    )
    torch.testing.assert_close(loss.values(scores, targets), expected.sum(dim=1))


def test_huge_scores_stay_finite() -> None:
    for sign in (1, -1):
        value = SigmoidCrossEntropy().values(torch.tensor([[sign * 1e3]]), torch.tensor([1]))
        assert float(value) == pytest.approx(0 if sign == 1 else 1e3)


@pytest.mark.parametrize("loss", [SoftmaxCrossEntropy(), SigmoidCrossEntropy()])
def test_scores_and_targets_are_left_alone(loss: Loss) -> None:
    scores, targets = torch.randn(4, 2), torch.tensor([0, 1, 1, 0])
    targets = targets if loss.takes == "classes" else torch.stack([targets, 1 - targets], dim=1)
    before = scores.clone(), targets.clone()
    for part in (loss.values, loss.gradient, loss.curvature):
        part(scores, targets)
    loss.link(scores)
    assert torch.equal(scores, before[0])
    assert torch.equal(targets, before[1])
