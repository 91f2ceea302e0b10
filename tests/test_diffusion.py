from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from gbgnn import Graph
from gbgnn.diffusion import average_neighbours, diffuse


@pytest.fixture
def weighted() -> Graph:
    random = np.random.default_rng(0)
    dense = random.uniform(0.5, 2, (12, 12)) * (random.uniform(size=(12, 12)) < 0.3)
    np.fill_diagonal(dense, 0)
    dense[3] = 0  # without neighbours of its own
    return Graph(sp.csr_array(dense), np.zeros((12, 1)))


def test_the_mean_is_that_of_dense_arithmetic(weighted: Graph) -> None:
    A, S = weighted.adjacency.toarray(), np.random.default_rng(1).normal(size=(12, 3))
    sums = A.sum(axis=1, keepdims=True)
    expected = np.divide(A @ S, sums, out=np.zeros_like(S), where=sums > 0)
    np.testing.assert_allclose(average_neighbours(weighted, S), expected)
    assert not expected[3].any()
    expected[3] = S[3]
    np.testing.assert_allclose(diffuse(weighted, S, 0.3), 0.7 * S + 0.3 * expected)


def test_no_share_is_no_change_and_needs_no_product(weighted: Graph) -> None:
    S = np.ones((12, 2))
    assert diffuse(weighted, S, 0) is S
