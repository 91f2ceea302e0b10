from __future__ import annotations

from dataclasses import fields, replace

import pytest
import torch

from gbgnn.errors import ParameterError
from gbgnn_lab.baselines import BASELINES, BaselineModel
from gbgnn_lab.baselines.base import CHECKS, n_parameters
from gbgnn_lab.baselines.convolutional import GCN
from gbgnn_lab.baselines.task import Task

MODELS = [entry.model for entry in BASELINES.values()]


def test_a_baseline_must_say_how_it_is_fitted() -> None:
    with pytest.raises(TypeError, match="fit"):
        BaselineModel()  # type: ignore[abstract]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_every_setting_is_checked(model: BaselineModel) -> None:
    for field in fields(model):
        assert field.name in CHECKS
        with pytest.raises(ParameterError, match=rf"{type(model).__name__}.{field.name} must be"):
            replace(model, **{field.name: -1}).check()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"depth": 0}, r"GCN.depth must be an integer >= 1; got 0"),
        ({"dropout": 1.0}, r"GCN.dropout must be in \[0, 1\); got 1.0"),
        ({"learning_rate": 0.0}, r"GCN.learning_rate must be in \(0, inf\); got 0.0"),
        ({"patience": 0}, r"GCN.patience must be an integer >= 1, or None; got 0"),
    ],
)
def test_what_is_out_of_range_is_named(setting: dict[str, float], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        GCN(**setting).check()  # type: ignore[arg-type]


def test_scores_are_those_of_the_best_epoch_without_dropout(task: Task) -> None:
    model = GCN(epochs=20)
    torch.manual_seed(0)
    long = model.fit(task)
    torch.manual_seed(0)
    short = replace(model, epochs=long.best_epoch).fit(task)
    assert short.scores.equal(long.scores)
    assert long.n_parameters == n_parameters(model.network(task)) == 8 * 16 + 16 + 16 * 3 + 3
