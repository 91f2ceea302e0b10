"""match_shares: weights that give the classes of training nodes the shares that they have elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2_contingency, chisquare

BY_CHANCE = 1e-3
"""Shares that differ as much by chance less often than this differ."""


def match_shares(
    targets: NDArray[Any], elsewhere: NDArray[Any], n_classes: int
) -> tuple[NDArray[np.float64], bool]:
    """Return a weight for each training node, and whether shares differ by more than chance tells.

    Training nodes are often picked evenly by class, and what is to be predicted is not. If the nodes of a
    class look the same here and there, weights by the ratio of its shares make all of them look the same.
    Where a chi-squared test finds no difference, all weights are one. Training nodes with exactly as many of
    every class were picked so: then the test is whether classes are equally frequent elsewhere.

    Examples
    --------
    >>> targets, elsewhere = np.repeat([0, 1], [50, 50]), np.repeat([0, 1], [80, 20])
    >>> weights, differ = match_shares(targets, elsewhere, 2)
    >>> weights[[0, -1]].round(2).tolist(), differ
    ([1.59, 0.41], True)
    >>> match_shares(targets, np.repeat([0, 1], [55, 45]), 2)[1]
    False
    >>> [match_shares(np.repeat([0, 1], [5, n]), elsewhere, 2)[1] for n in (5, 4)]
    [True, False]
    """
    here, there = (np.bincount(each, minlength=n_classes) for each in (targets, elsewhere))
    both = np.vstack([here, there])
    seen = both.sum(axis=0) > 0
    is_even = here.min() > 1 and here.min() == here.max()
    if seen.sum() < 2 or not there.sum():
        differ = False
    elif is_even:
        differ = bool(chisquare(there).pvalue < BY_CHANCE)
    else:
        differ = bool(chi2_contingency(both[:, seen]).pvalue < BY_CHANCE)
    if not differ:
        return np.ones(len(targets)), False
    # One more of every class, so that none that is rare there vanishes here.
    wanted = (there + 1) / (there + 1).sum()
    ratio = wanted * here.sum() / np.maximum(here, 1)
    return ratio[targets], True
