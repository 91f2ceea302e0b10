from __future__ import annotations

import pickle

import pytest
import torch

from gbgnn.learners import MLP, ConstrainedMLP, Learner, MLPHead, WeakTask, WideReLU
from gbgnn.learners.network import Batch, Network, losses


def make_task(regression: bool = False) -> tuple[torch.Tensor, WeakTask]:
    random = torch.Generator().manual_seed(0)
    X = torch.randn(15, 5, generator=random, dtype=torch.float64)
    weights = torch.rand(15, generator=random, dtype=torch.float64)
    numbers = torch.randn(15, 3, generator=random, dtype=torch.float64)
    targets = numbers if regression else torch.arange(15) % 3
    return X, WeakTask(torch.arange(15), targets, weights / weights.sum(), 3)


def started(widths: list[int]) -> tuple[Network, torch.Generator]:
    random = torch.Generator().manual_seed(0)
    return Network.initialized(widths, random, like=torch.zeros(1, dtype=torch.float64)), random


@pytest.mark.parametrize("regression", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("widths", [[5, 3], [5, 6, 3], [5, 6, 4, 3]])
def test_gradient_equals_autograd(widths: list[int], dropout: float, regression: bool) -> None:
    X, task = make_task(regression)
    network, random = started(widths)
    state = random.get_state()
    network.backward(Batch.of_task(X, task), random, dropout)
    random.set_state(state)  # the same units are dropped again
    copies = [(w.clone().requires_grad_(), b.clone().requires_grad_()) for w, b in network.layers]
    hidden = X
    for weight, bias in copies[:-1]:
        hidden = (hidden @ weight + bias).relu()
        if dropout:
            kept = torch.rand(hidden.shape, generator=random, dtype=torch.float64) >= dropout
            hidden = hidden * kept / (1 - dropout)
    output = hidden @ copies[-1][0] + copies[-1][1]
    (losses(output, task.targets) * task.weights).sum().backward()
    for (mine_w, mine_b), (weight, bias) in zip(network.slopes, copies, strict=True):
        torch.testing.assert_close(mine_w, weight.grad)
        torch.testing.assert_close(mine_b, bias.grad)


def test_minibatch_gradients_average_to_that_of_all_rows() -> None:
    X, task = make_task()
    network, random = started([5, 6, 3])
    whole = Batch.of_task(X, task)
    parts = [network.backward(batch, random).clone() for batch in whole.shuffled(5, random)]
    assert len(parts) == 3
    torch.testing.assert_close(torch.stack(parts).mean(dim=0), network.backward(whole, random))


@pytest.mark.parametrize("batch_size", [None, 15, 100])
def test_large_batches_are_all_rows_in_order(batch_size: int | None) -> None:
    X, task = make_task()
    whole = Batch.of_task(X, task)
    assert list(whole.shuffled(batch_size, torch.Generator())) == [whole]


def test_layers_are_views_of_one_vector() -> None:
    network, _ = started([5, 6, 3])
    network.weights.fill_(2.0)
    assert all(bool((w == 2).all() and (b == 2).all()) for w, b in network.layers)
    assert network.weights.numel() == 5 * 6 + 6 + 6 * 3 + 3


@pytest.mark.parametrize("widths", [[5, 1], [5, 6, 3]])
def test_head_computes_what_the_network_does_and_keeps_copies(widths: list[int]) -> None:
    X, _ = make_task()
    network, _ = started(widths)
    head = MLPHead.from_layers(network.layers)
    before = network.outputs(X)
    torch.testing.assert_close(head.evaluate(X), before)
    assert len(pickle.dumps(head)) < len(pickle.dumps(MLPHead([]))) + 8 * network.weights.numel() + 4000
    network.weights.zero_()
    torch.testing.assert_close(head.evaluate(X), before)


@pytest.mark.parametrize(
    "learner",
    [MLP(epochs=2), MLP(epochs=2, hidden_layers=0), ConstrainedMLP(epochs=2, bias=True), WideReLU(units=64)],
    ids=str,
)
def test_first_layer_is_what_rows_meet_first(learner: Learner) -> None:
    X, task = make_task(regression=True)
    head = learner.fit(X, task, seed=0)
    weight, bias = (head.state()[name] for name in head.first_layer)
    rest = MLPHead([torch.nn.Identity(), *head.layers[1:]])
    torch.testing.assert_close(rest(X @ weight.T + bias), head(X))


def test_report_stays_with_the_head_but_not_in_its_state() -> None:
    network, _ = started([5, 3])
    head = MLPHead.from_layers(network.layers, {"epochs": 3})
    assert head.report() == {"epochs": 3}
    assert set(head.state()) == {"layers.0.weight", "layers.0.bias"}
    assert MLPHead.from_state(head.state()).report() is None


def test_losses_are_squared_errors_and_cross_entropies() -> None:
    output = torch.tensor([[0.0, 0.0], [1.0, 3.0]])
    assert losses(output, torch.tensor([[1.0, 2.0], [1.0, 1.0]])).tolist() == [5.0, 4.0]
    torch.testing.assert_close(losses(output, torch.tensor([0, 1])), torch.tensor([0.693147, 0.126928]))
