from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest


@pytest.fixture(scope="session")
def all_signs() -> Callable[[int, float], tuple[np.ndarray, np.ndarray]]:
    """Every sigma in {-1, 0, 1}^N, a row each, and its probability when each sign has probability p."""

    def enumerate_signs(n_nodes: int, p: float) -> tuple[np.ndarray, np.ndarray]:
        signs = np.indices((3,) * n_nodes).reshape(n_nodes, -1).T - 1.0
        return signs, np.where(signs == 0, 1 - 2 * p, p).prod(axis=1)

    return enumerate_signs
