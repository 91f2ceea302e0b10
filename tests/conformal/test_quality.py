from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from gbgnn import Graph
from gbgnn.conformal import IntervalQuality, SetQuality
from gbgnn.conformal.quality import measure_by_degree
from gbgnn.errors import GraphError


def test_sets_are_counted() -> None:
    sets = np.array([[0, 0, 0], [0, 1, 0], [1, 0, 0], [1, 1, 1]], bool)
    found = SetQuality.measure(sets, np.array([0, 1, 2, 2]), 0.9)
    assert found == SetQuality(
        confidence=0.9,
        n_nodes=4,
        coverage=0.5,
        mean_size=1.25,
        singleton_share=0.5,
        singleton_accuracy=0.5,
        sizes=(1, 2, 0, 1),
    )
    assert SetQuality.measure(sets[:1], np.array([0]), 0.9).singleton_accuracy is None


def test_intervals_hold_their_ends() -> None:
    found = IntervalQuality.measure(np.array([[0.0, 1.0], [0, 2], [5, 6]]), np.array([0.0, 2.0, 7.0]), 0.5)
    assert (found.coverage, found.mean_width, found.median_width) == (2 / 3, 4 / 3, 1.0)


def test_truths_are_as_many_as_sets_and_intervals() -> None:
    with pytest.raises(GraphError, match="y has 1 labels for 2 nodes"):
        SetQuality.measure(np.ones((2, 3), bool), np.array([0]), 0.9)
    with pytest.raises(GraphError, match="quality is measured on nodes with one truth each; got 0 nodes"):
        SetQuality.measure(np.ones((0, 3), bool), np.array([], int), 0.9)
    with pytest.raises(GraphError, match=r"y of shape \(2, 2\)"):
        IntervalQuality.measure(np.ones((2, 2)), np.ones((2, 2)), 0.9)


def test_groups_of_degrees_hold_every_node_once() -> None:
    random = np.random.default_rng(0)
    dense = random.uniform(size=(300, 300)) < random.uniform(0, 0.1, (300, 1))
    dense[:3] = False
    graph = Graph(sp.csr_array(dense.astype(float)), np.zeros((300, 1)))
    degrees = dense.sum(axis=1)
    nodes = random.permutation(300)[:250]
    rows = measure_by_degree(graph, nodes, lambda own: own)
    assert sum(row["quality"].sum() for row in rows) == 250
    for row in rows:
        inside = degrees[nodes][row["quality"]]
        assert row["from"] <= inside.min() <= inside.max() <= row["to"]
    assert [(row["from"], row["to"]) for row in rows[:5]] == [(0, 0), (1, 1), (2, 2), (3, 4), (5, 8)]
