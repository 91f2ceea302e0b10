from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from gbgnn import GBGNNClassifier
from gbgnn.errors import WeakLearnerError
from gbgnn.learners import MLP
from gbgnn.population import PopulationInputs
from gbgnn.testing import two_blocks

GRAPH, Y = two_blocks(70, n_classes=3)
TRAIN, VAL, NODES = np.arange(24), np.arange(24, 48), np.arange(70)

Alone = Callable[[Sequence[GBGNNClassifier]], list[GBGNNClassifier | None]]


@pytest.fixture
def model() -> Callable[..., GBGNNClassifier]:
    """A model in double precision; ``learner`` is a dictionary of settings."""

    def build(learner: dict[str, Any] | None = None, **settings: Any) -> GBGNNClassifier:
        settings = {"rule": "samme", "n_rounds": 3, "dtype": "float64", "device": "cpu"} | settings
        mlp = MLP(**{"units": 6, "epochs": 8, "learning_rate": 0.05, **(learner or {})})
        return GBGNNClassifier(**({"learner": mlp, "random_state": 0} | settings))

    return build


@pytest.fixture
def inputs_of() -> Callable[..., PopulationInputs]:
    def build(model: GBGNNClassifier, **settings: Any) -> PopulationInputs:
        given = {"validation": (VAL, Y[VAL]), "predict_nodes": NODES} | settings
        return PopulationInputs.of(model, TRAIN, Y[TRAIN], graph=GRAPH, **given)

    return build


@pytest.fixture
def alone() -> Alone:
    """Every model trained by itself; None where not even one round could be."""

    def fit(model: GBGNNClassifier) -> GBGNNClassifier | None:
        try:
            return clone(model).fit(TRAIN, Y[TRAIN], graph=GRAPH, validation=(VAL, Y[VAL]))
        except WeakLearnerError:
            return None

    return lambda models: [fit(model) for model in models]
