"""Kernel target alignment: learn the polynomial in P whose Gram matrix looks most like the labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize

from gbgnn._checks import check_choice, check_integer, check_number
from gbgnn._optimizers import OPTIMIZERS, Coefficients, Moments
from gbgnn._threads import gram
from gbgnn.aggregation.base import Aggregation, Hop
from gbgnn.aggregation.polynomial import PolynomialHop, mix_members
from gbgnn.propagation import Mixable, PolynomialRows, Representation, powers
from gbgnn.rounds import RoundContext

# Powers of P times X are kept from learning to applying a hop where they take no more than this.
KEPT_BYTES = 2**28
# Powers of so many members are formed at a time that they take about this much memory.
_BYTES_ON_CPU, _BYTES_ON_GPU = 2**27, 2**32
_FEW_MEMBERS = 16  # up to so many, weights are learned on the host


@dataclass(frozen=True, eq=False)
class AlignmentProblem:
    r"""The alignment of a weighted sum of kernels with the labels, in closed form.

    With :math:`Z_k` the labelled rows of the k-th term and :math:`Z = \sum_k w_k Z_k`, the Gram matrix
    is :math:`K = \sum_{kl} w_k w_l Z_k Z_l^\top`, so that

    .. math:: \rho(w) = \frac{\langle K, K_Y\rangle}{\|K\|_F \|K_Y\|_F}
              = \frac{w^\top N w}{\sqrt{\sum_{klmn} w_k w_l w_m w_n D_{klmn}}}

    where the tiny tensors :math:`N_{kl} = \langle Z_k Z_l^\top, K_Y\rangle / \|K_Y\|_F` and
    :math:`D_{klmn} = \langle Z_k Z_l^\top, Z_m Z_n^\top\rangle` are computed once. A step of an
    optimiser then costs microseconds, whatever the size of the graph. An axis in front is of members.
    """

    numerator: torch.Tensor  # N, shape (..., n_terms, n_terms)
    denominator: torch.Tensor  # D, shape (..., n_terms^2, n_terms^2)
    overlaps: torch.Tensor  # inner products of the terms, of unit scale

    @classmethod
    def build(cls, terms: torch.Tensor, codes: torch.Tensor) -> AlignmentProblem:
        """Compute the tensors for terms :math:`Z_k`, shape (..., n_terms, M, C).

        ``codes`` are the labels of the M rows as vectors, shape (M, K), see :meth:`Task.codes
        <gbgnn.tasks.Task.codes>`; :math:`K_Y` is their Gram matrix.
        """
        # The alignment does not change with the scale of Z; unit scale keeps 4th powers in range. The large
        # products are formed in the precision of Z, the tiny tensors made of them in double precision.
        sizes = terms.square().sum(dim=(-2, -1)).amax(dim=-1).sqrt().clamp_min(torch.finfo(terms.dtype).tiny)
        Z = terms / sizes[..., None, None, None]
        label_norm = (codes.double().T @ codes.double()).norm()  # ||K_Y||_F, through the smaller Gram matrix
        sums = (codes.to(Z.dtype).T @ Z).double().flatten(-2)
        # Weights may all but cancel the rows, so that overlaps need all the digits there are.
        flat = Z.flatten(-2).double()
        # A step takes so little that asking a device for it would take longer, unless for many members.
        device = Z.device if Z.ndim > 3 and len(Z) > _FEW_MEMBERS else torch.device("cpu")
        return cls(
            (sums @ sums.mT / label_norm).to(device), _quartic(Z).to(device), (flat @ flat.mT).to(device)
        )

    @classmethod
    def join(cls, parts: Sequence[AlignmentProblem]) -> AlignmentProblem:
        """Put the members of several together."""
        return cls(*map(torch.cat, zip(*(vars(part).values() for part in parts), strict=True)))

    def value(self, weights: torch.Tensor) -> torch.Tensor:
        """Return the alignment of weights, shape (..., n_terms); 0 where they cancel every row."""
        return self.value_and_gradient(weights)[0]

    def value_and_gradient(self, weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return alignments and their gradients in the weights."""
        half = (self.numerator @ weights[..., None])[..., 0]
        outer = (weights[..., :, None] * weights[..., None, :]).flatten(-2)
        pair = (self.denominator @ outer[..., None]).view(*weights.shape, weights.shape[-1])
        third = (pair @ weights[..., None])[..., 0]
        quadratic, quartic = (weights * half).sum(dim=-1), (weights * third).sum(dim=-1)
        is_some = quartic > 0  # else they cancel every row
        safe = torch.where(is_some, quartic, 1.0)
        root = safe.sqrt()
        value = torch.where(is_some, quadratic / root, 0.0)
        gradient = 2 * half / root[..., None] - (2 * quadratic / (root * safe))[..., None] * third
        return value, torch.where(is_some[..., None], gradient, 0.0)

    def rescale(self, weights: torch.Tensor) -> torch.Tensor:
        """Return weights under which the labelled rows keep their norm."""
        squares = (weights * (self.overlaps @ weights[..., None])[..., 0]).sum(dim=-1)
        ratios = (self.overlaps[..., 0, 0] / torch.where(squares > 0, squares, 1.0)).sqrt()
        return weights * torch.where(squares > 0, ratios, 1.0)[..., None]


