from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import settings

from gbgnn.graph import Graph
from gbgnn.testing import two_blocks

# Fitting a model is slower than hypothesis's idea of a test; the number of examples is set per test. CI
# draws the same examples every time, so that a red run is the change's doing; elsewhere they are new.
settings.register_profile("gbgnn", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "gbgnn")


@pytest.fixture
def blocks() -> tuple[Graph, np.ndarray]:
    """A graph of 40 nodes in three classes, and the classes."""
    return two_blocks(40, n_classes=3)
