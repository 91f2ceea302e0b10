"""Rademacher complexities by drawing signs: exact up to chance, with limits that hold at any size."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from scipy.special import stdtrit

from gbgnn._checks import check_choice, check_integer, check_number
from gbgnn._matrices import as_csr
from gbgnn.errors import ParameterError
from gbgnn.theory.rademacher import q_factor, sign_probability

KINDS = ("hull", "linear", "finite")
# Draws made side by side. Every group has random streams of its own, so that more draws continue fewer.
_GROUP = 128
# Numbers held at a time, 64 MB in double precision.
_BLOCK = 2**23


@dataclass(frozen=True)
class Estimate:
    """A complexity as the mean of independent draws, and what is certain of them.

    Examples
    --------
    >>> Estimate.from_draws([2.0, 4.0, 3.0, 3.0], bounded_differences=1.0).interval(0.9)
    (2.039..., 3.960...)
    """

    value: float  # the mean of the draws
    standard_error: float  # their standard deviation divided by the root of their number
    n_draws: int
    bounded_differences: float  # root of the sum over nodes of squares of the most that one sign can change
    variance_bound: float  # a number that the variance of a draw does not exceed

    @classmethod
    def from_draws(cls, draws: Any, bounded_differences: float, p: float = 0.5) -> Self:
        r"""Summarise two or more independent draws of a supremum that is never negative, or of a multiple.

        With p the probability of each sign, in (0, 1/2], by Efron and Stein the variance is at most
        :math:`\frac{p}{2} \sum_n d_n^2` (docs/theory.md). The default 1/2 is valid for every p.
        """
        values = np.asarray(draws, dtype=np.float64)
        check_integer("Estimate", "n_draws", len(values), 2)
        check_number("Estimate", "draws", float(values.min()), 0)
        check_number("Estimate", "bounded_differences", bounded_differences, 0)
        check_number("Estimate", "p", p, 0, 0.5, open_low=True)
        spread = float(values.std(ddof=1)) / math.sqrt(len(values))
        variance = p / 2 * bounded_differences**2
        return cls(float(values.mean()), spread, len(values), float(bounded_differences), variance)

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return ends between which the complexity lies with about this probability.

        They are Student's, which is an approximation, a good one from some dozens of draws on. For a bound
        that must hold use :meth:`upper_limit`.
        """
        check_number("interval", "confidence", confidence, 0, 1, open_low=True, open_high=True)
        reach = float(stdtrit(self.n_draws - 1, (1 + confidence) / 2)) * self.standard_error
        return self.value - reach, self.value + reach

    def upper_limit(self, confidence: float = 0.95) -> float:
        r"""Return a number that is at least the complexity E with this probability, however few the draws.

        With failure probability q the mean of n draws is below E by more than r with probability at most q
        for two values of r, neither of which depends on the draws, so that both inequalities may be used:

        * :math:`r^2 = \frac{\log 1/q}{2n} \sum_n d_n^2`, by McDiarmid;
        * :math:`r^2 = \frac{2 \log 1/q}{n} (E^2 + V)` with V the ``variance_bound``, because a draw is never
          negative (docs/theory.md). Where signs are rare, because few nodes are labelled, this is much the
          smaller one.
        """
        check_number("upper_limit", "confidence", confidence, 0, 1, open_low=True, open_high=True)
        share = -2 * math.log1p(-confidence) / self.n_draws
        limit = self.value + math.sqrt(share) * self.bounded_differences / 2
        if share < 1:
            # The larger root E of (E - value)^2 = share (E^2 + V).
            root = math.sqrt(share * (self.value**2 + (1 - share) * self.variance_bound))
            limit = min(limit, (self.value + root) / (1 - share))
        return limit


