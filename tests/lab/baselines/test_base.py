from __future__ import annotations

from dataclasses import dataclass, fields, replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from gbgnn._optimizers import Stepper
from gbgnn.errors import ParameterError
from gbgnn.problem import LabelledNodes
from gbgnn.tasks import Classification
from gbgnn_lab.baselines import BASELINES, BaselineModel
from gbgnn_lab.baselines.base import (
    BaselineFit,
    Network,
    NetworkModel,
    count,
    count_parameters,
    descend,
    train,
)
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
    assert long.n_parameters == count_parameters(Network(model, given)) == 8 * 16 + 16 + 16 * 3 + 3


def test_a_model_of_ones_own_may_have_any_setting(given: TrainingData) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Constant(BaselineModel):
        warmth: float = 20.0
        depth: int = count(1)

        def fit(self, data: TrainingData) -> BaselineFit:
            return BaselineFit(torch.full((data.graph.n_nodes, data.n_outputs), self.warmth), 0, 0)

    Constant(warmth=-300.0).check()
    with pytest.raises(ParameterError, match="Constant.depth must be an integer >= 1; got 0"):
        Constant(depth=0).check()
    assert Constant().fit(given).scores.shape == (120, 3)


@pytest.mark.parametrize(("model", "n_layers"), [(GCN(depth=3), 3), (MLP(), 2), (APPNP(), 2)])
def test_the_first_layer_alone_is_penalised(given: TrainingData, model: NetworkModel, n_layers: int) -> None:
    network = Network(model, given)
    (first, penalty), (others, none) = model.groups(network)
    assert (penalty, none) == (model.weight_decay, 0.0)
    assert [id(p) for p in [*first, *others]] == [id(p) for p in network.parameters()]
    assert len(others) == (n_layers - 1) * len(first)
    assert len(GCN(depth=1).groups(Network(GCN(depth=1), given))) == 1
    assert [decay for _, decay in TAGCN().groups(Network(TAGCN(), given))] == [5e-4]


RIGHT, WRONG = [4.0, 0.0, 0.0], [0.0, 4.0, 0.0]


class Scripted(nn.Module):
    """Learns one number, and gives validation nodes the scores of a script, epoch by epoch."""

    def __init__(self, script: list[list[list[float]]]) -> None:
        super().__init__()
        self.number = nn.Parameter(torch.zeros(1))
        self.script, self.seen = script, [self.number.item()]

    def outputs(self, rows: torch.Tensor | slice) -> torch.Tensor:
        if self.training or isinstance(rows, slice):
            return self.number * torch.eye(3)[rows]
        self.seen.append(self.number.item())
        return torch.tensor(self.script[len(self.seen) - 2])


def play(script: list[list[list[float]]], patience: int | None = None) -> tuple[int, Scripted]:
    nodes = LabelledNodes.build(torch.tensor([0, 1, 2]).numpy(), torch.tensor([0, 1, 2]).numpy())
    both = LabelledNodes.build(torch.tensor([0, 1]).numpy(), torch.tensor([0, 0]).numpy())
    task = Classification(classes=np.arange(3))
    given = TrainingData(None, nodes, both, task, torch.device("cpu"))  # type: ignore[arg-type]
    network = Scripted(script)
    groups = [(list(network.parameters()), 0.0)]
    pace = SimpleNamespace(learning_rate=0.1, epochs=len(script), patience=patience)
    return train(pace, network, network.outputs, groups, given).best_epoch, network


def test_the_best_epoch_has_the_highest_accuracy_then_the_lowest_loss() -> None:
    surer = [8.0, 0.0, 0.0]
    epoch, network = play([[WRONG, WRONG], [RIGHT, RIGHT], [surer, surer], [surer, WRONG]])
    assert epoch == 3
    assert network.number.item() == network.seen[3]
    # One of two right with a small loss loses against two of two with a large one.
    doubtful = [0.2, 0.1, 0.1]
    assert play([[[9.0, 0.0, 0.0], [0.1, 0.2, 0.1]], [doubtful, doubtful]])[0] == 2


def test_the_first_of_equals_is_kept() -> None:
    assert play([[RIGHT, WRONG], [RIGHT, WRONG], [RIGHT, WRONG]])[0] == 1


def test_patience_counts_epochs_in_which_nothing_improved() -> None:
    falling = [[[float(i), 9.0, 0.0], WRONG] for i in range(4)]  # wrong, yet with a lower loss each time
    _, network = play([*falling, *[[WRONG, WRONG]] * 10], patience=3)
    # The loss of the first script line is larger than that of the later ones, which are all equal.
    assert len(network.seen) - 1 == 4 + 1 + 3
    assert len(play([[WRONG, WRONG]] * 9)[1].seen) - 1 == 9


