"""Losses of the scores on labelled rows: values, gradient, curvature, link."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from sklearn.base import BaseEstimator
from torch.nn import functional


class Loss(BaseEstimator, ABC):
    """A convex loss of score rows, shape (n, K), beside targets of one of three kinds.

    Everything is computed in the precision of the scores, without asking the device for a number, and without
    a difference of nearly equal numbers: at a score of 40 there still is a gradient. A loss of one's own is a
    few lines::

        @dataclass(kw_only=True, eq=False, repr=False)
        class Focal(Loss):
            takes = "classes"
            smoothness = None  # no bound of the curvature: rounds come without a promise

            def values(self, scores, targets): ...
            def gradient(self, scores, targets): ...
            def curvature(self, scores, targets): ...
            def link(self, scores):
                return scores.softmax(dim=1)
    """

    takes: ClassVar[str]
    """The kind of targets: ``"classes"`` (indices, shape (n,), and a score per class), ``"binary"`` (0 or 1,
    shape (n, K) or, with one score, (n,)) or ``"numbers"`` (shape (n, K))."""

    smoothness: ClassVar[float | None]
    """The paper's A: the largest eigenvalue the Hessian of a row can have, or None where there is no bound.
    Steps and certificates are made of it."""

    takes_members: ClassVar[bool] = False
    """Whether the methods take scores with an axis of members in front, too; else :meth:`evaluate` puts the
    rows of all members in one table."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Do not take for granted that another formula keeps to the axes that its parent's does."""
        super().__init_subclass__(**options)
        own = set(vars(cls))
        if own & {"values", "gradient", "curvature", "link"} and "takes_members" not in own:
            cls.takes_members = False
        if "gradient" in own and not own & {"encode", "error"}:
            cls.encode, cls.error = Loss.encode, Loss.error  # type: ignore[method-assign]

    @abstractmethod
    def values(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the loss of each row, shape (n,); autograd passes through."""

    @abstractmethod
    def gradient(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return each row's gradient in its scores, shape (n, K)."""

    @abstractmethod
    def curvature(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the diagonal of each row's Hessian, shape (n, K)."""

    @abstractmethod
    def link(self, scores: torch.Tensor) -> torch.Tensor:
        """Return what scores say of the targets: probabilities, or numbers."""

    def encode(self, targets: torch.Tensor, n_outputs: int, dtype: torch.dtype) -> torch.Tensor:
        """Return targets as :meth:`error` wants them; called once before a learner is trained."""
        return targets.to(dtype) if targets.is_floating_point() else targets

    def error(self, outputs: torch.Tensor, encoded: torch.Tensor) -> torch.Tensor:
        """Return each row's gradient for a learner in training, who can do without the last digits."""
        return self.gradient(outputs, encoded)

    def evaluate(self, method: str, scores: torch.Tensor, *targets: torch.Tensor) -> torch.Tensor:
        """Return what a method says of the scores of one model, or of several, shape (members, n, K).

        Targets then are those of every model, or the same for all.
        """
        function: Callable[..., torch.Tensor] = getattr(self, method)
        if scores.ndim == 2 or self.takes_members:
            return function(scores, *targets)
        rows, whole = scores.shape[:-1], scores.shape
        flat = [
            each.expand(whole).flatten(0, -2)
            if each.ndim > 1 and (each.is_floating_point() or self.takes != "classes")
            else each.expand(rows).flatten()
            for each in targets
        ]
        return function(scores.flatten(0, -2), *flat).view(rows if method == "values" else whole)

    def mean(
        self, scores: torch.Tensor, targets: torch.Tensor, weights: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return the average loss in double precision, by ``weights`` (which sum to one) where given."""
        values = self.evaluate("values", scores.double(), targets)
        return values.mean(dim=-1) if weights is None else (values * weights).sum(dim=-1)


@dataclass(kw_only=True, eq=False, repr=False)
class SoftmaxCrossEntropy(Loss):
    r""":math:`-\log \mathrm{softmax}(s)_y`, with one score per class.

    Examples
    --------
    >>> loss = SoftmaxCrossEntropy()
    >>> loss.gradient(torch.zeros(1, 2), torch.tensor([0])).tolist()
    [[-0.5, 0.5]]
    """

    takes = "classes"
    takes_members = True
    # The Hessian diag(p) - p p^T has no eigenvalue above 1/2.
    smoothness = 0.5

    def values(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the cross entropy of each row."""
        own = targets.expand(scores.shape[:-1])[..., None]
        return -scores.log_softmax(dim=-1).gather(-1, own)[..., 0]

    def gradient(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return softmax(s) - one-hot(y)."""
        own = targets.expand(scores.shape[:-1])[..., None]
        others = softmax(scores).scatter_(-1, own, 0.0)
        # p - 1 of a node that is all but certain would round to 0; the sum of the others does not.
        return others.scatter_(-1, own, -others.sum(dim=-1, keepdim=True))

    def encode(self, targets: torch.Tensor, n_outputs: int, dtype: torch.dtype) -> torch.Tensor:
        """Return one-hot rows."""
        return functional.one_hot(targets, n_outputs).to(dtype)

    def error(self, outputs: torch.Tensor, encoded: torch.Tensor) -> torch.Tensor:
        """Return softmax(s) - one-hot(y), as it is rounded."""
        return softmax(outputs).sub_(encoded)

    def curvature(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return p (1 - p), p the softmax of the scores."""
        p = softmax(scores)
        top = p.argmax(dim=-1, keepdim=True)
        # As in the gradient: 1 - p of the likeliest class is the sum of the others.
        return p * (1 - p).scatter_(-1, top, p.scatter(-1, top, 0.0).sum(dim=-1, keepdim=True))

    def link(self, scores: torch.Tensor) -> torch.Tensor:
        """Return softmax(s)."""
        return softmax(scores)


@dataclass(kw_only=True, eq=False, repr=False)
class SigmoidCrossEntropy(Loss):
    r""":math:`\sum_k -y_k \log \sigma(s_k) - (1-y_k) \log(1-\sigma(s_k))`, every column by itself.

    With one column it is the paper's loss for two classes, the score that of the second; with several it is
    that of multi-label classification.

    Examples
    --------
    >>> loss = SigmoidCrossEntropy()
    >>> loss.gradient(torch.zeros(2, 1), torch.tensor([0, 1])).tolist()
    [[0.5], [-0.5]]
    """

    takes = "binary"
    takes_members = True
    smoothness = 0.25

    def values(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the cross entropy of each row, summed over its columns."""
        signs = 2 * _with_column(targets, scores.dtype) - 1
        return functional.softplus(-signs * scores, threshold=40).sum(dim=-1)

    def encode(self, targets: torch.Tensor, n_outputs: int, dtype: torch.dtype) -> torch.Tensor:
        """Return targets with a column, be there one score or several."""
        return _with_column(targets, dtype)

    def gradient(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return sigmoid(s) - y."""
        signs = 2 * _with_column(targets, scores.dtype) - 1
        # The same without a difference, which for a score of 40 would round to 0.
        return -signs * (-signs * scores).sigmoid()

    def curvature(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return p (1 - p), p the sigmoid of the scores."""
        return scores.sigmoid() * (-scores).sigmoid()

    def link(self, scores: torch.Tensor) -> torch.Tensor:
        """Return sigmoid(s)."""
        return scores.sigmoid()


@dataclass(kw_only=True, eq=False, repr=False)
class SquaredError(Loss):
    r""":math:`\|s - y\|^2`, the sum over the columns of a row.

    Examples
    --------
    >>> SquaredError().gradient(torch.tensor([[3.0]]), torch.tensor([[1.0]])).tolist()
    [[4.0]]
    """

    takes = "numbers"
    takes_members = True
    smoothness = 2.0

    def values(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the squared error of each row."""
        return (scores - targets.to(scores.dtype)).square().sum(dim=-1)

    def gradient(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return 2 (s - y)."""
        return (scores - targets.to(scores.dtype)).mul_(2.0)

    def curvature(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return 2, whatever the scores."""
        return torch.full_like(scores, 2.0)

    def link(self, scores: torch.Tensor) -> torch.Tensor:
        """Return the scores themselves."""
        return scores


def softmax(scores: torch.Tensor) -> torch.Tensor:
    """Return the softmax of rows, column by column: beside few classes that is ten times as fast on a CPU."""
    return scores.mT.softmax(dim=-2).mT


def _with_column(targets: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return targets as numbers; of one score per row, they may lack the column."""
    return (targets if targets.ndim > 1 else targets[:, None]).to(dtype)


LOSSES: dict[str, type[Loss]] = {
    "softmax": SoftmaxCrossEntropy,
    "sigmoid": SigmoidCrossEntropy,
    "squared": SquaredError,
}
"""Losses by name."""