def rademacher_complexity(
    vectors: Any,
    n_labelled: int,
    *,
    kind: str = "hull",
    radius: float = 1.0,
    symmetrized: bool = False,
    p: float | None = None,
    n_draws: int = 1000,
    seed: int = 0,
) -> Estimate:
    r"""Estimate the transductive Rademacher complexity :math:`Q E \sup_v \langle\sigma, v\rangle` of a class.

    Parameters
    ----------
    vectors
        N x C matrix X with a row for every node: NumPy array, dense torch tensor or SciPy sparse matrix. A
        tensor on a GPU is worked on there, with the same signs.
    n_labelled
        M, from 1 to N - 1.
    kind
        ``"hull"``: all :math:`X w` with :math:`\|w\|_1` at most ``radius``; this is the linear head with
        bounded columns. ``"linear"``: the same with :math:`\|w\|_2`. ``"finite"``: the columns of X, times
        ``radius``.
    radius
        Size of the class, >= 0.
    symmetrized
        Whether to take the supremum of :math:`|\langle\sigma, v\rangle|`. It changes finite classes only, as
        the others hold -v beside every v.
    p
        Probability of each sign, in (0, 1/2]; None takes p0 = MU/N^2.
    n_draws, seed
        At least 2 draws. Same seed, same signs; more draws begin with the draws of fewer. Time grows with the
        number of non-zero signs, 2pN a draw.

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_normal((60, 5))
    >>> estimate = rademacher_complexity(X, 20, radius=10.0)
    >>> round(estimate.value, 1), round(estimate.upper_limit(0.95), 1)
    (6.2, 7.0)
    """
    owner = "rademacher_complexity"
    family = VectorFamily(owner, vectors, kind=kind, radius=radius, symmetrized=symmetrized)
    N = family.X.shape[0]
    check_integer(owner, "n_labelled", n_labelled, 1)
    if n_labelled >= N:
        raise ParameterError(
            f"{owner}.n_labelled must be less than the number of rows of vectors, so that some node is "
            f"unlabelled; got {n_labelled} of {N}."
        )
    Q = q_factor(n_labelled, N - n_labelled)
    if p is None:
        p = sign_probability(n_labelled, N - n_labelled)
    return family.estimate(p, n_draws, seed, scale=Q)


def inductive_rademacher(
    vectors: Any, *, kind: str = "hull", radius: float = 1.0, n_draws: int = 1000, seed: int = 0
) -> Estimate:
    r"""Estimate the inductive Rademacher complexity :math:`\frac1N E \sup_v \langle\varepsilon, v\rangle`.

    Every :math:`\varepsilon_n` is +1 or -1 with probability 1/2. Parameters are those of
    :func:`rademacher_complexity`; :func:`~gbgnn.theory.rademacher.inductive_bound` turns the result into a
    bound of the transductive complexity.

    Examples
    --------
    >>> inductive_rademacher(np.ones((1, 1))).value
    1.0
    """
    family = VectorFamily("inductive_rademacher", vectors, kind=kind, radius=radius)
    return family.estimate(0.5, n_draws, seed, scale=1 / family.X.shape[0])


