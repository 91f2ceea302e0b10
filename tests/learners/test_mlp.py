from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from gbgnn.errors import ParameterError
from gbgnn.learners import MLP, MLPHead, WeakTask
from gbgnn.testing import check_learner, problem_of, two_blocks


def make_task(regression: bool = False, n_val: int = 0) -> tuple[torch.Tensor, WeakTask]:
    graph, y = two_blocks(40, n_classes=3)
    problem = problem_of(graph, y, np.arange(15), np.arange(15, 15 + n_val) if n_val else None)
    X, train = problem.inputs.features, problem.train
    targets = torch.nn.functional.one_hot(torch.tensor(y)).double()
    val = problem.validation
    return X, WeakTask(
        train.rows,
        targets[train.rows] if regression else train.targets,
        train.weights,
        3,
        None if val is None else val.rows,
        None if val is None else (targets[val.rows] if regression else val.targets),
    )


@pytest.mark.parametrize("hidden_layers", range(5))
@pytest.mark.parametrize("batch_size", [None, 4])
def test_learner_keeps_its_contract(hidden_layers: int, batch_size: int | None) -> None:
    check_learner(MLP(hidden_layers=hidden_layers, batch_size=batch_size, epochs=5))


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "rmsprop"])
@pytest.mark.parametrize("regression", [False, True])
def test_every_optimizer_lowers_the_loss(optimizer: str, regression: bool) -> None:
    X, task = make_task(regression)
    learner = MLP(optimizer=optimizer, learning_rate=0.05, momentum=0.1, epochs=60, weight_decay=0, dropout=0)
    before, after = (
        learner.set_params(epochs=n).fit(X, task, seed=0).evaluate(X[task.rows]) for n in (0, 60)
    )
    if regression:
        assert (after - task.targets).square().mean() < 0.7 * (before - task.targets).square().mean()
    else:
        loss = torch.nn.functional.cross_entropy
        assert loss(after, task.targets) < 0.7 * loss(before, task.targets)


@pytest.mark.parametrize("hidden_layers", range(5))
@pytest.mark.parametrize("regression", [False, True])
def test_full_batch_training_equals_plain_torch(hidden_layers: int, regression: bool) -> None:
    """Weighted loss, weight decay, any depth: the same numbers as torch's modules, autograd and Adam."""
    X, task = make_task(regression)
    weights = torch.linspace(1, 2, 15, dtype=torch.float64)
    task = WeakTask(task.rows, task.targets, weights / weights.sum(), 3)
    learner = MLP(hidden_layers=hidden_layers, dropout=0, standardize=False, weight_decay=0.1, units=7)
    net = learner.set_params(epochs=0).fit(X, task, seed=0).requires_grad_(True)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=0.1)
    for _ in range(20):
        optimizer.zero_grad()
        if regression:
            losses = (net(X[task.rows]) - task.targets).square().sum(dim=1)
        else:
            losses = torch.nn.functional.cross_entropy(net(X[task.rows]), task.targets, reduction="none")
        (losses * task.weights).sum().backward()
        optimizer.step()
    fitted = learner.set_params(epochs=20).fit(X, task, seed=0)
    torch.testing.assert_close(fitted.evaluate(X), net(X).detach(), rtol=1e-9, atol=1e-9)


def test_the_penalty_gives_way_to_many_rows() -> None:
    assert [MLP().penalty(n) for n in (1, 200, 1000)] == [0.005, 0.005, 0.001]
    assert [MLP(weight_decay=w).penalty(1000) for w in (0.0, 0.3)] == [0.0, 0.3]
    X = torch.linspace(-1, 1, 400, dtype=torch.float64)[:, None]
    task = WeakTask(torch.arange(400), (X[:, 0] > 0).long(), torch.full((400,), 1 / 400).double(), 2)
    fitted, same, other = (MLP(weight_decay=w, epochs=5).fit(X, task, seed=0) for w in (None, 1 / 400, 0.005))
    assert torch.equal(fitted.evaluate(X), same.evaluate(X))
    assert not torch.equal(fitted.evaluate(X), other.evaluate(X))


def test_initialisation_is_torchs_default_distribution() -> None:
    X = torch.zeros(2, 400)
    task = WeakTask(torch.arange(2), torch.arange(2), torch.full((2,), 0.5), 2)
    head = MLP(units=300, epochs=0).fit(X, task, seed=0)
    bound = 1 / math.sqrt(400)
    weight = head.layers[0].weight
    reference = torch.nn.Linear(400, 300).weight
    assert weight.abs().max() <= bound
    assert weight.std() == pytest.approx(reference.std().item(), rel=0.02)


