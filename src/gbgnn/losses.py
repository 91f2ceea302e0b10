"""Losses of the scores on the labelled rows: value, negative gradient, link to probabilities."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch.nn import functional


class Loss(ABC):
    """A convex loss whose curvature along any score row is at most ``smoothness``.

    Scores are per class, shape (n, n_outputs); targets are class indices, shape (n,). Everything is
    computed in double precision, so that what is said of a round is not rounding noise.
    """

    smoothness: float
    """The paper's A: the largest eigenvalue the Hessian of one row can have."""

    @abstractmethod
    def n_outputs(self, n_classes: int) -> int:
        """Return the number of score columns for ``n_classes`` classes."""

    @abstractmethod
    def values(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the loss of each row."""

    @abstractmethod
    def residuals(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return each row's negative gradient in its scores."""

    @abstractmethod
    def proba(self, scores: torch.Tensor) -> torch.Tensor:
        """Return class probabilities, shape (n, n_classes)."""

    @abstractmethod
    def predict(self, scores: torch.Tensor) -> torch.Tensor:
        """Return the index of the likeliest class of each row."""

    def mean(self, scores: torch.Tensor, targets: torch.Tensor, weights: torch.Tensor | None = None) -> float:
        """Return the average loss, weighted by ``weights`` (which sum to one) where given."""
        values = self.values(scores, targets)
        return float(values.mean() if weights is None else (values * weights).sum())


class SoftmaxCrossEntropy(Loss):
    r""":math:`-\log \mathrm{softmax}(s)_y`, with one score per class.

    Examples
    --------
    >>> loss = SoftmaxCrossEntropy()
    >>> loss.residuals(torch.zeros(1, 2), torch.tensor([0])).tolist()
    [[0.5, -0.5]]
    """

    # The Hessian diag(p) - p p^T has no eigenvalue above 1/2.
    smoothness = 0.5

    def n_outputs(self, n_classes: int) -> int:
        """One column per class."""
        return n_classes

    def values(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the cross entropy of each row."""
        return functional.cross_entropy(scores.double(), targets, reduction="none")

    def residuals(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return one-hot(y) - softmax(s)."""
        others = self.proba(scores.double()).scatter(1, targets[:, None], 0.0)
        # 1 - p of a node that is all but certain would round to 0; the sum of the others does not.
        return (-others).scatter_(1, targets[:, None], others.sum(dim=1, keepdim=True))

    def proba(self, scores: torch.Tensor) -> torch.Tensor:
        """Return softmax(s)."""
        return scores.softmax(dim=1)

    def predict(self, scores: torch.Tensor) -> torch.Tensor:
        """Return the column of the largest score."""
        return scores.argmax(dim=1)


class SigmoidCrossEntropy(Loss):
    r""":math:`-y \log \sigma(s) - (1-y) \log(1-\sigma(s))`, two classes, one score: of the second class.

    Examples
    --------
    >>> loss = SigmoidCrossEntropy()
    >>> loss.residuals(torch.zeros(2, 1), torch.tensor([0, 1])).tolist()
    [[-0.5], [0.5]]
    """

    smoothness = 0.25

    def n_outputs(self, n_classes: int) -> int:
        """One column, whatever the (two) classes."""
        return 1

    def values(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the cross entropy of each row."""
        signs = 1 - 2 * targets.double()
        return functional.softplus(signs * scores[:, 0].double(), threshold=40)

    def residuals(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return y - sigmoid(s)."""
        signs = 2 * targets.double()[:, None] - 1
        # The same without a difference, which for a score of 40 would round to 0.
        return signs * (-signs * scores.double()).sigmoid()

    def proba(self, scores: torch.Tensor) -> torch.Tensor:
        """Return (1 - sigmoid(s), sigmoid(s))."""
        return torch.cat([(-scores).sigmoid(), scores.sigmoid()], dim=1)

    def predict(self, scores: torch.Tensor) -> torch.Tensor:
        """Return 1 where the score is positive."""
        return (scores[:, 0] > 0).long()
