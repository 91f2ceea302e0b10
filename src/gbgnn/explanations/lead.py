"""The lead of the predicted class over the next, in parts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def find_lead(scores: Floats, parts: Floats) -> Floats:
    """Return the parts, shape (nodes, parts), of the lead of the largest score of a node over the next.

    Of one score, whose sign decides, parts are turned so that they speak for what is predicted.

    Examples
    --------
    >>> find_lead(np.array([[1.0, 4.0, 2.0]]), np.array([[[1.0, 3.0, 2.5], [0.0, 1.0, -0.5]]])).tolist()
    [[0.5, 1.5]]
    """
    if scores.shape[1] == 1:
        return np.asarray(parts[..., 0] * np.where(scores > 0, 1.0, -1.0))
    order = np.argsort(-scores, axis=1, kind="stable")
    first, second = (np.take_along_axis(parts, order[:, None, i : i + 1], axis=2)[..., 0] for i in (0, 1))
    return np.asarray(first - second)
