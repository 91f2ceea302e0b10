"""Tasks: what y is."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from gbgnn.tasks.base import Link, Task
from gbgnn.tasks.classification import Classification
from gbgnn.tasks.multilabel import MultiLabel, has_label_lists
from gbgnn.tasks.regression import Regression

__all__ = ["Classification", "Link", "MultiLabel", "Regression", "Task", "find_task"]


def find_task(y: Any) -> Task:
    """Return what a classifier takes y for: several labels per node, or one class.

    Lists of labels, sparse matrices and matrices of several columns have several labels; all else classes.

    Examples
    --------
    >>> find_task(["a", "b"]), find_task([["a", "b"], []]), find_task(np.eye(3))
    (Classification(), MultiLabel(), MultiLabel())
    """
    if sp.issparse(y) or has_label_lists(y):
        return MultiLabel()
    try:
        shape = np.shape(y)
    except ValueError:  # ragged, which the task will say in its own words
        return Classification()
    return MultiLabel() if len(shape) == 2 and shape[1] > 1 else Classification()
