"""The weak learning condition: how well a learner points along the negative gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike

from gbgnn.errors import ParameterError


@dataclass(frozen=True)
class Condition:
    r"""One pair for which :math:`\|Z - \alpha g\| \le \beta \|g\|` holds, with equality."""

    alpha: float
    beta: float
    gamma: float
    r""":math:`1 - (\beta / \alpha)^2`: what a step :math:`1/(A\alpha)` earns."""


@dataclass(frozen=True)
class WeakLearning:
    r"""How a direction Z meets the condition :math:`\|Z - \alpha g\| \le \beta \|g\|, \alpha > \beta \ge 0`.

    It can be met if and only if :math:`\langle Z, g\rangle > 0`, and then by a whole family of pairs, one
    or two for every ratio :math:`\beta / \alpha = r \in [\sin, 1)`: see :meth:`member`. The tightest has r =
    sin: :math:`\alpha = \|Z\|^2 / \langle Z, g\rangle` and :math:`\gamma = \cos^2`; it is what ``alpha``,
    ``beta`` and ``gamma`` give. Where the condition fails, they are None.

    ``edge`` is AdaBoost's measure of a learner that says yes or no: with weights :math:`|g_n|` it is right on
    a share (1 + edge) / 2 of the nodes. None for other learners. It is at least the cosine.
    """

    cosine: float  # of the angle between Z and g; 0 when either vanishes
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
    def alpha(self) -> float | None:
        """The scale of the negative gradient that the direction is nearest to, in the tightest form."""
        return self.direction_norm / self.gradient_norm / self.cosine if self.is_met else None

    @property
    def beta(self) -> float | None:
        """The distance from it, in units of the gradient's norm."""
        return None if self.alpha is None else self.alpha * self.sine

    @property
    def gamma(self) -> float | None:
        """1 - (beta / alpha)^2, the round's progress: the squared cosine."""
        return self.cosine**2 if self.is_met else None

    def member(self, ratio: float, *, smaller: bool = False) -> Condition:
        r"""Return the pair with :math:`\beta = r \alpha`.

        .. math:: \alpha = \frac{\|Z\|}{\|g\|} \cdot \frac{\cos \pm \sqrt{r^2 - \sin^2}}{1 - r^2}

        r, the ``ratio``, is from the sine (the tightest pair) to below 1. The paper has the square of the
        sine, but below the sine the root is of a negative number. ``smaller`` takes the smaller alpha, the
        minus sign; the two are the same at the sine.
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
    direction: torch.Tensor | ArrayLike,
    gradient: torch.Tensor | ArrayLike,
    weights: torch.Tensor | ArrayLike | None = None,
) -> WeakLearning:
    r"""Compare a direction Z with the negative gradient g.

    Parameters
    ----------
    direction, gradient
        Tensors or arrays of the same shape, one row per labelled node.
    weights
        Weight of each row in inner products and norms; None is one for all. With the rows of f and of
        the residuals as they are and weights :math:`s_n / M`, this is the comparison of :math:`Z = f / M`
        with the gradient of a loss that weighs node n by :math:`s_n`.

    Examples
    --------
    >>> quality = weak_learning([3.0, 4.0], [1.0, 0.0])
    >>> round(quality.cosine, 6), round(quality.alpha, 6), round(quality.gamma, 6)
    (0.6, 8.333333, 0.36)
    >>> round(weak_learning([1.0, -1.0, 1.0], [0.5, -0.2, -0.3]).edge, 6)
    0.4
    """
    Z, g = (as_real(part, name) for part, name in ((direction, "direction"), (gradient, "gradient")))
    w = None if weights is None else as_real(weights, "weights")
    if Z.shape != g.shape:
        raise ParameterError(
            f"direction has shape {tuple(Z.shape)}, but gradient has shape {tuple(g.shape)}; they must agree."
        )
    if not Z.ndim or (w is not None and w.shape != Z.shape[:1]):
        given = "" if w is None else f" and weights of shape {tuple(w.shape)}"
        raise ParameterError(
            "direction needs a row per labelled node, weights a number for each; got shape "
            f"{tuple(Z.shape)}{given}."
        )
    return WeakLearnings.measure(Z[None], g[None], w)[0]


def as_real(values: torch.Tensor | ArrayLike, name: str) -> torch.Tensor:
    """Return an array or a tensor as a tensor of real numbers, in place where it is one."""
    try:
        tensor = values if isinstance(values, torch.Tensor) else torch.from_numpy(np.array(values))
    except (TypeError, ValueError) as error:
        raise ParameterError(f"{name} must be an array of numbers; got {type(values).__name__}.") from error
    if tensor.is_complex():
        raise ParameterError(f"{name} must be real numbers; got {tensor.dtype}.")
    return tensor


@dataclass(frozen=True, eq=False)
class WeakLearnings:
    """What :class:`WeakLearning` says of one direction, of many at once: tensors of shape (members,)."""

    cosine: torch.Tensor
    direction_norm: torch.Tensor
    gradient_norm: torch.Tensor
    edge: torch.Tensor  # NaN where there is none

    @classmethod
    def measure(
        cls,
        direction: torch.Tensor,
        gradient: torch.Tensor,
        weights: torch.Tensor | None = None,
        *,
        has_edges: bool = True,
    ) -> WeakLearnings:
        """Compare directions with negative gradients, shape (members, rows, ...).

        Without ``has_edges`` it is known that no direction says yes or no.
        """
        Z, g = (
            part.double().flatten(2) if part.ndim > 2 else part.double()[..., None]
            for part in (direction, gradient)
        )
        w = (Z.new_ones(Z.shape[1]) if weights is None else weights.double())[:, None]
        units, scales = _scale_to_unit((w.sqrt() * torch.stack([Z, g])).flatten(2))
        norms = units.norm(dim=2)
        # Of nothing the inner product is 0, and so is the cosine.
        product = norms.prod(dim=0).clamp_min(torch.finfo(Z.dtype).tiny)
        cosine = (units.prod(dim=0).sum(dim=1) / product).clamp(-1.0, 1.0)
        edge = _edges(Z, g, w) if has_edges else torch.full_like(cosine, math.nan)
        direction_norm, gradient_norm = norms * scales
        return cls(cosine, direction_norm, gradient_norm, edge)

    def __getitem__(self, i: int) -> WeakLearning:
        """Return what is known of one direction."""
        cosine, direction_norm, gradient_norm, edge = (float(part[i]) for part in vars(self).values())
        return WeakLearning(cosine, direction_norm, gradient_norm, None if math.isnan(edge) else edge)

    @property
    def inner(self) -> torch.Tensor:
        """Inner products of directions and negative gradients."""
        return self.cosine * self.direction_norm * self.gradient_norm

    @property
    def alpha(self) -> torch.Tensor:
        """The alpha of the tightest pair; NaN where the condition fails."""
        return torch.where(self.cosine > 0, self.direction_norm / self.gradient_norm / self.cosine, math.nan)

    @property
    def beta(self) -> torch.Tensor:
        """The beta of the tightest pair; NaN where the condition fails."""
        return self.alpha * ((1 - self.cosine) * (1 + self.cosine)).sqrt()

    @property
    def gamma(self) -> torch.Tensor:
        """The squared cosine; NaN where the condition fails."""
        return torch.where(self.cosine > 0, self.cosine.square(), math.nan)


def _scale_to_unit(vectors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return vectors divided by the powers of two that bring them to size one, and the powers.

    Squares of tiny entries then do not vanish, and nothing is rounded: what is orthogonal stays so.
    """
    if not vectors.shape[-1]:
        return vectors, vectors.new_ones(vectors.shape[:-1])
    largest = vectors.norm(math.inf, dim=-1).clamp_min(torch.finfo(vectors.dtype).tiny)
    scale = (largest.view(torch.int64) & _EXPONENT).view(vectors.dtype)
    return vectors / scale[..., None], scale


_EXPONENT = 0x7FF << 52  # the bits of a number in double precision without which it is a power of two


def _edges(Z: torch.Tensor, g: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Return the weighted share of right signs less that of wrong ones, where Z has one absolute value."""
    if not Z.shape[1]:
        return Z.new_full((len(Z),), math.nan)
    size = Z[:, :1, :1].abs()
    is_sign_valued = ((Z.abs() == size) & (size > 0)).flatten(1).all(dim=1)
    total, right = (torch.stack([g.abs(), Z.sign() * g]) * w).sum(dim=(2, 3))
    edges: torch.Tensor = right / total  # without a gradient 0 / 0
    return edges.masked_fill(~is_sign_valued, math.nan)
