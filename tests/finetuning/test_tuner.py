from __future__ import annotations

import pytest
from sklearn.base import clone

from gbgnn.errors import ParameterError
from gbgnn.finetuning import FineTuner


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
        ({"moves": ("learner",)}, "got 'learner' among them. Did you mean 'learners'"),
        ({"moves": (3,)}, "FineTuner.moves must be of learners, etas, aggregation; got 3 among them"),
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
