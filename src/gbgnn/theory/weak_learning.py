"""The weak learning condition: how well a learner points along the negative gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from gbgnn.errors import ParameterError


@dataclass(frozen=True)
class Condition:
    r"""One pair for which :math:`\|Z - \alpha g\| \le \beta \|g\|` holds, with equality."""

    alpha: float
    beta: float
    gamma: float
    """:math:`1 - (\beta / \alpha)^2`: what a step :math:`1/(A\alpha)` earns."""


@dataclass(frozen=True)
class WeakLearning:
    r"""How a direction Z meets the condition :math:`\|Z - \alpha g\| \le \beta \|g\|, \alpha > \beta \ge 0`.

    It can be met if and only if :math:`\langle Z, g\rangle > 0`, and then by a whole family of pairs, one
    or two for every ratio :math:`\beta / \alpha = r \in [\sin, 1)`: see :meth:`member`. The tightest has r =
    sin: :math:`\alpha = \|Z\|^2 / \langle Z, g\rangle` and :math:`\gamma = \cos^2`; it is what ``alpha``,
    ``beta`` and ``gamma`` give. Where the condition fails, they are None.

    Parameters
    ----------
    cosine
        Cosine of the angle between Z and g; 0 when either vanishes.
    direction_norm, gradient_norm
        :math:`\|Z\|` and :math:`\|g\|`.
    edge
        AdaBoost's measure of a learner that says yes or no: with weights :math:`|g_n|` it is right on a share
        (1 + edge) / 2 of the nodes. None for other learners. It is at least the cosine.
    """

    cosine: float
    direction_norm: float
    gradient_norm: float
    edge: float | None = None

    @property
    def inner(self) -> float:
        """The inner product of direction and negative gradient."""
        return self.cosine * self.direction_norm * self.gradient_norm

    @property
    def sine(self) -> float:
        """Sine of the angle, the least ratio beta / alpha."""
        return math.sqrt((1 - self.cosine) * (1 + self.cosine))

    @property
    def is_met(self) -> bool:
        """Whether the condition holds for some alpha > beta >= 0."""
        return self.cosine > 0

    @property
    def tightest(self) -> Condition | None:
        """The member of the family with the largest gamma."""
        if not self.is_met:
            return None
        alpha = self.direction_norm / self.gradient_norm / self.cosine
        return Condition(alpha, alpha * self.sine, self.cosine**2)

    @property
    def alpha(self) -> float | None:
        """The scale of the negative gradient that the direction is nearest to, in the tightest form."""
        tightest = self.tightest
        return None if tightest is None else tightest.alpha

    @property
    def beta(self) -> float | None:
        """The distance from it, in units of the gradient's norm."""
        tightest = self.tightest
        return None if tightest is None else tightest.beta

    @property
    def gamma(self) -> float | None:
        """1 - (beta / alpha)^2, the round's progress: the squared cosine."""
        tightest = self.tightest
        return None if tightest is None else tightest.gamma

    def member(self, ratio: float, *, smaller: bool = False) -> Condition:
        r"""Return the pair with :math:`\beta = r \alpha`.

        .. math:: \alpha = \frac{\|Z\|}{\|g\|} \cdot \frac{\cos \pm \sqrt{r^2 - \sin^2}}{1 - r^2}

        Parameters
        ----------
        ratio
            r, from the sine (the tightest pair) to below 1. The paper has the square of the sine, but below
            the sine the root is of a negative number.
        smaller
            Take the smaller alpha, the minus sign. The two are the same at the sine.

        Examples
        --------
        >>> quality = weak_learning(torch.tensor([3.0, 4.0]), torch.tensor([1.0, 0.0]))
        >>> pair = quality.member(0.9)
        >>> abs((3 - pair.alpha) ** 2 + 4**2 - pair.beta**2) < 1e-12
        True
        """
        if not self.is_met:
            raise ParameterError(
                f"the weak learning condition is not met (cosine {self.cosine:.4g}), so no alpha > beta fits."
            )
        if not self.sine <= ratio < 1:
            raise ParameterError(f"ratio must be in [sine, 1) = [{self.sine:.6g}, 1); got {ratio!r}.")
        root = math.sqrt((ratio - self.sine) * (ratio + self.sine))
        gamma = (1 - ratio) * (1 + ratio)
        scale = self.direction_norm / self.gradient_norm
        # (cos - root) (cos + root) = gamma, so the smaller needs no difference of nearly equal numbers.
        factor = 1 / (self.cosine + root) if smaller else (self.cosine + root) / gamma
        return Condition(scale * factor, ratio * scale * factor, gamma)

    def at_step(self, eta: float, smoothness: float) -> Condition | None:
        r"""Return the pair whose own step :math:`1 / (A \alpha)` is ``eta``, or None where there is none.

        So a step that shrinkage or a rule of its own made shorter or longer than that of the tightest pair is
        the right step of another pair, and whatever is proved of right steps holds for it. With :math:`\nu =
        \eta A \alpha_{tightest}` its gamma is :math:`\nu (2 - \nu) \cos^2`; from twice the tightest step on
        there is no pair left.

        Examples
        --------
        >>> quality = weak_learning(torch.tensor([3.0, 4.0]), torch.tensor([1.0, 0.0]))
        >>> round(quality.at_step(eta=0.5 * 4 / quality.alpha, smoothness=0.25).gamma / quality.gamma, 6)
        0.75
        """
        if not self.is_met or not eta > 0:
            return None
        share = eta * smoothness * self.direction_norm / self.gradient_norm / self.cosine
        gamma = share * (2 - share) * self.cosine**2
        if not gamma > 0:
            return None
        alpha = 1 / (smoothness * eta)
        return Condition(alpha, alpha * math.sqrt(max(0.0, 1 - gamma)), gamma)


