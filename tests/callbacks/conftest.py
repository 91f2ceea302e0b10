from __future__ import annotations

import numpy as np
import pytest

from gbgnn import MLP, GBGNNClassifier
from gbgnn.testing import two_blocks


class Toy:
    """60 nodes in three classes: 15 labelled, 20 for validation."""

    graph, y = two_blocks(60, n_classes=3)
    train, val = np.arange(15), np.arange(15, 35)

    def model(self, **settings: object) -> GBGNNClassifier:
        defaults = {"learner": MLP(epochs=5, units=8), "n_rounds": 12, "random_state": 0}
        return GBGNNClassifier(**defaults | settings)

    def teach(self, model: GBGNNClassifier, *, validation: bool = True) -> GBGNNClassifier:
        known = (self.val, self.y[self.val]) if validation else None
        return model.fit(self.train, self.y[self.train], graph=self.graph, validation=known)

    def fit(self, *, validation: bool = True, **settings: object) -> GBGNNClassifier:
        return self.teach(self.model(**settings), validation=validation)


@pytest.fixture(scope="session")
def toy() -> Toy:
    return Toy()
