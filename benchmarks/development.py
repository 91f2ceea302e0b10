"""Development splits: data on which choices may be made that no test node of the public split can reach."""

from __future__ import annotations

import numpy as np

from gbgnn import NodeSplit
from gbgnn.datasets import Dataset

PER_CLASS, N_VAL, N_HELD_OUT = 20, 500, 1000


def development_data(data: Dataset, seed: int) -> Dataset:
    """Return the data with training, validation and held-out nodes drawn from all but the public test nodes.

    The sizes are those of the public splits. What is held out takes the place of the test nodes.
    """
    labelled = np.flatnonzero(data.y >= 0)
    pool = np.random.default_rng(seed).permutation(np.setdiff1d(labelled, data.test))
    classes = np.unique(data.y[pool])
    train = np.concatenate([pool[data.y[pool] == label][:PER_CLASS] for label in classes])
    rest = pool[~np.isin(pool, train)]
    split = NodeSplit(train, rest[:N_VAL], rest[N_VAL : N_VAL + N_HELD_OUT])
    return data.with_split(split, f"development {seed}")
