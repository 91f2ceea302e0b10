from __future__ import annotations

import math

import torch

from gbgnn._random import as_uniform, derive_key, draw_bits, hash_grid
from gbgnn.learners.initialization import Initialization
from gbgnn.learners.schedule import Schedule, Shape, TrainingSettings


def build(units: list[int], n_hidden: int) -> tuple[Shape, Schedule, torch.Tensor]:
    """Return the sizes of networks with so many units, how they are trained, and what they draw from."""
    schedule = Schedule.build([TrainingSettings(own, epochs=1) for own in units], n_rows=5)
    sizes = {"n_columns": 3, "fan_in": 9, "n_outputs": 2, "is_shared": True}
    shape = Shape.build(schedule, n_hidden=n_hidden, **sizes)  # type: ignore[arg-type]
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
