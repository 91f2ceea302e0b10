"""Averages of fitted models, weighted by what they gain together on validation nodes."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from gbgnn.losses import Loss

N_STEPS = 20
"""How often a model is added to the mean, at most."""

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
    counts, total, smallest = np.zeros(len(outputs), dtype=np.int64), torch.zeros_like(outputs[0]), np.inf
    for n_chosen in range(1, n_steps + 1):
        # One mean after another: all at once would take several times the memory of the outputs.
        means = (start + (total + each) / n_chosen for each in outputs)
        losses = np.array([float(loss.mean(mean, targets, weights)) for mean in means])
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
