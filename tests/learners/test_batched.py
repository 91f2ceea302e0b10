from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from gbgnn._random import Seeds
from gbgnn.learners import MLP
from gbgnn.learners.network import Network
from gbgnn.population.network import Lockstep, Shape
from gbgnn.population.optimizer import Coefficients
from gbgnn.population.schedule import Plan
from gbgnn.rounds import RoundContext
from gbgnn.testing import learner_round

N_ROWS, N_FEATURES, N_CLASSES = 13, 5, 3
SEEDS = [Seeds(i).head(1) for i in range(3)]
LIKE = torch.empty(0, dtype=torch.float64)


def make_data(n_members: int, is_regression: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Rows, padded, of every member; targets; importance."""
    random = torch.Generator().manual_seed(1)
    rows = torch.zeros(n_members, N_ROWS, 16, dtype=torch.float64)
    rows[..., :N_FEATURES] = torch.randn(n_members, N_ROWS, N_FEATURES, generator=random, dtype=torch.float64)
    rows[..., N_FEATURES] = 1
    numbers = torch.randn(n_members, N_ROWS, N_CLASSES, generator=random, dtype=torch.float64)
    classes = torch.arange(N_ROWS) % N_CLASSES
    targets = numbers if is_regression else functional.one_hot(classes, N_CLASSES).double()[None]
    importance = torch.rand(n_members, N_ROWS, generator=random, dtype=torch.float64)
    return rows, targets, importance / importance.sum(dim=1, keepdim=True)


def shape_of(learners: list[MLP], is_shared: bool, is_regression: bool, n_members: int) -> Shape:
    plan = Plan.of(learners, N_ROWS)
    n_hidden = learners[0].hidden_layers
    return Shape(
        n_members=n_members,
        n_rows=N_ROWS,
        n_places=int(plan.batch.max()),
        n_columns=N_FEATURES,
        fan_in=N_FEATURES,
        widths=(16, *[int(plan.units.max())] * n_hidden, N_CLASSES),
        n_steps=int(plan.n_steps.max()),
        is_batched=plan.is_batched,
        is_shared=is_shared,
        has_dropout=n_hidden > 0 and bool((plan.dropout > 0).any()),
        is_regression=is_regression,
    )


def coefficients_of(learners: list[MLP]) -> Coefficients:
    names = ("learning_rate", "weight_decay", "momentum")
    rate, decay, momentum = (torch.tensor([getattr(each, name) for each in learners]) for name in names)
    return Coefficients.of([each.optimizer for each in learners], rate, decay=decay, momentum=momentum)


def round_of(rows: torch.Tensor, targets: torch.Tensor, importance: torch.Tensor, i: int) -> RoundContext:
    """What member i fits, alone: numbers of its own, or the classes that all share."""
    mine = targets[i] if len(targets) > 1 else targets[0].argmax(dim=1)
    X = rows[i, :, :N_FEATURES]
    return learner_round(X, mine, weights=importance[i], n_outputs=N_CLASSES, seed=SEEDS[i])


@pytest.mark.parametrize("hidden_layers", [0, 1, 3])
@pytest.mark.parametrize("batches", [(None, None, None), (4, 6, 5)])
@pytest.mark.parametrize("is_shared", [True, False])
@pytest.mark.parametrize("is_regression", [True, False])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("is_exact", [True, False])
def test_members_are_trained_as_by_their_own_learners(
    hidden_layers: int,
    batches: tuple[int | None, ...],
    is_shared: bool,
    is_regression: bool,
    dropout: float,
    is_exact: bool,
) -> None:
    learners = [
        MLP(
            weight_decay=0.01,
            hidden_layers=hidden_layers,
            units=8 - 2 * i,
            epochs=4 - i,
            batch_size=batches[i],
            dropout=dropout * (i != 1),
            optimizer=("adam", "rmsprop", "sgd")[i],
            standardize=False,
        )
        for i in range(3)
    ]
    rows, targets, importance = make_data(3, is_regression)
    if is_shared:
        rows[:] = rows[0]
    network = Lockstep(shape_of(learners, is_shared, is_regression, n_members=4), frozenset(), LIKE)
    given = rows[0] if is_shared else rows
    plan, coefficients = Plan.of(learners, N_ROWS), coefficients_of(learners)
    for _ in range(2):  # beginning anew forgets everything
        network.load(learners, plan, coefficients, torch.tensor(SEEDS), given, targets, importance)
        n_rows = plan.sizes(int(plan.n_steps.max())).amax(dim=0).tolist()
        for step, needed in enumerate(n_rows):
            network.step(int((plan.n_steps > step).sum()), needed if is_exact else int(plan.batch.max()))
        output = network.outputs(given, 3)
        for i, learner in enumerate(learners):
            alone = learner.fit(round_of(rows, targets, importance, i))(rows[i, :, :N_FEATURES])
            torch.testing.assert_close(output[i], alone, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("hidden_layers", [0, 2])
def test_networks_start_from_the_weights_of_their_own_learners(hidden_layers: int) -> None:
    learners = [MLP(hidden_layers=hidden_layers, units=u, epochs=1, weight_decay=0.01) for u in (3, 7)]
    rows, targets, importance = make_data(2, is_regression=False)
    network = Lockstep(shape_of(learners, False, False, n_members=2), frozenset(), LIKE)
    seeds = torch.tensor(SEEDS[:2])
    network.load(
        learners, Plan.of(learners, N_ROWS), coefficients_of(learners), seeds, rows, targets, importance
    )
    for i, learner in enumerate(learners):
        widths = [N_FEATURES, *[learner.units] * hidden_layers, N_CLASSES]
        alone = Network.initialized(widths, SEEDS[i], like=LIKE)
        first, bias = alone.layers[0]
        n_units = len(bias)
        assert torch.equal(network.weight[i, :n_units, :N_FEATURES], first.T)
        assert torch.equal(network.weight[i, :n_units, N_FEATURES], bias)
        assert not network.weight[i, n_units:].any()
        assert not network.weight[i, :, N_FEATURES + 1 :].any()
        for (weights, biases), (weight, bias) in zip(network.layers, alone.layers[1:], strict=True):
            n_in, n_out = weight.shape
            assert torch.equal(weights[i, :n_out, :n_in], weight.T)
            assert torch.equal(biases[i, :n_out], bias)
            assert int(weights[i].count_nonzero()) == weight.numel()
            assert int(biases[i].count_nonzero()) == bias.numel()


def test_absent_units_stay_zero() -> None:
    learners = [MLP(units=u, epochs=5, hidden_layers=2, weight_decay=0.1) for u in (3, 7)]
    rows, targets, importance = make_data(2, is_regression=False)
    network = Lockstep(shape_of(learners, True, False, n_members=2), frozenset(), LIKE)
    plan, seeds = Plan.of(learners, N_ROWS), torch.tensor(SEEDS[:2])
    network.load(learners, plan, coefficients_of(learners), seeds, rows[0], targets, importance)
    for _ in range(5):
        network.step(2, N_ROWS)
    assert not network.weight[0, 3:].any()
    assert not network.weight[..., N_FEATURES + 1 :].any()
    assert not network.layers[0][0][0, 3:].any()
    assert not network.layers[0][0][0, :, 3:].any()
    assert not network.layers[1][0][0, :, 3:].any()


def test_rows_are_evaluated_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    learners = [MLP(units=4, epochs=1, weight_decay=0.01)]
    rows, targets, importance = make_data(1, is_regression=False)
    network = Lockstep(shape_of(learners, False, False, n_members=1), frozenset(), LIKE)
    seeds = torch.tensor(SEEDS[:1])
    network.load(
        learners, Plan.of(learners, N_ROWS), coefficients_of(learners), seeds, rows, targets, importance
    )
    expected = network.outputs(rows, 1)
    monkeypatch.setattr("gbgnn.population.network._UNITS_AT_ONCE", 20)
    torch.testing.assert_close(network.outputs(rows, 1), expected)
    torch.testing.assert_close(network.outputs(rows[0], 1), expected)