class VectorFamily:
    r"""The vectors v that a matrix X stands for, see :func:`rademacher_complexity`.

    The mean of the columns is taken out of a finite class that is not symmetrised: it changes no expectation,
    lowers the variance, and no draw is negative.
    """

    def __init__(
        self, owner: str, vectors: Any, *, kind: str = "hull", radius: float = 1.0, symmetrized: bool = False
    ) -> None:
        self.owner, self.X = owner, as_matrix(owner, vectors)
        check_choice(owner, "kind", kind, KINDS)
        check_number(owner, "radius", radius, 0)
        self.kind, self.radius = kind, float(radius)
        self.is_centred = kind == "finite" and not symmetrized

    def estimate(self, p: float, n_draws: int, seed: int, *, scale: float) -> Estimate:
        r"""Estimate ``scale`` times :math:`E \sup_v \langle\sigma, v\rangle`."""
        draws, changes = self.suprema(p, n_draws, seed), float(np.linalg.norm(self.differences()))
        return Estimate.from_draws(scale * draws, scale * changes, p)

    def suprema(self, p: float, n_draws: int = 1000, seed: int = 0) -> NDArray[np.float64]:
        r"""Draw :math:`\sup_v \langle\sigma, v\rangle`.

        Equal N, p and seed give equal signs whatever the family, so that draws of several may be added or
        compared one by one.
        """
        check_number(self.owner, "p", p, 0, 0.5, open_low=True)
        check_integer(self.owner, "n_draws", n_draws, 2)
        check_integer(self.owner, "seed", seed, 0)
        drawn = []
        for group in range(-(-n_draws // _GROUP)):  # the last may hold more than were asked for
            sums = draw_sums(self.X, p, seed, group)
            if self.kind == "linear":
                drawn.append(np.linalg.norm(sums, axis=1))
            elif self.is_centred:
                drawn.append((sums.max(axis=1) - sums.mean(axis=1)).clip(0))  # rounding goes below 0
            else:
                drawn.append(np.abs(sums).max(axis=1))
        return np.asarray(self.radius * np.concatenate(drawn)[:n_draws])

    def differences(self) -> NDArray[np.float64]:
        r"""Return for each node the most that its sign can change in a draw, :math:`2 \sup_v |v_n|`."""
        if self.kind == "linear":
            return 2 * self.radius * _row_norms(self.X)
        highest, lowest, mean = _row_extremes(self.X)
        if self.is_centred:
            highest, lowest = highest - mean, lowest - mean
        return np.asarray(2 * self.radius * np.maximum(highest, -lowest))


def _row_norms(X: Any) -> NDArray[np.float64]:
    if isinstance(X, torch.Tensor):
        return np.asarray(torch.linalg.vector_norm(X, dim=1, dtype=torch.float64).cpu().numpy())
    if sp.issparse(X):
        return np.asarray(np.sqrt(X.multiply(X).sum(axis=1, dtype=np.float64)))
    return np.asarray(np.sqrt(np.einsum("nc,nc->n", X, X, dtype=np.float64)))


def _row_extremes(X: Any) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return largest, smallest and mean entry of every row."""
    if isinstance(X, torch.Tensor):
        parts = X.amax(dim=1), X.amin(dim=1), X.mean(dim=1, dtype=torch.float64)
        highest, lowest, mean = (part.double().cpu().numpy() for part in parts)
    elif sp.issparse(X):
        highest, lowest = (part.toarray().ravel() for part in (X.max(axis=1), X.min(axis=1)))
        mean = np.asarray(X.sum(axis=1, dtype=np.float64)) / X.shape[1]
    else:
        highest, lowest, mean = X.max(axis=1), X.min(axis=1), X.mean(axis=1, dtype=np.float64)
    return highest.astype(np.float64), lowest.astype(np.float64), mean


def draw_sums(X: Any, p: float, seed: int, group: int) -> NDArray[np.float64]:
    """Return <sigma, X_c>, a row for each draw of a group and a column for each c."""
    total = np.zeros((_GROUP, X.shape[1]))
    width = X.nnz / X.shape[0] if sp.issparse(X) else X.shape[1]
    for rows, signs in _draw_signs(X.shape[0], p, seed, group, int(_BLOCK / max(width, _GROUP))):
        if isinstance(X, torch.Tensor):
            # Dense signs: a sparse product would add up in an order that changes from run to run.
            chosen = X[torch.from_numpy(rows).to(X.device)].double()
            total += (torch.from_numpy(signs.toarray()).to(X.device).T @ chosen).cpu().numpy()
        else:
            sums = signs.T @ X[rows]
            total += sums.toarray() if sp.issparse(sums) else sums
    return total


def _draw_signs(
    n_nodes: int, p: float, seed: int, group: int, size: int
) -> Iterator[tuple[NDArray[np.int64], sp.csr_array]]:
    """Yield rows that have non-zero signs in some draw of a group, and these signs, a column per draw.

    Places are numbered row by row. The gap from one non-zero sign to the next is geometric, which is an
    exponential variable rounded up; so zeros cost nothing, and neither of the two random streams depends on
    where a block, of ``size`` places, ends.
    """
    sequence = np.random.SeedSequence(seed, spawn_key=(group,))
    gaps, coins = map(np.random.default_rng, sequence.spawn(2))
    rate = -math.log1p(-2 * p) if p < 0.5 else math.inf
    end, last = n_nodes * _GROUP, -1
    size = min(max(size, 1), math.ceil(2.1 * p * end) + 100)  # a small graph needs one block
    while last < end:
        steps = np.minimum(gaps.standard_exponential(size) / rate, end)  # to fit an integer
        places = np.cumsum(steps.astype(np.int64) + 1) + last
        signs = np.where(coins.random(size) < 0.5, 1.0, -1.0)
        last = int(places[-1])
        within = int(np.searchsorted(places, end))
        if within:
            rows, draws = places[:within] // _GROUP, places[:within] % _GROUP
            starts = np.flatnonzero(np.diff(rows, prepend=-1))
            pointers = np.append(starts, within)
            yield rows[starts], sp.csr_array((signs[:within], draws, pointers), (len(starts), _GROUP))


def as_matrix(owner: str, vectors: Any) -> Any:
    """Return a tensor of a GPU, a CSR array or a NumPy array of floating point numbers, checked."""
    X: Any
    if isinstance(vectors, torch.Tensor):
        X, is_real = vectors.detach(), vectors.layout == torch.strided and not vectors.is_complex()
    else:
        X = as_csr(vectors, f"{owner}.vectors") if sp.issparse(vectors) else np.asarray(vectors)
        is_real = X.dtype.kind in "biuf"
    if not is_real or X.ndim != 2 or 0 in X.shape:
        raise ParameterError(
            f"{owner}.vectors must be a matrix of real numbers with a row per node (NumPy, SciPy sparse or "
            f"dense torch); got {type(vectors).__name__} of {X.dtype}, shape {tuple(X.shape)}."
        )
    if isinstance(X, torch.Tensor):
        X = X if X.dtype in (torch.float32, torch.float64) else X.double()
        X = X.numpy() if X.device.type == "cpu" else X
    elif X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    entries = X.data if sp.issparse(X) else X
    # The extremes of all are NaN where some entry is, and need no array of their own.
    if len(entries) and not all(math.isfinite(extreme) for extreme in (entries.max(), entries.min())):
        raise ParameterError(f"{owner}.vectors has NaN or infinite entries.")
    return X
