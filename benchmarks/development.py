"""Development splits: data on which choices may be made that no test node of the public split can reach."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbgnn import GBGNNClassifier, NodeSplit
from gbgnn.datasets import Dataset
from gbgnn.population import PopulationInputs, train_population

PER_CLASS, N_VAL, N_HELD_OUT = 20, 500, 1000


def development_data(data: Dataset, seed: int) -> Dataset:
    """Return the data with training, validation and held-out nodes drawn from all but the public test nodes.

    The sizes are those of the public splits. What is held out takes the place of the test nodes.
    """
    labelled = np.flatnonzero(data.y >= 0)
    random = np.random.default_rng(seed)
    pool = random.permutation(np.setdiff1d(labelled, data.test))
    classes = np.unique(data.y[pool])
    train = np.concatenate([pool[data.y[pool] == label][:PER_CLASS] for label in classes])
    # Shuffled again: the nodes of small classes that come first in the pool all train, and validation nodes
    # that follow them closely would have too few of these classes.
    rest = random.permutation(pool[~np.isin(pool, train)])
    split = NodeSplit(train, rest[:N_VAL], rest[N_VAL : N_VAL + N_HELD_OUT])
    return data.with_split(split, f"development {seed}")


def curves_on(nodes: NDArray[Any], data: Dataset, models: Sequence[GBGNNClassifier]) -> list[list[float]]:
    """Return the accuracy of every model on some nodes after each of its rounds."""
    # Validation nodes do not change what is trained, so that any nodes may take their place.
    inputs = PopulationInputs.from_model(
        models[0], data.train, data.y[data.train], graph=data.graph, validation=(nodes, data.y[nodes])
    )
    return [result.val_scores for result in train_population(inputs, models)]


def padded(curves: Sequence[list[float]], n_rounds: int) -> NDArray[np.float64]:
    """Return curves as rows; one that ended early stays where it was, one that never began is zero."""
    return np.array([[*curve, *(curve[-1:] or [0.0]) * (n_rounds - len(curve))] for curve in curves])
