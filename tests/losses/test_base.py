from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from torch.nn import functional

from gbgnn.losses import (
    LOSSES,
    AbsoluteError,
    Huber,
    Loss,
    Poisson,
    Quantile,
    SigmoidCrossEntropy,
    SoftmaxCrossEntropy,
    SquaredError,
)
from gbgnn.testing import check_loss


@dataclass(kw_only=True, eq=False, repr=False)
class LogCosh(Loss):
    """A loss of one's own: like the squared error nearby, like the absolute error far away."""

    takes = "numbers"
    smoothness = 1.0

    def values(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = (scores - targets).abs()
        return (x + functional.softplus(-2 * x) - math.log(2)).sum(dim=1)

    def gradient(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return (scores - targets).tanh()

    def curvature(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return 1 - (scores - targets).tanh().square()

    def link(self, scores: torch.Tensor) -> torch.Tensor:
        return scores


class WrongSign(LogCosh):
    def gradient(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return -super().gradient(scores, targets)


class TooFlat(LogCosh):
    def curvature(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return super().curvature(scores, targets) / 2


class TooSmooth(LogCosh):
    smoothness = 0.5


SCORES = torch.randn(6, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
NUMBERS = torch.randn(6, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def test_family_is_abstract() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Loss()


def test_a_loss_of_ones_own_passes_the_check() -> None:
    check_loss(LogCosh(), SCORES, NUMBERS)


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (WrongSign(), "wrong gradient"),
        (TooFlat(), "wrong curvature"),
        (TooSmooth(), "the curvature exceeds smoothness"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_broken_loss_does_not(loss: Loss, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_loss(loss, torch.zeros(6, 2), NUMBERS)


def test_names_stand_for_losses_and_kinds_of_targets() -> None:
    assert {name: (kind, kind.takes, kind().smoothness) for name, kind in LOSSES.items()} == {
        "softmax": (SoftmaxCrossEntropy, "classes", 0.5),
        "sigmoid": (SigmoidCrossEntropy, "binary", 0.25),
        "squared": (SquaredError, "numbers", 2.0),
        "absolute": (AbsoluteError, "numbers", None),
        "huber": (Huber, "numbers", 1.0),
        "quantile": (Quantile, "numbers", None),
        "poisson": (Poisson, "numbers", None),
    }
    assert all(repr(clone(kind())) == f"{kind.__name__}()" for kind in LOSSES.values())


def test_weighted_mean() -> None:
    loss = SoftmaxCrossEntropy()
    scores, targets = torch.tensor([[0.0, 0.0], [math.log(3), 0.0]]), torch.tensor([0, 0])
    values = np.array([math.log(2), math.log(4 / 3)])
    assert loss.mean(scores, targets) == pytest.approx(values.mean(), rel=1e-6)
    weights = torch.tensor([0.25, 0.75])
    assert loss.mean(scores, targets, weights) == pytest.approx(values @ [0.25, 0.75], rel=1e-6)


@pytest.mark.parametrize("loss", [kind() for kind in LOSSES.values()], ids=repr)
def test_everything_is_in_the_precision_of_the_scores_but_the_mean(loss: Loss) -> None:
    """A mean over many rows is a sum that single precision would not hold."""
    targets = {
        "classes": torch.arange(6) % 2,
        "binary": torch.arange(12).view(6, 2) % 2,
        "numbers": NUMBERS.abs(),
    }[loss.takes]
    for dtype in (torch.float32, torch.float64):
        scores = SCORES.to(dtype)
        results = [part(scores, targets) for part in (loss.values, loss.gradient, loss.curvature)]
        assert {result.dtype for result in [*results, loss.link(scores)]} == {dtype}
    many = torch.tensor([[0.1, 0.3]]).expand(10**5, 2)
    repeated = targets[:1].expand(10**5, *targets.shape[1:])
    assert float(loss.mean(many, repeated)) == pytest.approx(
        float(loss.mean(many[:1], repeated[:1])), rel=1e-12
    )


class SquaresByRow(SquaredError):  # noqa: N818
    """The same formula, by a table with one axis of rows."""

    def values(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return (scores - targets).square().sum(dim=1)

    def gradient(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        assert scores.ndim == 2
        return 2 * (scores - targets)


@pytest.mark.parametrize(
    "loss", [SoftmaxCrossEntropy(), SigmoidCrossEntropy(), SquaredError(), SquaresByRow()], ids=repr
)
@pytest.mark.parametrize("each", [False, True], ids=["targets of all", "targets of each"])
def test_many_models_are_evaluated_at_once(loss: Loss, each: bool) -> None:
    random = torch.Generator().manual_seed(0)
    scores = torch.randn(3, 5, 2, generator=random, dtype=torch.float64)
    shape = (3, 5) if each else (5,)
    targets = torch.randint(0, 2, shape if loss.takes == "classes" else (*shape, 2), generator=random)
    targets = targets if loss.takes == "classes" else targets.double()
    for method in ("values", "gradient", "curvature"):
        together = loss.evaluate(method, scores, targets)
        for i in range(3):
            alone = getattr(loss, method)(scores[i], targets[i] if each else targets)
            torch.testing.assert_close(together[i], alone)
    torch.testing.assert_close(loss.evaluate("link", scores)[1], loss.link(scores[1]))


def test_a_subclass_with_a_formula_of_its_own_is_not_taken_to_know_of_members() -> None:
    assert SquaredError.takes_members
    assert not SquaresByRow.takes_members


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


NUMBER = st.one_of(st.floats(-5, 5), st.sampled_from([0.0, 40.0, -40.0, 700.0, -700.0, 1e6]))


@settings(max_examples=60)
@given(st.integers(1, 3), st.data())
def test_squared_error_agrees_with_autograd_at_any_score(n_columns: int, data: st.DataObject) -> None:
    size = 2 * n_columns
    scores, targets = (
        torch.tensor(data.draw(st.lists(NUMBER, min_size=size, max_size=size)), dtype=torch.float64)
        for _ in range(2)
    )
    check_loss(SquaredError(), scores.view(2, n_columns), targets.view(2, n_columns))


def test_squared_error_by_hand() -> None:
    loss, scores, targets = SquaredError(), torch.tensor([[0.0, 0.0], [1.0, 3.0]]), torch.ones(2, 2)
    assert loss.values(scores, targets).tolist() == [2.0, 4.0]
    assert loss.gradient(scores, targets).tolist() == [[-2.0, -2.0], [0.0, 4.0]]
    assert loss.curvature(scores, targets).tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert loss.link(scores) is scores
    assert scores.tolist() == [[0.0, 0.0], [1.0, 3.0]]  # the gradient is no view of it


def test_a_step_of_squared_error_of_one_over_the_smoothness_lands_on_the_target() -> None:
    loss, targets = SquaredError(), torch.tensor([[2.0], [-7.0]])
    scores = torch.tensor([[1.0], [1.0]])
    landed = scores - loss.gradient(scores, targets) / loss.smoothness
    assert loss.mean(landed, targets) == pytest.approx(0)
