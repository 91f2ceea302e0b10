from __future__ import annotations

import math

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gbgnn._random import Purpose, as_uniform, derive_key, draw_bits, dropout_threshold, hash_grid
from gbgnn.learners.schedule import Initialization, Schedule, Shape, TrainingSettings

SEEDS = [3, 2**62 + 5, 3]


def make(n_rows: int = 10) -> Schedule:
    members = [
        TrainingSettings(5, epochs=3, batch_size=4, dropout=0.5, optimizer="sgd", momentum=0.3),
        TrainingSettings(7, epochs=2, learning_rate=0.5, weight_decay=0.1),
        TrainingSettings(9, epochs=1, batch_size=1, dropout=0.25),
    ]
    return Schedule.build(members, n_rows)


def chosen_by(members: list[tuple[int, int]], seeds: list[int], n_rows: int) -> torch.Tensor:
    """The rows of every step of members with so many epochs and rows per step."""
    schedule = Schedule.build([TrainingSettings(1, e, batch_size=b) for e, b in members], n_rows)
    n_steps, n_places = int(schedule.n_steps.max()), int(schedule.batch.max())
    return schedule.chosen_rows(schedule.derive_keys(seeds, n_steps, 1).orders, n_steps, n_places)[0]


def test_settings_become_columns() -> None:
    schedule = make()
    assert schedule.batch.tolist() == [4, 10, 1]
    assert schedule.batches.tolist() == [3, 1, 10]
    assert schedule.n_steps.tolist() == [9, 2, 10]
    assert schedule.units.tolist() == [5, 7, 9]
    assert schedule.threshold.tolist() == [
        dropout_threshold(0.5),
        dropout_threshold(0.0),
        dropout_threshold(0.25),
    ]
    assert schedule.coefficients.columns[-1][:, 0].tolist() == [0.01, 0.5, 0.01]
    assert schedule.coefficients.columns[0][:, 0].tolist() == [0, 0.1, 0]
    assert schedule.coefficients.columns[1][:, 0].tolist() == [0.3, 0.9, 0.9]
    assert schedule.is_batched


def test_some_members_have_their_columns_and_their_settings() -> None:
    schedule = make()
    some = schedule.members([2, 1])
    assert (some.units.tolist(), some.settings) == ([9, 7], [schedule.settings[2], schedule.settings[1]])
    assert some.coefficients.columns[-1][:, 0].tolist() == [0.01, 0.5]
    assert not schedule.members([1]).is_batched
    assert some.to(torch.device("meta")).units.device.type == "meta"


def test_epochs_count_a_members_own_batches() -> None:
    assert make().epochs_of_steps(9).tolist() == [[0, 0, 0, 1, 1, 1, 2, 2, 2], list(range(9)), [0] * 9]


def test_the_last_batch_of_an_epoch_is_what_is_left_and_after_the_last_step_there_is_nothing() -> None:
    assert make().sizes(10).tolist() == [[4, 4, 2] * 3 + [0], [10] * 2 + [0] * 8, [1] * 10]


def test_keys_of_weights_are_those_of_the_layer() -> None:
    keys = make().derive_keys(SEEDS, n_steps=9, n_hidden=2)
    assert keys.weights.shape == (3, 3, 2)
    for member, layer in ((0, 0), (1, 2), (2, 1)):
        expected = [
            derive_key(SEEDS[member], purpose, layer) for purpose in (Purpose.WEIGHTS, Purpose.BIASES)
        ]
        assert keys.weights[member, layer].tolist() == expected


def test_keys_of_dropout_are_those_of_the_epoch_and_the_layer() -> None:
    keys = make().derive_keys(SEEDS, n_steps=9, n_hidden=2).dropout
    assert keys.shape == (3, 9, 2)
    for member, step, epoch in ((0, 4, 1), (1, 1, 1), (2, 8, 0)):
        expected = [derive_key(SEEDS[member], Purpose.DROPOUT, layer, epoch) for layer in (0, 1)]
        assert keys[member, step].tolist() == expected


def test_keys_of_orders_are_those_of_the_epoch_where_orders_matter() -> None:
    schedule = make()
    keys = schedule.derive_keys(SEEDS, n_steps=9, n_hidden=1).orders
    assert keys.shape == (3, 3)
    assert keys[1].tolist() == [derive_key(SEEDS[1], Purpose.ORDER, epoch) for epoch in range(3)]
    whole = schedule.members([1]).derive_keys(SEEDS[1:2], n_steps=2, n_hidden=1)
    assert whole.orders.numel() == whole.dropout.numel() == 0
    assert whole.to(torch.device("meta")).weights.device.type == "meta"


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    n_rows=st.integers(1, 12),
    members=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 13), st.integers(0, 2**62)), min_size=1),
)
def test_chosen_rows_are_consecutive_parts_of_every_epochs_order(
    plainly, n_rows: int, members: list[tuple[int, int, int]]
) -> None:
    schedule = Schedule.build([TrainingSettings(1, e, batch_size=b) for e, b, _ in members], n_rows)
    n_steps, n_places = int(schedule.n_steps.max()), int(schedule.batch.max())
    keys = schedule.derive_keys([seed for *_, seed in members], n_steps, n_hidden=1).orders
    if not schedule.is_batched:
        return
    rows, scales = schedule.chosen_rows(keys, n_steps, n_places)
    for i, (epochs, batch, seed) in enumerate(members):
        orders = [plainly.draw_order(n_rows, seed, epoch) for epoch in range(epochs)]
        parts = [part.tolist() for order in orders for part in order.split(batch)]
        assert len(parts) == int(schedule.n_steps[i])
        for step in range(n_steps):
            part = parts[step] if step < len(parts) else []
            assert rows[i, step].tolist() == part + [n_rows] * (n_places - len(part))
            if part:
                assert float(scales[i, step]) == n_rows / len(part)


