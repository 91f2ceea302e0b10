from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch.nn import functional

from gbgnn.losses import LOSSES, Loss, SigmoidCrossEntropy, SoftmaxCrossEntropy, SquaredError
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
    assert {name: (kind, kind.takes, kind.smoothness) for name, kind in LOSSES.items()} == {
        "softmax": (SoftmaxCrossEntropy, "classes", 0.5),
        "sigmoid": (SigmoidCrossEntropy, "binary", 0.25),
        "squared": (SquaredError, "numbers", 2.0),
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
        "numbers": NUMBERS,
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
