from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gbgnn._optimizers import OPTIMIZERS, Stepper
from gbgnn.population.optimizer import Coefficients, Moments

MEMBER = st.tuples(
    st.sampled_from(OPTIMIZERS),
    st.sampled_from([0.3, 0.01]),  # rate
    st.sampled_from([0.0, 0.1]),  # decay
    st.sampled_from([0.0, 0.5]),  # momentum
    st.integers(0, 6),  # steps
)


def coefficients_of(members: list[tuple[str, float, float, float, int]]) -> Coefficients:
    names, *numbers = zip(*members, strict=True)
    rate, decay, momentum, _ = (torch.tensor(column, dtype=torch.float64) for column in numbers)
    return Coefficients.of(names, rate, decay=decay, momentum=momentum)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@settings(max_examples=60)
@given(members=st.lists(MEMBER, min_size=1, max_size=5))
def test_every_member_moves_as_by_its_own_optimizer(
    dtype: torch.dtype, members: list[tuple[str, float, float, float, int]]
) -> None:
    m, random = len(members), torch.Generator().manual_seed(0)
    start = torch.randn(m, 7, generator=random, dtype=dtype)
    gradients = torch.randn(6, m, 7, generator=random, dtype=dtype)
    gradients[:, :, 0] = 0  # a parameter that gets no gradient
    together, moments, c = start.clone(), Moments.like(start), coefficients_of(members)
    n_steps = torch.tensor([steps for *_, steps in members])
    rates, roots = (table.to(dtype) for table in c.schedule(n_steps, 6))
    for k in range(6):
        now = slice(k, k + 1)
        moments.step(together, gradients[k].clone(), c.to(dtype), rates[:, now], roots[:, now])
    for i, (name, rate, decay, momentum, steps) in enumerate(members):
        alone = start[i].clone()
        stepper = Stepper(name, [alone], rate, weight_decay=decay, momentum=momentum)
        for k in range(steps):
            stepper.step([gradients[k, i].clone()])
        tolerance = 1e-12 if dtype == torch.float64 else 1e-5
        torch.testing.assert_close(together[i], alone, rtol=tolerance, atol=tolerance)


def test_first_members_can_move_alone() -> None:
    members = [("adam", 0.1, 0.0, 0.0, 3), ("sgd", 0.1, 0.0, 0.0, 3), ("rmsprop", 0.1, 0.0, 0.0, 3)]
    c = coefficients_of(members)
    start, moments = torch.ones(3, 2, dtype=torch.float64), Moments.like(torch.ones(3, 2).double())
    rates, roots = (table[:2, :1] for table in c.schedule(torch.full((3,), 3), 1))
    moved = start.clone()
    moments.step(moved[:2], torch.ones(2, 2).double(), c.of_members(slice(2)), rates, roots)
    assert (moved[:2] < 1).all()
    assert torch.equal(moved[2], start[2])
    assert not moments.second[2].any()


def test_reset_begins_anew() -> None:
    moments = Moments(torch.ones(1, 2), torch.ones(1, 2))
    moments.reset()
    assert not moments.first.any()
    assert not moments.second.any()


def test_rows_are_loaded_into_room_for_more() -> None:
    members = [("adam", 0.3, 0.1, 0.5, 3), ("sgd", 0.01, 0.2, 0.5, 3)]
    given_, room = coefficients_of(members), Coefficients.empty(3, frozenset(OPTIMIZERS), torch.empty(0))
    room.load(given_)
    assert room.kinds == set(OPTIMIZERS)
    assert room.rate.dtype == torch.float32
    assert room.rate[:, 0].tolist() == pytest.approx([0.3, 0.01, 0])
    assert room.is_adam[:, 0].tolist() == [True, False, False]
    packed = room.packed()
    assert packed.shape == (3, 6)
    assert packed[0].tolist() == pytest.approx([0.1, 0.9, 0.1, 0.001, 1e-8, 1])
    assert packed[1].tolist() == pytest.approx([0.2, 0.5, 1, 0.01, 1, 0])


def test_rates_end_with_a_members_steps() -> None:
    rates, _ = coefficients_of([("sgd", 0.5, 0, 0, 2), ("sgd", 0.5, 0, 0, 0)]).schedule(
        torch.tensor([2, 0]), 3
    )
    assert rates.tolist() == [[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]
