from __future__ import annotations

import pytest

from gbgnn.datasets import Dataset, csbm
from gbgnn_lab.baselines.data import TrainingData


@pytest.fixture(scope="session")
def small() -> Dataset:
    """120 nodes in three classes that edges and features both tell apart, ten labels each."""
    return csbm(n_nodes=120, n_classes=3, n_features=8, separation=2.5, mean_degree=8, per_class=10, seed=0)


@pytest.fixture
def given(small: Dataset) -> TrainingData:
    """What a baseline sees of it."""
    return TrainingData.from_dataset(small)
