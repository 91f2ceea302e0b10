from __future__ import annotations

from dataclasses import dataclass, fields, replace

import pytest
import torch

from gbgnn.errors import ParameterError
from gbgnn_lab.baselines import BASELINES, BaselineModel
from gbgnn_lab.baselines.base import BaselineFit, NetworkModel, count, count_parameters
from gbgnn_lab.baselines.convolutional import GCN, TAGCN
from gbgnn_lab.baselines.data import TrainingData
from gbgnn_lab.baselines.propagating import APPNP, MLP

MODELS = [entry.model for entry in BASELINES.values()]


def test_a_baseline_must_say_how_it_is_fitted() -> None:
    with pytest.raises(TypeError, match="fit"):
        BaselineModel()  # type: ignore[abstract]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_every_setting_is_checked(model: BaselineModel) -> None:
    for field in fields(model):
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


def test_scores_are_those_of_the_best_epoch_without_dropout(given: TrainingData) -> None:
    model = GCN(epochs=20)
    torch.manual_seed(0)
    long = model.fit(given)
    torch.manual_seed(0)
    short = replace(model, epochs=long.best_epoch).fit(given)
    assert short.scores.equal(long.scores)
    assert long.n_parameters == count_parameters(model.network(given)) == 8 * 16 + 16 + 16 * 3 + 3


def test_a_model_of_ones_own_may_have_any_setting(given: TrainingData) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Constant(BaselineModel):
        warmth: float = 20.0
        depth: int = count(1)

        def fit(self, data: TrainingData) -> BaselineFit:
            return BaselineFit(torch.full((data.n_nodes, data.n_classes), self.warmth), 0, 0)

    Constant(warmth=-300.0).check()
    with pytest.raises(ParameterError, match="Constant.depth must be an integer >= 1; got 0"):
        Constant(depth=0).check()
    assert Constant().fit(given).scores.shape == (120, 3)


@pytest.mark.parametrize(("model", "n_layers"), [(GCN(depth=3), 3), (MLP(), 2), (APPNP(), 2)])
def test_the_first_layer_alone_is_penalised(given: TrainingData, model: NetworkModel, n_layers: int) -> None:
    network = model.network(given)
    (first, penalty), (others, none) = model.groups(network)
    assert (penalty, none) == (model.weight_decay, 0.0)
    assert [id(p) for p in [*first, *others]] == [id(p) for p in network.parameters()]
    assert len(others) == (n_layers - 1) * len(first)
    assert len(GCN(depth=1).groups(GCN(depth=1).network(given))) == 1
    assert [decay for _, decay in TAGCN().groups(TAGCN().network(given))] == [5e-4]