def test_every_epoch_takes_every_row_once_and_in_a_new_order() -> None:
    orders = chosen_by([(40, 5)], [3], n_rows=12)[0].view(40, -1)
    taken = [[row for row in order if row < 12] for order in orders.tolist()]
    assert all(sorted(order) == list(range(12)) for order in taken)
    assert len({tuple(order) for order in taken}) == 40


def test_orders_are_uniform() -> None:
    orders = chosen_by([(6000, 3)], [0], n_rows=4)[0].view(6000, 2 * 3)[:, :4]
    counts = torch.stack([(orders[:, place] == row).sum() for place in range(4) for row in range(4)])
    assert (counts - 1500).abs().max() < 5 * (6000 * 3 / 16) ** 0.5


@pytest.mark.parametrize("seed", [0, 2**62])
def test_rows_do_not_depend_on_the_company(seed: int) -> None:
    alone = chosen_by([(2, 3)], [seed], n_rows=7)[0]
    together = chosen_by([(5, 2), (2, 3)], [9, seed], n_rows=7)[1]
    assert torch.equal(together[: len(alone)], alone)
    assert (together[len(alone) :] == 7).all()


def build(units: list[int], n_hidden: int) -> tuple[Shape, Schedule, torch.Tensor]:
    """Return the sizes of networks with so many units, how they are trained, and what they draw from."""
    schedule = Schedule.build([TrainingSettings(own, epochs=1) for own in units], n_rows=5)
    sizes = {"n_columns": 3, "fan_in": 9, "n_outputs": 2, "is_shared": True}
    shape = Shape(schedule, n_hidden=n_hidden, **sizes)  # type: ignore[arg-type]
    return shape, schedule, schedule.derive_keys(range(len(units)), 1, n_hidden).weights


def draw(units: list[int], n_hidden: int) -> tuple[Shape, torch.Tensor]:
    shape, schedule, keys = build(units, n_hidden)
    start = Initialization.build(shape, torch.device("cpu"))
    return shape, start.draw(keys, start.find_spreads(schedule, torch.float64), schedule.units)


def draw_layer(
    seed: int, depth: int, n_out: int, n_in: int, fan_in: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the weights and biases of one layer, drawn number by number from its own two streams."""
    tables = (hash_grid(torch.arange(n), n_out).T for n in (n_in, 1))
    weight, bias = (
        (2 * as_uniform(draw_bits(table, derive_key(seed, kind, depth)), torch.float64) - 1)
        / math.sqrt(fan_in)
        for kind, table in enumerate(tables)
    )
    return weight, bias[:, 0]


def test_every_layer_is_drawn_from_its_own_streams_and_padding_is_zero() -> None:
    shape, drawn = draw([4], n_hidden=2)
    first, *later = drawn[0].split(shape.n_parameters)
    first = first.view(shape.widths[1], shape.widths[0])
    weight, bias = draw_layer(0, 0, 4, 3, fan_in=9)
    torch.testing.assert_close(first[:, :3], weight, rtol=1e-12, atol=0)
    torch.testing.assert_close(first[:, 3], bias, rtol=1e-12, atol=0)
    assert not first[:, 4:].any()
    for depth, (n_out, n_in) in enumerate(shape.later_sizes, start=1):
        weight, bias = draw_layer(0, depth, n_out, n_in, fan_in=4)
        torch.testing.assert_close(later[2 * depth - 2].view(n_out, n_in), weight, rtol=1e-12, atol=0)
        torch.testing.assert_close(later[2 * depth - 1], bias, rtol=1e-12, atol=0)


def test_units_that_a_member_does_not_have_are_zero() -> None:
    shape, drawn = draw([2, 4], n_hidden=2)
    first, *later = drawn[0].split(shape.n_parameters)
    hidden, last = later[0].view(4, 4), later[2].view(2, 4)
    absent = (first.view(4, -1)[2:], later[1][2:], hidden[2:], hidden[:, 2:], last[:, 2:])
    assert not any(bool(each.any()) for each in absent)
    assert all(bool(each.all()) for each in (hidden[:2, :2], last[:, :2], later[3]))


def test_a_linear_model_has_one_layer() -> None:
    shape, drawn = draw([4], n_hidden=0)
    weight, bias = draw_layer(0, 0, 2, 3, fan_in=9)
    table = drawn[0].view(2, shape.widths[0])
    torch.testing.assert_close(table[:, :3], weight, rtol=1e-12, atol=0)
    torch.testing.assert_close(table[:, 3], bias, rtol=1e-12, atol=0)