def weak_learning(
    direction: torch.Tensor, gradient: torch.Tensor, weights: torch.Tensor | None = None
) -> WeakLearning:
    r"""Compare a direction Z with the negative gradient g.

    Parameters
    ----------
    direction, gradient
        Arrays of the same shape, one row per labelled node.
    weights
        Weight of each row in inner products and norms; None is one for all. With the rows of f and of
        the residuals as they are and weights :math:`s_n / M`, this is the comparison of :math:`Z = f / M`
        with the gradient of a loss that weighs node n by :math:`s_n`.

    Examples
    --------
    >>> quality = weak_learning(torch.tensor([3.0, 4.0]), torch.tensor([1.0, 0.0]))
    >>> round(quality.cosine, 6), round(quality.alpha, 6), round(quality.gamma, 6)
    (0.6, 8.333333, 0.36)
    >>> round(weak_learning(torch.tensor([1.0, -1.0, 1.0]), torch.tensor([0.5, -0.2, -0.3])).edge, 6)
    0.4
    """
    Z, g = direction.double(), gradient.double()
    if Z.shape != g.shape:
        raise ParameterError(
            f"direction has shape {tuple(Z.shape)}, but gradient has shape {tuple(g.shape)}; they must agree."
        )
    w = (Z.new_ones(len(Z)) if weights is None else weights.double()).reshape(-1, *[1] * (Z.ndim - 1))
    (Z_unit, Z_scale), (g_unit, g_scale) = _of_unit_size(w.sqrt() * Z), _of_unit_size(w.sqrt() * g)
    Z_norm, g_norm = float(Z_unit.norm()), float(g_unit.norm())
    inner = float((Z_unit * g_unit).sum())
    cosine = max(-1.0, min(1.0, inner / (Z_norm * g_norm))) if Z_norm > 0 and g_norm > 0 else 0.0
    return WeakLearning(cosine, Z_norm * Z_scale, g_norm * g_scale, _edge(Z, g, w))


def _of_unit_size(vector: torch.Tensor) -> tuple[torch.Tensor, float]:
    """Return a vector divided by a power of two that brings it to size one, and the power.

    Squares of tiny entries then do not vanish, and nothing is rounded: what is orthogonal stays so.
    """
    largest = float(vector.abs().max()) if vector.numel() else 0.0
    scale = 2.0 ** (math.frexp(largest)[1] - 1)
    return vector / scale, scale


def _edge(Z: torch.Tensor, g: torch.Tensor, w: torch.Tensor) -> float | None:
    """Return the weighted share of right signs less that of wrong ones, where Z has one absolute value."""
    total = float((w * g.abs()).sum())
    is_sign_valued = bool(Z.all()) and bool((Z.abs() == Z.abs().flatten()[0]).all())
    return float((w * Z.sign() * g).sum()) / total if is_sign_valued and total > 0 else None
