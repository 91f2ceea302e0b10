from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional

from gbgnn._optimizers import Stepper
from gbgnn.problem import LabelledNodes
from gbgnn_lab.baselines.convolutional import GCN
from gbgnn_lab.baselines.task import Task
from gbgnn_lab.baselines.training import Group, Schedule, descend, first_layer_decays, train

RIGHT, WRONG = [4.0, 0.0, 0.0], [0.0, 4.0, 0.0]


class Scripted(nn.Module):
    """Learns one number, and gives validation nodes the scores of a script, epoch by epoch."""

    def __init__(self, script: list[list[list[float]]]) -> None:
        super().__init__()
        self.number = nn.Parameter(torch.zeros(1))
        self.script, self.seen = script, [self.number.item()]

    def outputs(self, rows: torch.Tensor) -> torch.Tensor:
        if self.training:
            return self.number * torch.eye(3)[rows]
        self.seen.append(self.number.item())
        return torch.tensor(self.script[len(self.seen) - 2])


def play(script: list[list[list[float]]], patience: int | None = None) -> tuple[int, Scripted]:
    nodes = LabelledNodes.build(torch.tensor([0, 1, 2]).numpy(), torch.tensor([0, 1, 2]).numpy())
    both = LabelledNodes.build(torch.tensor([0, 1]).numpy(), torch.tensor([0, 0]).numpy())
    task = Task(None, nodes, both, 3, torch.device("cpu"))  # type: ignore[arg-type]
    network = Scripted(script)
    groups = [Group(list(network.parameters()), 0.0)]
    epoch = train(network, network.outputs, groups, task, Schedule(0.1, len(script), patience))
    return epoch, network


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


def test_without_validation_the_last_epoch_stays(task: Task) -> None:
    model = GCN(epochs=7)
    outcome = model.fit(replace(task, validation=None))
    assert outcome.best_epoch == 7


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_steps_equal_those_of_torch_adam_with_decay_on_the_first_layer(task: Task, depth: int) -> None:
    model = GCN(depth=depth, dropout=0.0, epochs=5, weight_decay=0.3)
    alone = replace(task, validation=None)
    torch.manual_seed(3)
    ours = model.fit(alone).scores
    torch.manual_seed(3)
    network = model.network(alone)
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
        functional.cross_entropy(network()[task.train.rows], task.train.targets).backward()
        optimizer.step()
    torch.testing.assert_close(ours, network().detach(), rtol=1e-4, atol=1e-5)


def test_weights_count_nodes_as_often_as_they_say(task: Task) -> None:
    X = task.features.tensor
    twice = LabelledNodes(
        task.train.rows.repeat(2)[:45], task.train.targets.repeat(2)[:45], torch.full((45,), 1 / 45)
    )
    weights = torch.full((30,), 1 / 45)
    weights[:15] *= 2
    results = []
    for nodes, given in ((twice, None), (task.train, weights)):
        torch.manual_seed(0)
        layer = nn.Linear(8, 3)
        groups = [Group(list(layer.parameters()), 0.0)]
        alone = replace(task, train=nodes, validation=None)
        train(layer, lambda rows, layer=layer: layer(X[rows]), groups, alone, Schedule(0.1, 10), given)
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


def test_first_layer_alone_is_penalised() -> None:
    layers = nn.ModuleList([nn.Linear(2, 3), nn.Linear(3, 3), nn.Linear(3, 1)])
    first, others = first_layer_decays(layers, 0.5)
    assert (len(first.parameters), first.weight_decay) == (2, 0.5)
    assert (len(others.parameters), others.weight_decay) == (4, 0.0)
    assert len(first_layer_decays(layers[:1], 0.5)) == 1
