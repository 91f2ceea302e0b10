"""Losses of the scores on labelled rows: values, gradient, curvature, link."""

from gbgnn.losses.base import Loss
from gbgnn.losses.cross_entropy import SigmoidCrossEntropy, SoftmaxCrossEntropy
from gbgnn.losses.squared import SquaredError

LOSSES: dict[str, type[Loss]] = {
    "softmax": SoftmaxCrossEntropy,
    "sigmoid": SigmoidCrossEntropy,
    "squared": SquaredError,
}
"""Losses by name."""

__all__ = ["LOSSES", "Loss", "SigmoidCrossEntropy", "SoftmaxCrossEntropy", "SquaredError"]
