"""Losses of the scores on labelled rows."""

from __future__ import annotations

from gbgnn.losses.base import Loss
from gbgnn.losses.cross_entropy import SigmoidCrossEntropy, SoftmaxCrossEntropy, softmax
from gbgnn.losses.regression import AbsoluteError, Huber, Poisson, Quantile, SquaredError

LOSSES: dict[str, type[Loss]] = {
    "softmax": SoftmaxCrossEntropy,
    "sigmoid": SigmoidCrossEntropy,
    "squared": SquaredError,
    "absolute": AbsoluteError,
    "huber": Huber,
    "quantile": Quantile,
    "poisson": Poisson,
}
"""Losses by name."""

__all__ = [
    "LOSSES",
    "AbsoluteError",
    "Huber",
    "Loss",
    "Poisson",
    "Quantile",
    "SigmoidCrossEntropy",
    "SoftmaxCrossEntropy",
    "SquaredError",
    "softmax",
]
