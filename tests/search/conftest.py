from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import optuna
import pytest

from gbgnn import datasets
from gbgnn.datasets import Dataset
from gbgnn.search import Choice, Integer, Real, SearchResult, SearchSpace, tune
from gbgnn.search.objective import TrainingData
from gbgnn.search.study import state_name

SPACE = SearchSpace(
    # SAMME.R refuses no learner, so every trial has all its rounds.
    {"rule": "samme_r", "aggregation": "injection", "n_rounds": 7},
    {
        "learner__units": Integer(2, 8),
        "learner__epochs": Integer(2, 12, step=2),
        "learner__learning_rate": Real(1e-3, 0.3, log=True),
        "learner__optimizer": Choice(["adam", "sgd"]),
        "aggregation__mixing": Real(0.0, 1.0),
    },
)


@dataclass(frozen=True)
class Toy:
    """A tiny data set, a quick space, and the search of one in the other."""

    data: Dataset
    space: SearchSpace = field(default=SPACE)

    @property
    def known(self) -> TrainingData:
        data = self.data
        return TrainingData(data.train, data.y[data.train], data.graph, (data.val, data.y[data.val]))

    def tune(self, n_trials: int = 4, **options: Any) -> SearchResult:
        known = self.known
        given = {"space": self.space, "device": "cpu", "n_trials": n_trials, **options}
        return tune(known.nodes, known.y, graph=known.graph, validation=known.validation, **given)


@pytest.fixture
def toy() -> Toy:
    return Toy(datasets.csbm(n_nodes=90, per_class=6, n_classes=3, n_features=4, n_val=40, seed=3))


@pytest.fixture
def told():
    """What a study says of its trials, apart from times."""

    def tell(study: optuna.Study) -> list[tuple[Any, ...]]:
        return [
            (state_name(t), t.values, t.params, t.intermediate_values)
            for t in study.trials
            if state_name(t) != "interrupted"
        ]

    return tell


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prune from the second complete trial and the first round on."""
    monkeypatch.setattr("gbgnn.search.objective.N_STARTUP_TRIALS", 2)
    monkeypatch.setattr("gbgnn.search.objective.N_WARMUP_ROUNDS", 1)
