from __future__ import annotations

import numpy as np
import pytest
from hypothesis import settings

from gbgnn.graph import Graph
from gbgnn.testing import two_blocks

# Fitting a model is slower than hypothesis's idea of a test; the number of examples is set per test.
settings.register_profile("gbgnn", deadline=None)
settings.load_profile("gbgnn")


@pytest.fixture
def blocks() -> tuple[Graph, np.ndarray]:
    """A graph of 40 nodes in three classes, and the classes."""
    return two_blocks(40, n_classes=3)