@dataclass(kw_only=True, eq=False, repr=False)
class KernelTargetAlignment(Aggregation):
    r"""Learn the mix: :math:`X^{(t)} = w X^{(t-1)} + \sum_{k=0}^{d} w_k P^{2^k} X^{(t-1)}` (GB-GNN-KTA).

    The weights start at one and maximise the alignment between the Gram matrix of the labelled rows
    and that of the labels.

    Parameters
    ----------
    degree
        The paper's :math:`N_{deg}`: the highest power of P is ``2 ** degree``. 0 mixes X and P X only.
    solver
        ``"gradient"`` takes ``epochs`` steps of ``optimizer``, as in the paper; ``"exact"`` runs the
        small problem to its optimum from several starts and ignores the three settings below.
    optimizer, learning_rate, epochs
        The gradient method: ``"sgd"``, ``"adam"`` or ``"rmsprop"``, its step and its number of steps.
    rescale
        Scale the weights so that the labelled rows keep their norm. Alignment does not depend on
        scale, and without this the representation grows up to (degree + 2)-fold a round: a float32
        overflows within a hundred rounds.

    Examples
    --------
    >>> from gbgnn.testing import make_round, two_blocks
    >>> graph, y = two_blocks(20)
    >>> context = make_round(graph, y, np.arange(8))
    >>> aligned = [KernelTargetAlignment(solver=s).fit(context).alignment for s in ("gradient", "exact")]
    >>> aligned[0] < aligned[1]
    True
    """

    is_polynomial = True
    may_cancel = True
    may_differ = ("optimizer", "learning_rate", "epochs")

    degree: int = 3
    solver: str = "gradient"
    optimizer: str = "adam"
    learning_rate: float = 0.02
    epochs: int = 20
    rescale: bool = True

    def check(self) -> None:
        """Raise when a setting is out of range."""
        owner = "KernelTargetAlignment"
        check_integer(owner, "degree", self.degree, 0, 10)
        check_choice(owner, "solver", self.solver, ("gradient", "exact"))
        check_choice(owner, "optimizer", self.optimizer, OPTIMIZERS)
        check_number(owner, "learning_rate", self.learning_rate, 0, open_low=True)
        check_integer(owner, "epochs", self.epochs, 0)

    @property
    def max_power(self) -> int:  # type: ignore[override]
        """The highest power of P."""
        return 1 << self.degree

    @property
    def _powers(self) -> tuple[int, ...]:
        return (0, *(2**k for k in range(self.degree + 1)))

    def fit(self, context: RoundContext) -> PolynomialHop:
        """Learn the weights from the labelled rows of the powers."""
        return self._choose(self._align(context))

    def step(self, context: RoundContext) -> tuple[Hop, Representation]:
        """Learn the weights, and mix; small powers are kept for that, large ones are computed again."""
        n_rows, n_columns = context.X.shape
        # Powers are dense, be X sparse or not.
        n_bytes = (self.degree + 2) * n_rows * n_columns * context.X.dtype.itemsize
        if isinstance(context.X, Mixable) or n_bytes > KEPT_BYTES:
            return super().step(context)
        X, rows = context.X.dense(), context.train.rows
        terms = [Z if Z is X else Z.clone() for Z in powers(context.inputs.P, X, self._powers)]
        hop = self._choose(_build(torch.stack([Z[rows] for Z in terms]), context))
        return hop, hop(context.X, context.inputs, terms)

    @classmethod
    def step_many(
        cls, aggregations: Sequence[KernelTargetAlignment], context: RoundContext
    ) -> tuple[Sequence[Hop], Representation]:
        """Learn the weights of all members at once."""
        first, X = aggregations[0], context.X
        if len(aggregations) == 1 or not isinstance(X, PolynomialRows) or first.solver != "gradient":
            return super().step_many(aggregations, context)
        alignments = first._align(context)
        if X.is_shared:
            forms = vars(alignments).values()
            alignments = AlignmentProblem(*(form.expand(len(aggregations), -1, -1) for form in forms))
        weights = _ascend(alignments, aggregations)
        weights = alignments.rescale(weights) if first.rescale else weights
        reached = alignments.value(weights).tolist()
        hops = [
            PolynomialHop(first._powers, tuple(own), alignment=value, free="coefficients")
            for own, value in zip(weights.tolist(), reached, strict=True)
        ]
        return hops, mix_members(X, hops)

    def _align(self, context: RoundContext) -> AlignmentProblem:
        """Return how the labelled rows of the powers align; those of a few members are formed at a time."""
        X, rows = context.X, context.train.rows
        if not isinstance(X, Mixable):
            streamed = powers(context.inputs.P, X.dense(), self._powers)
            return _build(torch.stack([Z[rows] for Z in streamed]), context)
        if X.is_shared:
            return _build(X.power_rows(self._powers, rows), context)
        assert isinstance(X, PolynomialRows)
        # Of a member there are the terms, a copy of unit size, and one in double precision.
        n_bytes = 4 * len(self._powers) * (context.train.size * X.nbytes // X.shape[0])
        at_once = max(1, (_BYTES_ON_CPU if X.device.type == "cpu" else _BYTES_ON_GPU) // n_bytes)
        every = range(context.n_members)
        parts = [X.members(every[first : first + at_once]) for first in every[::at_once]]
        return AlignmentProblem.join([_build(part.power_rows(self._powers, rows), context) for part in parts])

    def _choose(self, alignment: AlignmentProblem) -> PolynomialHop:
        """Return the hop that aligns the labelled rows of the powers best."""
        exact = self.solver == "exact"
        weights = _solve_exactly(alignment) if exact else _ascend(alignment, [self])[0]
        reached = float(alignment.value(weights))
        weights = alignment.rescale(weights) if self.rescale else weights
        return PolynomialHop(self._powers, tuple(weights.tolist()), alignment=reached, free="coefficients")


def _build(terms: torch.Tensor, context: RoundContext) -> AlignmentProblem:
    codes = context.problem.task.codes(context.train.targets, terms.dtype)
    return AlignmentProblem.build(terms, codes)


def _ascend(alignment: AlignmentProblem, members: Sequence[KernelTargetAlignment]) -> torch.Tensor:
    """Return the weights that each member's steps from one lead to, shape (members, n_terms)."""
    weights = alignment.numerator.new_ones(len(members), alignment.numerator.shape[-1])
    names, rates = [each.optimizer for each in members], [each.learning_rate for each in members]
    optimizer, moments = Coefficients.build(names, rates, device=weights.device), Moments(weights)
    epochs = torch.tensor([each.epochs for each in members], device=weights.device)
    schedule = optimizer.schedule(epochs, max(each.epochs for each in members))
    for rate, root in zip(*(table.T[..., None] for table in schedule), strict=True):
        _, gradient = alignment.value_and_gradient(weights)
        moments.step(weights, -gradient, optimizer, rate, root)  # uphill
    return weights


def _quartic(Z: torch.Tensor) -> torch.Tensor:
    """Return <Z_k Z_l^T, Z_m Z_n^T>, shape (..., n_terms^2, n_terms^2), through the smaller of two ways."""
    *members, n_terms, n_rows, n_columns = Z.shape
    if n_rows <= n_columns:
        stacked = Z.flatten(-3, -2)
        grams = gram(stacked).view(*members, n_terms, n_rows, n_terms, n_rows).transpose(-3, -2)
        return _inner_products(grams)
    # <Z_k Z_l^T, Z_m Z_n^T> = tr(Z_l Z_k^T Z_m Z_n^T) = <Z_k^T Z_m, Z_l^T Z_n>
    stacked = Z.transpose(-3, -2).flatten(-2)
    moments = gram(stacked.mT).view(*members, n_terms, n_columns, n_terms, n_columns).transpose(-3, -2)
    inner = _inner_products(moments).view(*members, *[n_terms] * 4)
    return inner.transpose(-3, -2).reshape(*members, n_terms**2, n_terms**2)


def _inner_products(blocks: torch.Tensor) -> torch.Tensor:
    """Return <B_kl, B_mn> for arrays of blocks, shape (..., n, n, rows, columns)."""
    flat = blocks.flatten(-2).flatten(-3, -2).double()
    return flat @ flat.mT


def _solve_exactly(alignment: AlignmentProblem) -> torch.Tensor:
    """Maximise the alignment: it has several hills, so climb from the best of many places.

    Powers of P are nearly parallel, which makes the hills narrow ridges in w; in coordinates u that
    make the terms orthonormal they are round.
    """
    values, vectors = np.linalg.eigh(alignment.overlaps.numpy())
    kept = values > 1e-12 * max(values.max(), np.finfo(float).tiny)
    to_w = vectors[:, kept] / np.sqrt(values[kept])

    def descend(u: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        value, gradient = alignment.value_and_gradient(torch.from_numpy(to_w @ u))
        return -float(value), -(to_w.T @ gradient.numpy())

    samples = np.random.default_rng(0).normal(size=(2000, kept.sum()))
    reached = alignment.value(torch.from_numpy(samples @ to_w.T)).numpy()
    starts = [np.linalg.pinv(to_w) @ np.ones(len(to_w)), *samples[np.argsort(-reached, kind="stable")[:8]]]
    ends = [to_w @ minimize(descend, start, jac=True).x for start in starts]
    found = [torch.from_numpy(end) for end in (*ends, np.ones(len(to_w)))]
    return max(found, key=lambda weights: float(alignment.value(weights)))
