from __future__ import annotations

import os
from pathlib import Path

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


# Read before a fixture hides it from tests that must not see outside data.
_GIVEN = os.environ.get("GBGNN_DATA")


@pytest.fixture(scope="session")
def planetoid_folder() -> Path:
    """The folder with the ind.* files that GBGNN_DATA names."""
    for folder in [] if _GIVEN is None else [Path(_GIVEN), Path(_GIVEN, "planetoid")]:
        if (folder / "ind.cora.x").is_file():
            return folder
    pytest.skip("GBGNN_DATA names no folder with the Planetoid files")


@pytest.fixture
def blocks() -> tuple[Graph, np.ndarray]:
    """A graph of 40 nodes in three classes, and the classes."""
    return two_blocks(40, n_classes=3)
