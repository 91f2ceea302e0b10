"""Losses of classes and labels: cross entropies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional

from gbgnn.losses.base import Loss


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

    Parameters
    ----------
    label_weights
        For every column what a 0 and what a 1 in it weigh; None weighs all alike.

    Examples
    --------
    >>> loss = SigmoidCrossEntropy()
    >>> loss.gradient(torch.zeros(2, 1), torch.tensor([0, 1])).tolist()
    [[0.5], [-0.5]]
    """

    label_weights: Sequence[Sequence[float]] | None = None

    takes = "binary"
    takes_members = True

    @property
    def smoothness(self) -> float:  # type: ignore[override]
        """A quarter, times the largest weight."""
        return 0.25 * max((max(pair) for pair in self.label_weights or ()), default=1.0)

    def values(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the cross entropy of each row, summed over its columns."""
        signs = 2 * _with_column(targets, scores.dtype) - 1
        return self._weigh(functional.softplus(-signs * scores, threshold=40), targets).sum(dim=-1)

    def encode(self, targets: torch.Tensor, n_outputs: int, dtype: torch.dtype) -> torch.Tensor:
        """Return targets with a column, be there one score or several."""
        return _with_column(targets, dtype)

    def gradient(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return sigmoid(s) - y."""
        signs = 2 * _with_column(targets, scores.dtype) - 1
        # The same without a difference, which for a score of 40 would round to 0.
        return self._weigh(-signs * (-signs * scores).sigmoid(), targets)

    def curvature(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return p (1 - p), p the sigmoid of the scores."""
        return self._weigh(scores.sigmoid() * (-scores).sigmoid(), targets)

    def link(self, scores: torch.Tensor) -> torch.Tensor:
        """Return sigmoid(s)."""
        return scores.sigmoid()

    def _weigh(self, entries: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        if self.label_weights is None:
            return entries
        off, on = torch.as_tensor(self.label_weights, dtype=entries.dtype, device=entries.device).unbind(-1)
        return entries * (off + (on - off) * _with_column(targets, entries.dtype))


def softmax(scores: torch.Tensor) -> torch.Tensor:
    """Return the softmax of rows, column by column: beside few classes that is ten times as fast on a CPU."""
    return scores.mT.softmax(dim=-2).mT


def _with_column(targets: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return targets as numbers; of one score per row, they may lack the column."""
    return (targets if targets.ndim > 1 else targets[:, None]).to(dtype)
