"""Which data a run was made on, and how well its predictions do; here alone test labels are read."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbgnn.datasets import Dataset
from gbgnn.errors import DataError
from gbgnn.graph import labels_checksum
from gbgnn_lab.experiments.records import Fields

DIGITS = 16
"""Of a checksum: enough to tell, short enough to read."""


def identify_data(data: Dataset) -> Fields:
    """Return name, split and checksums of data: of the graph, of the labels training sees, of the test's.

    Examples
    --------
    >>> from gbgnn import datasets
    >>> identify_data(datasets.csbm(n_nodes=60, per_class=6))["split"]
    'random, seed 0'
    """
    seen, test = [(part, data.y[part]) for part in (data.train, data.val)], [(data.test, data.y[data.test])]
    return {
        "dataset": data.name,
        "split": data.split_name,
        "data": {
            "graph": data.graph.checksum[:DIGITS],
            "labels": labels_checksum(seen)[:DIGITS],
            "test": labels_checksum(test)[:DIGITS],
        },
    }


def judge(predictions: NDArray[Any], data: Dataset) -> Fields:
    """Return the accuracy on validation and test nodes of predictions for all nodes.

    Examples
    --------
    >>> from gbgnn import datasets
    >>> data = datasets.csbm(n_nodes=60, per_class=6)
    >>> judge(data.y, data)
    {'val_accuracy': 1.0, 'test_accuracy': 1.0}
    """
    return {
        f"{part}_accuracy": float(np.mean(predictions[nodes] == data.y[nodes])) if len(nodes) else None
        for part, nodes in (("val", data.val), ("test", data.test))
    }


def check_splits(data: Dataset) -> None:
    """Raise unless there are nodes to choose by and nodes to judge by."""
    for part, verb in (("val", "choose"), ("test", "judge")):
        if not len(getattr(data, part)):
            raise DataError(
                f"{data.name} has no {part} nodes, so there is nothing to {verb} models by; draw some with "
                "split='stratified'."
            )
