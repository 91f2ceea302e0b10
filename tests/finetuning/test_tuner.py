from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.tree import DecisionTreeClassifier

from gbgnn import MLP, Callback, FineTuner, GBGNNClassifier, SklearnLearner
from gbgnn.callbacks import StartReport
from gbgnn.errors import ParameterError
from gbgnn.finetuning import as_fine_tuner, check_fine_tuning
from gbgnn.testing import two_blocks


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"epochs": -1}, "FineTuner.epochs must be an integer >= 0"),
        ({"optimizer": "adan"}, "FineTuner.optimizer must be one of .* Did you mean 'adam'"),
        ({"learning_rate": 0}, "FineTuner.learning_rate must be in"),
        ({"momentum": 1}, "FineTuner.momentum must be in"),
        ({"weight_decay": -1}, "FineTuner.weight_decay must be in"),
        ({"batch_size": 0}, "FineTuner.batch_size must be an integer >= 1, or None"),
        ({"patience": 0}, "FineTuner.patience must be an integer >= 1, or None"),
        ({"keep": "worst"}, "FineTuner.keep must be one of best, tuned"),
        ({"memory_limit": "lots"}, "FineTuner.memory_limit must be a number of bytes"),
        ({"moves": ()}, "FineTuner.moves must be one or more of learners, etas, aggregation"),
        ({"moves": "etas"}, r"each once, as a sequence .*; got 'etas'"),
        ({"moves": ("etas", "etas")}, "FineTuner.moves must be one or more of"),
        ({"moves": ("learner",)}, "got 'learner'. Did you mean 'learners'"),
        ({"moves": (3,)}, r"one or more of learners, etas, aggregation.*; got \(3,\)"),
    ],
)
def test_settings_out_of_range_are_named(setting: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        FineTuner(**setting).check(has_validation=True)


def test_defaults_are_fine_and_clone() -> None:
    tuner = clone(FineTuner(epochs=3, moves=["etas"], memory_limit="1.5 GB"))
    tuner.check(has_validation=True)
    assert tuner.epochs == 3
    FineTuner().check(has_validation=True)


def test_what_fine_tune_stands_for() -> None:
    assert as_fine_tuner(None) is as_fine_tuner(False) is None
    assert repr(as_fine_tuner(True)) == "FineTuner()"
    own = FineTuner(epochs=2)
    assert as_fine_tuner(own) is own
    for other in ("yes", 1, FineTuner):
        with pytest.raises(ParameterError, match="fine_tune must be None, True or a FineTuner object; got"):
            as_fine_tuner(other)


def test_settings_reach_the_tuner() -> None:
    model = GBGNNClassifier().set_params(fine_tune__epochs=7)
    assert model.fine_tune.epochs == 7
    model.set_params(fine_tune=True).set_params(fine_tune__optimizer="sgd")
    assert (model.fine_tune.epochs, model.fine_tune.optimizer) == (100, "sgd")


def test_what_can_be_tuned_passes() -> None:
    check_fine_tuning(FineTuner(patience=3), MLP(), keep_learners=True, has_validation=True)
    check_fine_tuning(FineTuner(), MLP(), keep_learners=True, has_validation=False)


TREES = SklearnLearner(estimator=DecisionTreeClassifier(max_depth=2))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"learner": TREES}, "fine_tune moves learners.*which SklearnLearner.*has none of; use MLP"),
        ({"keep_learners": False}, "fine_tune needs the fitted learners; set keep_learners=True"),
        ({"fine_tune": FineTuner(epochs=-1)}, "FineTuner.epochs must be an integer >= 0"),
        ({"has_validation": False, "fine_tune": FineTuner(patience=3)}, "patience stops on validation nodes"),
        ({"fine_tune": "yes"}, "fine_tune must be None, True or a FineTuner object; got 'yes'"),
    ],
)
def test_what_cannot_be_tuned_is_said_before_any_work(changed: dict[str, Any], message: str) -> None:
    seen = []

    class Watch(Callback):
        def on_start(self, start: StartReport) -> None:
            seen.append(start)

    settings = {
        "learner": MLP(epochs=1),
        "fine_tune": True,
        "rule": "samme",
        "has_validation": True,
    } | changed
    has_validation = settings.pop("has_validation")
    graph, y = two_blocks(30)
    train, val = np.arange(10), np.arange(10, 20)
    model = GBGNNClassifier(callbacks=[Watch()], n_rounds=1, **settings)
    with pytest.raises(ParameterError, match=message):
        model.fit(train, y[train], graph=graph, validation=(val, y[val]) if has_validation else None)
    assert not seen
