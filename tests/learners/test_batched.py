from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from gbgnn._random import Seeds
from gbgnn.learners import MLP
from gbgnn.learners.batched import AllAtOnce, BatchedMLP, OneByOne, load_kernels
from gbgnn.learners.schedule import Schedule, Shape, TrainingSettings
from gbgnn.losses import Loss, SigmoidCrossEntropy, SoftmaxCrossEntropy, SquaredError

N_ROWS, N_COLUMNS, N_OUTPUTS = 13, 5, 3
SEEDS = [Seeds(i).head(1) for i in range(3)]
LIKE = torch.empty(0, dtype=torch.float64)
PLAIN = MLP(units=6, epochs=5, dropout=0.0, optimizer="sgd", learning_rate=1.0, weight_decay=0.0)
"""A step is the gradient itself."""

LOSSES: dict[str, Loss] = {
    "classes": SoftmaxCrossEntropy(),
    "numbers": SquaredError(),
    "labels": SigmoidCrossEntropy(),
    "yes or no": SigmoidCrossEntropy(),
}


class Data:
    """What members are trained on: rows of their own or the same for all, targets of some kind."""

    def __init__(self, n_members: int, kind: str = "classes", is_shared: bool = False) -> None:
        random = torch.Generator().manual_seed(1)
        self.rows = torch.randn(n_members, N_ROWS, N_COLUMNS, generator=random, dtype=torch.float64)
        if is_shared:
            self.rows[:] = self.rows[0]
        self.given = self.rows[0] if is_shared else self.rows
        numbers = torch.randn(n_members, N_ROWS, N_OUTPUTS, generator=random, dtype=torch.float64)
        targets = {
            "classes": torch.arange(N_ROWS) % N_OUTPUTS,
            "numbers": numbers,
            "labels": (numbers > 0).double(),
            "yes or no": torch.arange(N_ROWS) % 2,  # by one score
        }
        self.targets, self.n_outputs = targets[kind], 1 if kind == "yes or no" else N_OUTPUTS
        self.loss, self.is_shared = LOSSES[kind], is_shared
        weights = torch.rand(n_members, N_ROWS, generator=random, dtype=torch.float64)
        self.weights = weights / weights.sum(dim=1, keepdim=True)

    def targets_of(self, i: int) -> torch.Tensor:
        return self.targets if self.targets.ndim == 1 else self.targets[i]


def schedule_of(learners: list[MLP]) -> Schedule:
    return Schedule.build([learner.settings(N_ROWS) for learner in learners], N_ROWS)


def build(
    learners: list[MLP],
    data: Data,
    n_more: int = 0,
    like: torch.Tensor = LIKE,
    seeds: list[int] = SEEDS,
) -> BatchedMLP:
    """The networks of learners, those with more steps first, with room for more members."""
    schedule = schedule_of(learners)
    shape = Shape(
        schedule,
        n_columns=N_COLUMNS,
        fan_in=N_COLUMNS,
        n_hidden=learners[0].hidden_layers,
        n_outputs=data.n_outputs,
        is_shared=data.is_shared,
        is_normed=learners[0].norm is not None,
    )
    shape.n_members += n_more
    network = BatchedMLP(shape, data.loss, like)
    load(network, learners, data, seeds)
    return network


def load(network: BatchedMLP, learners: list[MLP], data: Data, seeds: list[int]) -> None:
    m, targets, rows = len(learners), data.targets, data.given
    targets = targets if targets.ndim == 1 else targets[:m]
    rows = rows if data.is_shared else rows[:m]
    schedule = schedule_of(learners)
    keys = schedule.derive_keys(seeds[:m], network.shape.n_steps, network.shape.n_hidden)
    network.load(schedule, keys, rows, targets, data.weights[:m])


def train(network: BatchedMLP, learners: list[MLP], is_exact: bool = True) -> None:
    """Take all steps; if not exact, on room for as many rows as the largest takes."""
    schedule = schedule_of(learners)
    for step, needed in enumerate(schedule.sizes(int(schedule.n_steps[0])).amax(dim=0).tolist()):
        network.step(int((schedule.n_steps > step).sum()), needed if is_exact else network.shape.n_places)


def copy(network: BatchedMLP, m: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(weight.clone(), bias.clone()) for weight, bias in network.layers(m)]


