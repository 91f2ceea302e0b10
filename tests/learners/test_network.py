from __future__ import annotations

import pickle
from dataclasses import replace

import pytest
import scipy.sparse as sp
import torch

from gbgnn.learners import MLP, ConstrainedMLP, Learner, MLPHead, WeakTask, WideReLU
from gbgnn.learners.epochs import Dropout, Orders
from gbgnn.learners.network import Batch, Network
from gbgnn.losses import Loss, SigmoidCrossEntropy
from gbgnn.propagation import SparseRows
from gbgnn.rounds import RoundContext
from gbgnn.testing import learner_round


def make_round(regression: bool = False) -> RoundContext:
    random = torch.Generator().manual_seed(0)
    X = torch.randn(15, 5, generator=random, dtype=torch.float64)
    weights = torch.rand(15, generator=random, dtype=torch.float64)
    numbers = torch.randn(15, 3, generator=random, dtype=torch.float64)
    targets = numbers if regression else torch.arange(15) % 3
    return learner_round(X, targets, weights=weights / weights.sum())


def make_task(regression: bool = False) -> tuple[torch.Tensor, WeakTask]:
    context = make_round(regression)
    return context.X.dense(), context.weak_task


def started(widths: list[int], dtype: torch.dtype = torch.float64) -> Network:
    return Network.initialized(widths, seed=0, like=torch.zeros(1, dtype=dtype))


@pytest.mark.parametrize("loss", [None, SigmoidCrossEntropy()], ids=["task's own", "sigmoid"])
@pytest.mark.parametrize("regression", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("widths", [[5, 3], [5, 6, 3], [5, 6, 6, 3]])
def test_gradient_equals_autograd(
    widths: list[int], dropout: float, regression: bool, loss: Loss | None
) -> None:
    X, task = make_task(regression)
    if loss is not None:
        task = replace(task, loss=loss, targets=torch.arange(45).view(15, 3) % 2)
    network, masks = started(widths), None
    if dropout and len(widths) > 2:
        masks = Dropout(dropout, (len(widths) - 2, 15, 6), seed=0, like=X).masks(epoch=0)
    network.backward(Batch.of_task(X, task), masks)
    copies = [(w.clone().requires_grad_(), b.clone().requires_grad_()) for w, b in network.layers]
    hidden = X
    for depth, (weight, bias) in enumerate(copies[:-1]):
        hidden = (hidden @ weight + bias).relu()
        hidden = hidden if masks is None else hidden * masks[depth]
    output = hidden @ copies[-1][0] + copies[-1][1]
    (task.loss.values(output, task.targets) * task.weights).sum().backward()
    for (mine_w, mine_b), (weight, bias) in zip(network.gradients, copies, strict=True):
        torch.testing.assert_close(mine_w, weight.grad)
        torch.testing.assert_close(mine_b, bias.grad)


def test_minibatch_gradients_average_to_that_of_all_rows() -> None:
    X, task = make_task()
    network, whole = started([5, 6, 3]), Batch.of_task(X, task)
    masks = Dropout(0.4, (1, 15, 6), seed=1, like=X)
    batches = list(whole.shuffled(5, Orders(15, seed=1), epoch=2))
    parts = [network.backward(batch, masks.masks(2, batch.chosen)).clone() for batch in batches]
    assert len(parts) == 3
    torch.testing.assert_close(torch.stack(parts).mean(dim=0), network.backward(whole, masks.masks(2)))


@pytest.mark.parametrize("batch_size", [None, 15, 100])
def test_large_batches_are_all_rows_in_order(batch_size: int | None) -> None:
    X, task = make_task()
    whole = Batch.of_task(X, task)
    assert list(whole.shuffled(batch_size, Orders(15, seed=0), epoch=0)) == [whole]


def test_precisions_start_from_the_same_weights() -> None:
    double, single = started([5, 6, 3]), started([5, 6, 3], torch.float32)
    torch.testing.assert_close(double.weights.float(), single.weights, rtol=1e-6, atol=0)


def test_narrow_network_starts_as_a_part_of_a_wider_one() -> None:
    narrow, wide = started([5, 4, 3]), started([5, 9, 3])
    (first, first_bias), (last, last_bias) = wide.layers
    assert torch.equal(narrow.layers[0][0], first[:, :4])
    assert torch.equal(narrow.layers[0][1], first_bias[:4])
    # Deeper layers have fewer inputs, so that torch draws from a wider interval.
    torch.testing.assert_close(narrow.layers[1][0], last[:4] * (9 / 4) ** 0.5)
    torch.testing.assert_close(narrow.layers[1][1], last_bias * (9 / 4) ** 0.5)


def test_layers_are_views_of_one_vector() -> None:
    network = started([5, 6, 3])
    network.weights.fill_(2.0)
    assert all(bool((w == 2).all() and (b == 2).all()) for w, b in network.layers)
    assert network.weights.numel() == 5 * 6 + 6 + 6 * 3 + 3


@pytest.mark.parametrize("widths", [[5, 1], [5, 6, 3]])
def test_head_computes_what_the_network_does_and_keeps_copies(widths: list[int]) -> None:
    X, _ = make_task()
    network = started(widths)
    head = MLPHead.from_layers(network.layers)
    before = network.outputs(X)
    torch.testing.assert_close(head(X), before)
    assert len(pickle.dumps(head)) < len(pickle.dumps(MLPHead([]))) + 8 * network.weights.numel() + 4000
    network.weights.zero_()
    torch.testing.assert_close(head(X), before)


@pytest.mark.parametrize(
    "learner",
    [MLP(epochs=2), MLP(epochs=2, hidden_layers=0), ConstrainedMLP(epochs=2, bias=True), WideReLU(units=64)],
    ids=str,
)
def test_first_layer_is_what_rows_meet_first(learner: Learner) -> None:
    context = make_round(regression=True)
    X, head = context.X.dense(), learner.fit(context)
    weight, bias = (head.state()[name] for name in head.first_layer)
    hidden = X @ weight.T + bias
    for layer in head.layers[1:]:
        hidden = layer(hidden.relu())
    torch.testing.assert_close(hidden, head(X))


@pytest.mark.parametrize("widths", [[5, 1], [5, 6, 3]])
def test_sparse_rows_give_the_same_outputs(widths: list[int]) -> None:
    X, _ = make_task()
    X[X.abs() < 0.8] = 0
    head = MLPHead.from_layers(started(widths).layers)
    sparse = SparseRows.from_scipy(sp.csr_array(X.numpy()), dtype=torch.float64)
    torch.testing.assert_close(head.evaluate(sparse), head(X))


def test_report_stays_with_the_head_but_not_in_its_state() -> None:
    network = started([5, 3])
    head = MLPHead.from_layers(network.layers, {"epochs": 3})
    assert head.report() == {"epochs": 3}
    assert set(head.state()) == {"layers.0.weight", "layers.0.bias"}
    assert MLPHead.from_state(head.state()).report() is None


def test_a_batch_takes_numbers_in_the_precision_of_its_rows() -> None:
    context = make_round(regression=True)
    rows = context.X.dense().float()
    batch = Batch.of_task(rows, context.weak_task)
    assert {t.dtype for t in (batch.rows, batch.targets, batch.weights)} == {torch.float32}
    output = torch.zeros(15, 3)
    expected = 2 * (output - context.weak_task.targets.float()) * context.weak_task.weights.float()[:, None]
    torch.testing.assert_close(batch.error(output), expected)
