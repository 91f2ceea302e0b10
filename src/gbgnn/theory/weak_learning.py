"""The weak learning condition: how well a learner points along the negative gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class WeakLearning:
    r"""How a direction Z meets the condition :math:`\|Z - \alpha g\| \le \beta \|g\|, \alpha > \beta \ge 0`.

    It can be met if and only if :math:`\langle Z, g\rangle > 0`; the tightest member of the family is
    :math:`\alpha = \|Z\|^2 / \langle Z, g\rangle`, :math:`\beta = \alpha \sin`, :math:`\gamma = \cos^2`.
    Where the condition fails, alpha, beta and gamma are None.
    """

    inner: float
    direction_norm: float
    gradient_norm: float

    @property
    def cosine(self) -> float:
        """Cosine of the angle between direction and negative gradient; 0 when either vanishes."""
        product = self.direction_norm * self.gradient_norm
        return max(-1.0, min(1.0, self.inner / product)) if product > 0 else 0.0

    @property
    def is_met(self) -> bool:
        """Whether the condition holds for some alpha > beta >= 0."""
        return self.cosine > 0

    @property
    def alpha(self) -> float | None:
        """The scale of the negative gradient that the direction is nearest to, in the tightest form."""
        return self.direction_norm**2 / self.inner if self.is_met else None

    @property
    def beta(self) -> float | None:
        """The distance from it, in units of the gradient's norm."""
        alpha = self.alpha
        return None if alpha is None else alpha * math.sqrt(1 - self.cosine**2)

    @property
    def gamma(self) -> float | None:
        """1 - (beta / alpha)^2, the round's progress: the squared cosine."""
        return self.cosine**2 if self.is_met else None


def weak_learning(direction: torch.Tensor, gradient: torch.Tensor) -> WeakLearning:
    """Compare a direction Z with the negative gradient g, arrays of the same shape.

    Examples
    --------
    >>> quality = weak_learning(torch.tensor([3.0, 4.0]), torch.tensor([1.0, 0.0]))
    >>> round(quality.cosine, 6), round(quality.alpha, 6), round(quality.gamma, 6)
    (0.6, 8.333333, 0.36)
    """
    Z, g = direction.double(), gradient.double()
    return WeakLearning(float((Z * g).sum()), float(Z.norm()), float(g.norm()))