def restore(network: BatchedMLP, layers: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
    for now, old in zip(network.layers(len(layers[0][0])), layers, strict=True):
        for mine, other in zip(now, old, strict=True):
            mine.copy_(other)


@pytest.mark.parametrize("hidden_layers", [0, 1, 3])
@pytest.mark.parametrize("batches", [(None, None, None), (4, 6, 20)])
@pytest.mark.parametrize("is_shared", [True, False])
@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_members_are_trained_as_by_plain_torch_one_by_one(
    plainly,
    hidden_layers: int,
    batches: tuple[int | None, ...],
    is_shared: bool,
    kind: str,
    dropout: float,
) -> None:
    learners = [
        MLP(
            hidden_layers=hidden_layers,
            units=8 - 2 * i,
            epochs=4 - i,
            batch_size=batches[i],
            dropout=dropout * (i != 1),
            optimizer=("adam", "rmsprop", "sgd")[i],
            momentum=0.3,
            weight_decay=0.01,
        )
        for i in range(3)
    ]
    data = Data(3, kind, is_shared)
    network, outputs = build(learners, data, n_more=1), []
    for is_exact in (True, False):  # beginning anew forgets everything
        load(network, learners, data, SEEDS)
        train(network, learners, is_exact)
        outputs.append(network.outputs(data.given, 3))
    torch.testing.assert_close(outputs[0], outputs[1], rtol=1e-12, atol=1e-14)
    for i, learner in enumerate(learners):
        rows, targets = data.rows[i], data.targets_of(i)
        alone = plainly.train(learner, rows, targets, data.weights[i], data.loss, data.n_outputs, SEEDS[i])
        torch.testing.assert_close(outputs[0][i], plainly.apply(alone, rows), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("hidden_layers", [0, 1, 3])
@pytest.mark.parametrize("batches", [(None, None, None), (4, 6, 20)])
@pytest.mark.parametrize("is_shared", [True, False])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_standardised_layers_are_trained_as_by_plain_torch(
    plainly, hidden_layers: int, batches: tuple[int | None, ...], is_shared: bool, dropout: float
) -> None:
    learners = [
        MLP(
            hidden_layers=hidden_layers,
            units=6,
            epochs=4 - i,
            batch_size=batches[i],
            dropout=dropout * (i != 1),
            optimizer=("adam", "rmsprop", "sgd")[i],
            norm="layer",
        )
        for i in range(3)
    ]
    data = Data(3, "classes", is_shared)
    network = build(learners, data, n_more=1)
    train(network, learners)
    outputs = network.outputs(data.given, 3)
    for i, learner in enumerate(learners):
        rows, targets = data.rows[i], data.targets_of(i)
        alone = plainly.train(learner, rows, targets, data.weights[i], data.loss, data.n_outputs, SEEDS[i])
        expected = plainly.apply(alone, rows, norm="layer")
        torch.testing.assert_close(outputs[i], expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("batch_size", [None, 4])
def test_networks_of_fewer_members_are_those_of_all(batch_size: int | None) -> None:
    methods = ("rmsprop", "adam", "sgd")
    learners = [MLP(units=4 + i, epochs=3, batch_size=batch_size, optimizer=methods[i]) for i in range(3)]
    data, outputs = Data(3, is_shared=True), []
    network = build(learners, data)
    data.weights[:] = data.weights[0]
    for first, last in ((0, 3), (1, 3), (0, 1), (0, 3)):
        load(network, learners[first:last], data, SEEDS[first:last])
        train(network, learners[first:last])
        outputs.append(network.outputs(data.given, last - first))
    for few, expected in zip(outputs, (outputs[0], outputs[0][1:], outputs[0][:1], outputs[0]), strict=True):
        torch.testing.assert_close(few, expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("hidden_layers", [0, 1, 2])
@pytest.mark.parametrize("is_shared", [True, False])
def test_gradient_equals_autograd(
    plainly, hidden_layers: int, dropout: float, kind: str, is_shared: bool
) -> None:
    data, learner = Data(2, kind, is_shared), replace(PLAIN, hidden_layers=hidden_layers, dropout=dropout)
    network = build([learner] * 2, data)
    before = copy(network, 2)
    network.step(2, N_ROWS)  # by the gradient itself
    for i in range(2):
        layers = [(w[i].clone().requires_grad_(), b[i].clone().requires_grad_()) for w, b in before]
        shape = (N_ROWS, learner.units)
        masks = [plainly.draw_mask(dropout, shape, SEEDS[i], k, epoch=0) for k in range(hidden_layers)]
        output = plainly.apply(layers, data.rows[i], masks)
        (data.loss.values(output, data.targets_of(i)) * data.weights[i]).sum().backward()
        for old, new in zip(layers, network.layers(2), strict=True):
            for parameter, moved in zip(old, new, strict=True):
                torch.testing.assert_close(parameter.detach() - moved[i], parameter.grad)


def test_gradients_of_an_epochs_batches_average_to_that_of_all_rows() -> None:
    data, moves = Data(1), []
    for batch_size in (4, None):
        learner = replace(PLAIN, batch_size=batch_size, dropout=0.4)
        network = build([learner], data)
        before, moved = copy(network, 1), 0.0
        for size in (4, 4, 4, 1) if batch_size else (N_ROWS,):
            network.step(1, size)
            moved = moved + size / N_ROWS * (network.layers(1)[0][0] - before[0][0])
            restore(network, before)
        moves.append(moved)
    torch.testing.assert_close(*moves)


@pytest.mark.parametrize("hidden_layers", [0, 2])
def test_networks_start_from_weights_that_depend_on_the_seed_and_the_place_alone(
    plainly, hidden_layers: int
) -> None:
    learners = [MLP(hidden_layers=hidden_layers, units=u, epochs=1) for u in (3, 7)]
    network = build(learners, Data(2))
    for i, learner in enumerate(learners):
        widths = [N_COLUMNS, *[learner.units] * hidden_layers, N_OUTPUTS]
        alone = plainly.draw_layers(widths, SEEDS[i], torch.float64)
        for (weights, biases), (weight, bias) in zip(network.layers(2), alone, strict=True):
            n_out, n_in = weight.shape
            assert torch.equal(weights[i, :n_out, :n_in], weight)
            assert torch.equal(biases[i, :n_out], bias)
            assert int(weights[i].count_nonzero()) == weight.numel()
            assert int(biases[i].count_nonzero()) == bias.numel()
        assert not network.weight[i, :, N_COLUMNS + 1 :].any()


def test_a_narrow_network_starts_as_a_part_of_a_wider_one() -> None:
    narrow, wide = (build([MLP(units=u, epochs=1)], Data(1)).layers(1) for u in (4, 9))
    (first, first_bias), (last, last_bias) = wide
    assert torch.equal(narrow[0][0], first[:, :4])
    assert torch.equal(narrow[0][1], first_bias[:, :4])
    # Deeper layers have fewer inputs, so that torch draws from a wider interval.
    torch.testing.assert_close(narrow[1][0], last[..., :4] * (9 / 4) ** 0.5)
    torch.testing.assert_close(narrow[1][1], last_bias * (9 / 4) ** 0.5)


def test_a_narrow_network_is_trained_inside_a_wider_one_as_alone() -> None:
    learners, data = [MLP(units=u, epochs=6, hidden_layers=2) for u in (3, 9)], Data(2, is_shared=True)
    together, alone = build(learners, data), build(learners[:1], data)
    train(together, learners)
    train(alone, learners[:1])
    expected = alone.outputs(data.given, 1)[0]
    torch.testing.assert_close(together.outputs(data.given, 2)[0], expected, rtol=1e-12, atol=1e-14)


def test_precisions_start_from_the_same_weights_and_drop_the_same_units() -> None:
    learner = replace(PLAIN, units=40, dropout=0.5)
    double, single = (build([learner], Data(1), like=like) for like in (LIKE, LIKE.float()))
    torch.testing.assert_close(double.weight.float(), single.weight, rtol=1e-6, atol=0)
    for network in (double, single):
        network.step(1, N_ROWS)
    assert single.weight.dtype == torch.float32
    torch.testing.assert_close(double.weight.float(), single.weight, rtol=1e-4, atol=1e-6)


def test_units_that_a_member_does_not_have_stay_zero() -> None:
    learners = [MLP(units=u, epochs=5, hidden_layers=2, weight_decay=0.1) for u in (3, 7)]
    network = build(learners, Data(2, is_shared=True))
    train(network, learners)
    assert not network.weight[0, 3:].any()
    assert not network.weight[..., N_COLUMNS + 1 :].any()
    _, (hidden, hidden_bias), (last, _) = network.layers(2)
    assert not hidden[0, 3:].any()
    assert not hidden[0, :, 3:].any()
    assert not hidden_bias[0, 3:].any()
    assert not last[0, :, 3:].any()


def find_masks(share: float, units: int, seed: int = 0) -> torch.Tensor:
    """What hidden units were multiplied by, shape (epochs, rows, units), read from steps of descent.

    All rows and weights are one, so that before dropout every unit is the number of columns. A member for
    each row looks at that alone; its last weights move by the unit times what its last bias moves by.
    """
    data, learners = Data(N_ROWS, "numbers", is_shared=True), [replace(PLAIN, units=units, dropout=share)]
    data.given[:], data.weights, found = 1, torch.eye(N_ROWS), []
    network = build(learners * N_ROWS, data, seeds=[seed] * N_ROWS)
    start = [(torch.ones_like(weight), torch.zeros_like(bias)) for weight, bias in network.layers(N_ROWS)]
    for _ in range(learners[0].epochs):
        restore(network, start)
        network.step(N_ROWS, N_ROWS)
        _, (last, bias) = network.layers(N_ROWS)
        found.append((last - 1)[:, 0] / (N_COLUMNS * bias[:, :1]))
    return torch.stack(found)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_dropout_keeps_the_expectation(share: float) -> None:
    masks = find_masks(share, units=400)
    dropped, kept = masks.round(decimals=9).unique().tolist()
    assert (dropped, kept) == (0.0, pytest.approx(1 / (1 - share)))
    assert float(masks.mean()) == pytest.approx(1, abs=5 * (share / (1 - share) / masks.numel()) ** 0.5)


def test_dropout_differs_between_epochs_rows_and_seeds() -> None:
    masks = torch.cat([find_masks(0.5, units=500, seed=seed) for seed in (1, 2)]).flatten(0, 1)
    correlations = torch.corrcoef(masks) - torch.eye(len(masks))
    assert correlations.abs().max() < 6 / 500**0.5


def test_dropout_of_fewer_units_is_a_part_of_that_of_more() -> None:
    few, many = (find_masks(0.3, units=u) for u in (6, 11))
    torch.testing.assert_close(few, many[..., :6])


def test_rows_of_all_or_of_each_give_the_same_outputs() -> None:
    data = Data(2, is_shared=True)
    network = build([MLP(units=u, epochs=1, hidden_layers=2) for u in (3, 4)], data)
    torch.testing.assert_close(network.outputs(data.given, 2), network.outputs(data.rows, 2))


def test_rows_have_room_for_a_constant_and_are_aligned() -> None:
    schedule = Schedule.build([MLP().settings(4)], 4)
    for n_columns, width in ((5, 16), (15, 16), (16, 32)):
        shape = Shape(
            schedule, n_columns=n_columns, fan_in=n_columns, n_hidden=1, n_outputs=2, is_shared=True
        )
        assert shape.widths == (width, 64, 2)


EVERY = frozenset(("adam", "rmsprop", "sgd"))
SCHEDULE = Schedule.build(
    [
        TrainingSettings(1, epochs=4, optimizer="adam", learning_rate=0.1, weight_decay=0.1),
        TrainingSettings(
            1, epochs=3, optimizer="rmsprop", learning_rate=0.02, momentum=0.5, weight_decay=0.01
        ),
        TrainingSettings(1, epochs=1, optimizer="sgd", learning_rate=0.3, momentum=0.1, weight_decay=0.01),
    ],
    n_rows=5,
)


def move(kind: str) -> list[torch.Tensor]:
    """Parameters after two trainings, of which only the second counts."""
    pairs = [(torch.zeros(4, n, dtype=torch.float64), torch.zeros(4, n, dtype=torch.float64)) for n in (6, 3)]
    optimizer: OneByOne | AllAtOnce = OneByOne(pairs)
    if kind == "all at once":
        optimizer = AllAtOnce(pairs, EVERY, n_steps=5)
    for training in range(2):
        random = torch.Generator().manual_seed(training)
        for values, _ in pairs:
            values.copy_(torch.randn(values.shape, generator=random))
        optimizer.load(SCHEDULE)
        for step in range(4):
            for _, gradients in pairs:
                gradients.copy_(torch.randn(gradients.shape, generator=random))
            optimizer.step(int((step < SCHEDULE.n_steps).sum()), torch.tensor([step]))
    return [values for values, _ in pairs]


def test_all_at_once_equals_one_by_one() -> None:
    for mine, other in zip(move("one by one"), move("all at once"), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-12, atol=1e-12)


def test_members_that_are_done_may_come_along_and_stay() -> None:
    pair = torch.ones(3, 2, dtype=torch.float64), torch.ones(3, 2, dtype=torch.float64)
    optimizer = AllAtOnce([pair], EVERY, n_steps=4)
    optimizer.load(SCHEDULE)
    seen = []
    for step in range(4):
        pair[1].fill_(0.5)
        optimizer.step(3, torch.tensor([step]))
        seen.append(pair[0].clone())
    assert torch.equal(seen[0][2], seen[3][2])
    assert torch.equal(seen[2][1], seen[3][1])
    assert not torch.equal(seen[2][0], seen[3][0])


def test_torchs_own_passes_move_on_a_cpu() -> None:
    shape = Shape(SCHEDULE, n_columns=3, fan_in=3, n_hidden=0, n_outputs=2, is_shared=True)
    for device, optimizer in (("cpu", OneByOne), ("meta", AllAtOnce)):
        network = BatchedMLP(shape, SquaredError(), torch.empty(0, device=device))
        assert isinstance(network._optimizer, optimizer)


@pytest.mark.parametrize("is_there", [True, False])
def test_kernels_need_a_gpu_and_triton(monkeypatch: pytest.MonkeyPatch, is_there: bool) -> None:
    found = object() if is_there else None
    monkeypatch.setattr("gbgnn.learners.batched.find_spec", lambda name: found)
    assert (load_kernels(torch.device("cuda")) is not None) == is_there
    assert load_kernels(torch.device("cpu")) is None
