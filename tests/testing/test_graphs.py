from __future__ import annotations

import numpy as np

from gbgnn.testing import path4, problem_of, two_blocks


def test_graphs_are_what_they_say() -> None:
    assert path4().n_edges == 3
    graph, y = two_blocks(60, n_classes=3)
    ends = graph.adjacency.tocoo()
    assert (y[ends.row] == y[ends.col]).mean() > 0.6
    problem = problem_of(graph, y, np.arange(6), np.arange(6, 9))
    assert (problem.n_classes, problem.train.size, problem.validation.size) == (3, 6, 3)
