from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse as sp

DrawWeights = Callable[..., sp.csr_array]


@pytest.fixture(scope="session")
def draw_weights() -> DrawWeights:
    """What draws the weights of a graph of a few nodes, many of them zero, self loops among the others."""

    def draw(n_nodes: int, seed: int, *, symmetric: bool = False) -> sp.csr_array:
        random = np.random.default_rng(seed)
        shape = n_nodes, n_nodes
        A = random.integers(1, 4, size=shape) * (random.random(shape) < 0.3)
        return sp.csr_array((np.maximum(A, A.T) if symmetric else A).astype(np.float64))

    return draw