def test_without_validation_the_last_epoch_stays(given: TrainingData) -> None:
    model = GCN(epochs=7)
    outcome = model.fit(replace(given, validation=None))
    assert outcome.best_epoch == 7


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_steps_equal_those_of_torch_adam_with_decay_on_the_first_layer(
    given: TrainingData, depth: int
) -> None:
    model = GCN(depth=depth, dropout=0.0, epochs=5, weight_decay=0.3)
    alone = replace(given, validation=None)
    torch.manual_seed(3)
    ours = model.fit(alone).scores
    torch.manual_seed(3)
    network = Network(model, alone)
    first, *rest = network.layers
    optimizer = torch.optim.Adam(
        [
            {"params": list(first.parameters()), "weight_decay": 0.3},
            *({"params": list(layer.parameters())} for layer in rest),
        ],
        lr=0.01,
    )
    for _ in range(5):
        optimizer.zero_grad()
        functional.cross_entropy(network()[given.train.rows], given.train.targets).backward()
        optimizer.step()
    torch.testing.assert_close(ours, network().detach(), rtol=1e-4, atol=1e-5)


def test_weights_count_nodes_as_often_as_they_say(given: TrainingData) -> None:
    X = given.features
    twice = LabelledNodes(
        given.train.rows.repeat(2)[:45], given.train.targets.repeat(2)[:45], torch.full((45,), 1 / 45)
    )
    weights = torch.full((30,), 1 / 45)
    weights[:15] *= 2
    results = []
    for nodes, shares in ((twice, None), (given.train, weights)):
        torch.manual_seed(0)
        layer = nn.Linear(8, 3)
        groups = [(list(layer.parameters()), 0.0)]
        alone = replace(given, train=nodes, validation=None)
        pace = SimpleNamespace(learning_rate=0.1, epochs=10, patience=None)
        train(pace, layer, lambda rows, layer=layer: layer(X[rows]), groups, alone, shares)
        results.append(layer.weight.detach())
    torch.testing.assert_close(*results)


def test_gradients_that_lie_transposed_in_memory_go_to_their_own_weights() -> None:
    torch.manual_seed(0)
    W = nn.Parameter(torch.randn(3, 4))
    twin = nn.Parameter(W.detach().clone())
    X = torch.randn(5, 4)
    stepper, optimizer = Stepper("adam", [W], 0.1), torch.optim.Adam([twin], lr=0.1)

    def slope(weight: nn.Parameter) -> torch.Tensor:
        return (weight.t() * torch.arange(12.0).view(4, 3)).sum() + (X @ weight.t()).square().sum()

    for _ in range(3):
        descend(slope(W), [stepper])
        optimizer.zero_grad()
        slope(twin).backward()
        optimizer.step()
    torch.testing.assert_close(W, twin)


@pytest.mark.parametrize("most_slope", [0.1, 1e6])
def test_long_gradients_are_shortened_as_torch_does(most_slope: float) -> None:
    torch.manual_seed(0)
    ours, twin = nn.Linear(4, 2), nn.Linear(4, 2)
    twin.load_state_dict(ours.state_dict())
    X = torch.randn(5, 4)
    stepper = Stepper("sgd", list(ours.parameters()), 0.1)
    optimizer = torch.optim.SGD(twin.parameters(), lr=0.1)
    for _ in range(3):
        descend(ours(X).square().sum(), [stepper], most_slope)
        optimizer.zero_grad()
        twin(X).square().sum().backward()
        nn.utils.clip_grad_norm_(twin.parameters(), most_slope)
        optimizer.step()
    torch.testing.assert_close(ours.weight, twin.weight)
    torch.testing.assert_close(ours.bias, twin.bias)


def test_an_epoch_takes_as_many_steps_as_it_is_told_down_what_it_is_told(given: TrainingData) -> None:
    layer, calls = nn.Linear(8, 3), []

    def objective() -> torch.Tensor:
        calls.append(layer.training)
        return layer.weight.square().sum()

    groups = [(list(layer.parameters())[:1], 0.0)]
    pace = SimpleNamespace(learning_rate=0.01, epochs=4, patience=None)
    before = layer.weight.square().sum().item()
    alone = replace(given, validation=None)
    train(pace, layer, lambda rows: layer(given.features[rows]), groups, alone, objective=objective, steps=5)
    assert calls == [True] * 20
    assert layer.weight.square().sum().item() < before