def test_global_random_state_is_neither_read_nor_changed() -> None:
    X, task = make_task()
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = MLP(epochs=3, batch_size=4).fit(X, task, seed=5).evaluate(X)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    assert torch.equal(MLP(epochs=3, batch_size=4).fit(X, task, seed=5).evaluate(X), first)


def test_dropout_acts_in_training_only() -> None:
    X, task = make_task()
    on, off = (MLP(dropout=p, epochs=5).fit(X, task, seed=0) for p in (0.5, 0.0))
    assert not torch.equal(on.evaluate(X), off.evaluate(X))
    assert torch.equal(on.evaluate(X), on.evaluate(X))


def test_standardized_inputs_make_unit_and_offset_of_the_features_irrelevant() -> None:
    X, task = make_task()
    moved = [1e-6 * X, 1e3 * X, X + torch.arange(5)]
    first, *others = (MLP(epochs=20).fit(Z, task, seed=0).evaluate(Z) for Z in moved)
    for other in others:
        torch.testing.assert_close(other, first, rtol=1e-6, atol=1e-8)


def test_all_zero_features_do_not_divide_by_zero() -> None:
    X, task = make_task()
    assert MLP(epochs=2).fit(torch.zeros_like(X), task, seed=0).evaluate(X).isfinite().all()


@pytest.mark.parametrize("regression", [False, True])
def test_patience_returns_the_weights_of_the_best_validation_loss(regression: bool) -> None:
    X, task = make_task(regression, n_val=15)
    settings = {"learning_rate": 0.1, "weight_decay": 0.0, "dropout": 0.0, "units": 64}

    def val_loss(epochs: int) -> float:
        output = MLP(epochs=epochs, **settings).fit(X, task, seed=0).evaluate(X[task.val_rows])
        if regression:
            return float((output - task.val_targets).square().sum(dim=1).mean())
        return float(torch.nn.functional.cross_entropy(output, task.val_targets))

    stopped = MLP(epochs=60, patience=60, **settings).fit(X, task, seed=0).evaluate(X[task.val_rows])
    curve = [val_loss(n) for n in range(1, 61)]
    best = int(np.argmin(curve)) + 1
    expected = MLP(epochs=best, **settings).fit(X, task, seed=0).evaluate(X[task.val_rows])
    assert best < 60
    torch.testing.assert_close(stopped, expected)


def test_patience_ends_training_early() -> None:
    X, task = make_task(n_val=15)
    task = WeakTask(task.rows, task.targets, task.weights, 3, task.val_rows, (task.val_targets + 1) % 3)
    long, short = (
        MLP(epochs=n, patience=1, learning_rate=0.1).fit(X, task, seed=0).evaluate(X) for n in (10**9, 1)
    )
    assert torch.equal(long, short)  # every epoch makes wrong validation labels worse


def test_patience_without_validation_is_an_error() -> None:
    X, task = make_task()
    with pytest.raises(ParameterError, match="MLP.patience stops on validation nodes, but there are none"):
        MLP(patience=3).fit(X, task, seed=0)


def test_state_round_trips() -> None:
    X, task = make_task()
    head = MLP(hidden_layers=2, epochs=2).fit(X, task, seed=0)
    assert torch.equal(MLPHead.from_state(head.state()).evaluate(X), head.evaluate(X))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hidden_layers": 5}, "hidden_layers must be an integer from 0 to 4; got 5"),
        ({"units": 0}, "units must be an integer >= 1; got 0"),
        ({"dropout": 1.0}, r"dropout must be in \[0, 1\); got 1.0"),
        ({"optimizer": "adm"}, "optimizer must be one of .* Did you mean 'adam'"),
        ({"learning_rate": "fast"}, r"learning_rate must be in \(0, inf\); got 'fast'"),
        ({"momentum": -0.1}, r"momentum must be in \[0, 1\); got -0.1"),
        ({"weight_decay": -1}, r"weight_decay must be in \[0, inf\); got -1"),
        ({"epochs": True}, "epochs must be an integer >= 0; got True"),
        ({"batch_size": 0}, "batch_size must be an integer >= 1, or None; got 0"),
        ({"patience": 0}, "patience must be an integer >= 1, or None; got 0"),
    ],
)
def test_settings_are_checked(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=f"MLP.{message}"):
        MLP(**settings).check()
