from __future__ import annotations

import pytest

from gbgnn import GBGNNClassifier, datasets
from gbgnn.datasets import Dataset


@pytest.fixture(scope="session")
def blocks_of_three() -> Dataset:
    """Nodes of three classes, with few edges and noisy features, so that nobody can be sure."""
    return datasets.csbm(n_nodes=600, n_classes=3, per_class=10, seed=0)


@pytest.fixture(scope="session")
def classifier(blocks_of_three: Dataset) -> GBGNNClassifier:
    """Fitted without validation nodes."""
    model = GBGNNClassifier(n_rounds=3, preset="fast", random_state=0)
    data = blocks_of_three
    return model.fit(data.train, data.y[data.train], graph=data.graph)
