"""Averages of fitted models, weighted by what they gain together on validation nodes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from gbgnn.losses import Loss

N_STEPS = 20
"""How often a model is added to the mean, at most."""

Judge = Callable[[torch.Tensor], float]
"""Returns how bad a mean of outputs is."""

_SAME = 1e-9  # losses whose difference, relative to them, is smaller are the same up to rounding


def select_average(
    outputs: torch.Tensor,
    loss: Loss,
    targets: torch.Tensor,
    offsets: torch.Tensor | None = None,
    weights: torch.Tensor | None = None,
    *,
    n_steps: int = N_STEPS,
) -> NDArray[np.float64]:
    """Return weights of models, which sum to one.

    By greedy selection with replacement (Caruana et al., 2004): the best model is the first. Then the one
    that makes the loss of the mean smallest is added, the same again if need be, until none makes it smaller.
    A model's weight is how often it was chosen, divided by all choices; of several that are equally good the
    first counts. The mean is never worse than any one of them.

    Parameters
    ----------
    outputs
        What the models say of some nodes, shape (models, nodes, columns).
    loss
        What is made small.
    targets
        What the nodes are, as the loss takes it.
    offsets
        Added to outputs before the loss is computed, shape (nodes, columns); None is zero.
    weights
        Of the nodes, which sum to one; None weighs all alike.
    n_steps
        How many choices there are at most.

    Examples
    --------
    >>> from gbgnn.losses import SquaredError
    >>> outputs = torch.tensor([[[0.0], [1.0]], [[2.0], [1.0]], [[9.0], [9.0]]])
    >>> select_average(outputs, SquaredError(), torch.tensor([[1.0], [1.0]])).tolist()
    [0.5, 0.5, 0.0]
    """
    outputs = outputs.double()
    start = torch.zeros_like(outputs[0]) if offsets is None else offsets.double()
    return select_greedily(
        outputs, lambda mean: float(loss.mean(start + mean, targets, weights)), n_steps=n_steps
    )


def select_greedily(outputs: torch.Tensor, judge: Judge, *, n_steps: int = N_STEPS) -> NDArray[np.float64]:
    """Return weights of models, as :func:`select_average` does, for any judge of a mean.

    Examples
    --------
    >>> outputs = torch.tensor([[0.0], [3.0]])
    >>> select_greedily(outputs, lambda mean: abs(float(mean) - 1.0)).round(2).tolist()
    [0.67, 0.33]
    """
    counts, total, smallest = np.zeros(len(outputs), dtype=np.int64), torch.zeros_like(outputs[0]), np.inf
    for n_chosen in range(1, n_steps + 1):
        # One mean after another: all at once would take several times the memory of the outputs.
        losses = np.array([judge((total + each) / n_chosen) for each in outputs])
        chosen = _first_smallest(losses)
        if n_chosen > 1 and not losses[chosen] < smallest - _SAME * abs(smallest):
            break
        counts[chosen] += 1
        total, smallest = total + outputs[chosen], losses[chosen]
    return np.asarray(counts / counts.sum())


def _first_smallest(losses: NDArray[np.float64]) -> int:
    """Return the first of the smallest losses, up to rounding; one that is no number is never chosen."""
    known = np.where(np.isnan(losses), np.inf, losses)
    smallest = known.min()
    return int(np.flatnonzero((known == smallest) | (known <= smallest + _SAME * abs(smallest)))[0])
