"""Draw: how the labelled nodes came to be labelled, and what a bound of the error on others pays for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom

from gbgnn._checks import check_integer, check_number
from gbgnn.errors import ParameterError
from gbgnn.theory.rademacher import q_factor


def independence_factor(n_labelled: int, n_unlabelled: int) -> float:
    r"""Return :math:`1/c`, the price of independent signs for a draw without replacement.

    With k binomial, of N trials with probability U/N, :math:`c = 1 - P(k = U)`. The expected supremum of
    (mean over the unlabelled - mean over the labelled nodes) is at most the transductive Rademacher
    complexity divided by c (docs/theory.md, Theorem 3), which is close to 1 when both are many.

    Examples
    --------
    >>> round(independence_factor(140, 2568), 3), independence_factor(1, 1)
    (1.036, 2.0)
    """
    return Draw((n_labelled,), (n_unlabelled,)).independence


@dataclass(frozen=True)
class Draw:
    r"""So many nodes of every stratum are labelled, and which of its nodes is chance.

    Where the labelled nodes are a uniform draw from all, there is one stratum. Strata must be known before
    the draw, of all nodes.

    Examples
    --------
    >>> draw = Draw.of_strata(["a", "a", "a", "a", "b", "b"], [0, 1, 4])
    >>> draw.labelled, draw.unlabelled, draw.imbalance
    ((2, 1), (2, 1), 0.0)
    """

    labelled: tuple[int, ...]  # the theory's M, by stratum
    unlabelled: tuple[int, ...]  # and U

    def __post_init__(self) -> None:
        for name in ("labelled", "unlabelled"):
            for i, number in enumerate(getattr(self, name)):
                check_integer("Draw", f"{name}[{i}]", number, 0)
        if len(self.labelled) != len(self.unlabelled) or not (self.n_labelled and self.n_unlabelled):
            raise ParameterError(
                f"a draw leaves nodes labelled and others not; got {self.labelled} and {self.unlabelled}."
            )

    @classmethod
    def of_strata(cls, strata: ArrayLike | None, labelled: ArrayLike, n_nodes: int | None = None) -> Self:
        """Return the draw of labelled rows; ``strata`` has an entry per node, None is one for all."""
        kinds: NDArray[np.int64] = np.zeros(n_nodes or 0, np.int64)
        if strata is not None:
            kinds = np.unique(np.asarray(strata), return_inverse=True)[1]
        all_of = np.bincount(kinds)
        chosen = np.bincount(kinds[np.asarray(labelled, np.int64)], minlength=len(all_of))
        return cls(tuple(chosen.tolist()), tuple((all_of - chosen).tolist()))

    @property
    def n_labelled(self) -> int:
        """M, of all strata."""
        return sum(map(int, self.labelled))

    @property
    def n_unlabelled(self) -> int:
        """U, of all strata."""
        return sum(map(int, self.unlabelled))

    @property
    def is_uniform(self) -> bool:
        """Whether there is one stratum."""
        return len(self.labelled) == 1

    @property
    def independence(self) -> float:
        """1/c with the smallest c of the strata that chance has a say in; :func:`independence_factor`."""
        constants = [-math.expm1(binom.logpmf(U, M + U, U / (M + U))) for M, U in self._drawn()]
        return 1 / min(constants, default=1.0)

    @property
    def sign_probability(self) -> float:
        """The largest MU/N^2 of the strata: more signs never lower a complexity."""
        return max((M * U / (M + U) ** 2 for M, U in self._drawn()), default=0.0)

    @property
    def imbalance(self) -> float:
        """Half the sum of differences between the strata's shares of unlabelled and of labelled nodes.

        Means of losses between 0 and 1 over the two differ by so much because strata count differently; 0 for
        one stratum, and where shares are equal.
        """
        pairs = zip(self.labelled, self.unlabelled, strict=True)
        return sum(abs(U / self.n_unlabelled - M / self.n_labelled) for M, U in pairs) / 2

    def deviation(self, confidence: float) -> float:
        r"""Return how far the largest difference of the means exceeds its expectation, with some confidence.

        .. math:: Q \sqrt{\frac12 \log\frac{1}{1-c} \sum_h \frac{M_h U_h}
                  {(N_h - 1/2) (1 - 1 / (2 \max(M_h, U_h)))}}

        over strata h (docs/theory.md, Lemma 4). For one it is the :math:`\sqrt{\frac{SQ}{2} \log
        \frac{1}{1-c}}` of :func:`~gbgnn.theory.confidence_term`.
        """
        check_number("Draw.deviation", "confidence", confidence, 0, 1, open_low=True, open_high=True)
        squares = [M * U / ((M + U - 0.5) * (1 - 1 / (2 * max(M, U)))) for M, U in self._drawn()]
        Q = q_factor(self.n_labelled, self.n_unlabelled)
        return Q * math.sqrt(math.fsum(squares) / 2 * -math.log1p(-confidence))

    def _drawn(self) -> Sequence[tuple[int, int]]:
        """Return M and U of the strata in which there is something to draw."""
        pairs = zip(map(int, self.labelled), map(int, self.unlabelled), strict=True)
        return [(M, U) for M, U in pairs if M and U]
