"""Kernel target alignment: learn the polynomial in P whose Gram matrix looks most like the labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize

from gbgnn._checks import check_choice, check_integer, check_number
from gbgnn._optimizers import OPTIMIZERS, Stepper
from gbgnn._threads import threads_for
from gbgnn.aggregation.base import Aggregation, Hop
from gbgnn.aggregation.polynomial import PolynomialHop
from gbgnn.propagation import Representation
from gbgnn.propagation.polynomial import powers
from gbgnn.rounds import RoundContext

KEPT_BYTES = 2**28
"""Powers of P times X are kept from learning to applying a hop where they take no more than this."""


class AlignmentProblem:
    r"""The alignment of a weighted sum of kernels with the labels, in closed form.

    With :math:`Z_k` the labelled rows of the k-th term and :math:`Z = \sum_k w_k Z_k`, the Gram matrix
    is :math:`K = \sum_{kl} w_k w_l Z_k Z_l^\top`, so that

    .. math:: \rho(w) = \frac{\langle K, K_Y\rangle}{\|K\|_F \|K_Y\|_F}
              = \frac{w^\top N w}{\sqrt{\sum_{klmn} w_k w_l w_m w_n D_{klmn}}}

    where the tiny tensors :math:`N_{kl} = \langle Z_k Z_l^\top, K_Y\rangle / \|K_Y\|_F` and
    :math:`D_{klmn} = \langle Z_k Z_l^\top, Z_m Z_n^\top\rangle` are computed once. A step of an
    optimiser then costs microseconds, whatever the size of the graph.

    Parameters
    ----------
    terms
        The :math:`Z_k`, shape (n_terms, M, C).
    codes
        The labels of the M rows as vectors, shape (M, K), see :meth:`Task.codes <gbgnn.tasks.Task.codes>`;
        :math:`K_Y` is their Gram matrix.
    """

    def __init__(self, terms: torch.Tensor, codes: torch.Tensor) -> None:
        # The alignment does not change with the scale of Z; unit scale keeps 4th powers in range. The large
        # products are formed in the precision of Z, the tiny tensors made of them in double precision.
        Z = terms / terms.square().sum(dim=(1, 2)).max().sqrt().clamp_min(torch.finfo(terms.dtype).tiny)
        label_norm = (codes.double().T @ codes.double()).norm()  # ||K_Y||_F, through the smaller Gram matrix
        sums = (codes.to(Z.dtype).T @ Z).double()
        self.numerator = (torch.einsum("kyc,lyc->kl", sums, sums) / label_norm).cpu().numpy()
        self.denominator = _quartic(Z).cpu().numpy()
        self.overlaps = torch.einsum("kic,lic->kl", Z, Z).double().cpu().numpy()

    def value(self, w: NDArray[np.float64]) -> float:
        """Return the alignment of the weights ``w``; 0 when they cancel every row."""
        return self.value_and_gradient(w)[0]

    def value_and_gradient(self, w: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Return the alignment and its gradient."""
        n_terms = len(w)
        half = self.numerator @ w
        pair = self.denominator.reshape(n_terms**2, -1) @ np.outer(w, w).ravel()
        third = pair.reshape(n_terms, n_terms) @ w
        quadratic, quartic = float(w @ half), float(w @ third)
        if quartic <= 0:
            return 0.0, np.zeros_like(w)
        root = quartic**0.5
        return quadratic / root, 2 * half / root - 2 * quadratic * third / (root * quartic)


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
    >>> from gbgnn.testing import round_of, two_blocks
    >>> graph, y = two_blocks(20)
    >>> context = round_of(graph, y, np.arange(8))
    >>> aligned = [KernelTargetAlignment(solver=s).fit(context).alignment for s in ("gradient", "exact")]
    >>> aligned[0] < aligned[1]
    True
    """

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

    def fit(self, context: RoundContext) -> PolynomialHop:
        """Learn the weights from the labelled rows of the powers, which are streamed."""
        rows = context.train.rows
        streamed = powers(context.inputs.P, context.X.dense(), self._powers)
        return self._learn(torch.stack([Z[rows] for Z in streamed]), context)

    def step(self, context: RoundContext) -> tuple[Hop, Representation]:
        """Learn the weights, and mix; small powers are kept for that, large ones are computed again."""
        n_rows, n_columns = context.X.shape
        # Powers are dense, be X sparse or not.
        if (self.degree + 2) * n_rows * n_columns * context.X.dtype.itemsize > KEPT_BYTES:
            return super().step(context)
        X, rows = context.X.dense(), context.train.rows
        terms = [Z if Z is X else Z.clone() for Z in powers(context.inputs.P, X, self._powers)]
        hop = self._learn(torch.stack([Z[rows] for Z in terms]), context)
        return hop, hop.combine(terms, context.inputs)

    @property
    def _powers(self) -> tuple[int, ...]:
        return (0, *(2**k for k in range(self.degree + 1)))

    def _learn(self, terms: torch.Tensor, context: RoundContext) -> PolynomialHop:
        """Return the hop that aligns the labelled rows of the powers best, shape (n_terms, M, C)."""
        codes = context.problem.task.codes(context.train.targets, terms.dtype)
        n_terms, n_rows, n_columns = terms.shape
        with threads_for((n_terms * min(n_rows, n_columns)) ** 2 * max(n_rows, n_columns)):
            alignment = AlignmentProblem(terms, codes)
        solve = self._ascend if self.solver == "gradient" else _solve_exactly
        weights = solve(alignment)
        reached = alignment.value(weights)
        if self.rescale:
            mixed = torch.tensordot(torch.tensor(weights, device=terms.device), terms.double(), 1)
            weights = weights * _ratio(float(terms[0].double().norm()), float(mixed.norm()))
        return PolynomialHop(self._powers, tuple(weights.tolist()), alignment=reached, free="coefficients")

    def _ascend(self, alignment: AlignmentProblem) -> NDArray[np.float64]:
        weights = torch.ones(self.degree + 2, dtype=torch.float64)
        stepper = Stepper(self.optimizer, [weights], self.learning_rate)
        for _ in range(self.epochs):
            _, gradient = alignment.value_and_gradient(weights.numpy())
            stepper.step([torch.from_numpy(-gradient)])  # uphill
        return weights.numpy()


def _quartic(Z: torch.Tensor) -> torch.Tensor:
    """Return D_klmn = <Z_k Z_l^T, Z_m Z_n^T>, through M x M or C x C blocks, whichever is smaller."""
    n_terms, n_rows, n_columns = Z.shape
    if n_rows <= n_columns:
        stacked = Z.reshape(n_terms * n_rows, n_columns)
        grams = (stacked @ stacked.T).reshape(n_terms, n_rows, n_terms, n_rows).transpose(1, 2)
        return _inner_products(grams)
    # <Z_k Z_l^T, Z_m Z_n^T> = tr(Z_l Z_k^T Z_m Z_n^T) = <Z_k^T Z_m, Z_l^T Z_n>
    stacked = Z.transpose(0, 1).reshape(n_rows, n_terms * n_columns)
    moments = (stacked.T @ stacked).reshape(n_terms, n_columns, n_terms, n_columns).transpose(1, 2)
    return _inner_products(moments).permute(0, 2, 1, 3)


def _inner_products(blocks: torch.Tensor) -> torch.Tensor:
    """Return <B_kl, B_mn> for an array of blocks, shape (n, n, rows, columns)."""
    n_terms = len(blocks)
    flat = blocks.reshape(n_terms**2, -1).double()
    return (flat @ flat.T).reshape(n_terms, n_terms, n_terms, n_terms)


def _solve_exactly(alignment: AlignmentProblem, n_samples: int = 2000) -> NDArray[np.float64]:
    """Maximise the alignment: it has several hills, so climb from the best of many places.

    Powers of P are nearly parallel, which makes the hills narrow ridges in w; in coordinates u that
    make the terms orthonormal they are round.
    """
    values, vectors = np.linalg.eigh(alignment.overlaps)
    kept = values > 1e-12 * max(values.max(), np.finfo(float).tiny)
    to_w = vectors[:, kept] / np.sqrt(values[kept])

    def descend(u: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        value, gradient = alignment.value_and_gradient(to_w @ u)
        return -value, -(to_w.T @ gradient)

    samples = np.random.default_rng(0).normal(size=(n_samples, kept.sum()))
    ranked = sorted(samples, key=lambda u: descend(u)[0])
    starts = [np.linalg.pinv(to_w) @ np.ones(len(to_w)), *ranked[:8]]
    ends = [to_w @ minimize(descend, start, jac=True).x for start in starts]
    return max([*ends, np.ones(len(to_w))], key=alignment.value)


def _ratio(wanted: float, got: float) -> float:
    return wanted / got if got > 0 else 1.0
