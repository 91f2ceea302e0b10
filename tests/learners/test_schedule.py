from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gbgnn._random import Purpose, cut_off, key_of
from gbgnn.learners import MLP
from gbgnn.learners.epochs import Orders
from gbgnn.population.schedule import Plan

SEEDS = [3, 2**62 + 5, 3]


def make(n_rows: int = 10) -> Plan:
    learners = [
        MLP(epochs=3, batch_size=4, units=5, dropout=0.5),
        MLP(epochs=2, units=7, dropout=0.0),
        MLP(epochs=1, batch_size=1, units=9, dropout=0.25),
    ]
    return Plan.of(learners, n_rows)


def test_settings_become_columns() -> None:
    plan = make()
    assert plan.batch.tolist() == [4, 10, 1]
    assert plan.batches.tolist() == [3, 1, 10]
    assert plan.n_steps.tolist() == [9, 2, 10]
    assert plan.cut_off.tolist() == [cut_off(0.5), cut_off(0.0), cut_off(0.25)]
    assert plan.is_batched
    some = plan.of_members(torch.tensor([1]))
    assert (some.units.tolist(), some.is_batched) == ([7], False)


def test_epochs_count_a_members_own_batches() -> None:
    assert make().epoch_of(9).tolist() == [
        [0, 0, 0, 1, 1, 1, 2, 2, 2],
        list(range(9)),
        [0] * 9,
    ]


def test_dropout_keys_are_those_of_the_epoch_and_the_layer() -> None:
    keys = make().dropout_keys(torch.tensor(SEEDS), n_steps=9, n_layers=2)
    assert keys.shape == (3, 9, 2)
    for member, step, epoch in ((0, 4, 1), (1, 4, 4), (2, 8, 0)):
        expected = [key_of(SEEDS[member], Purpose.DROPOUT, layer, epoch) for layer in (0, 1)]
        assert keys[member, step].tolist() == expected


@settings(max_examples=40)
@given(
    n_rows=st.integers(1, 12),
    members=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 13), st.integers(0, 2**62)), min_size=1),
)
def test_chosen_rows_are_those_of_the_learners_own_batches(
    n_rows: int, members: list[tuple[int, int, int]]
) -> None:
    plan = Plan.of([MLP(epochs=epochs, batch_size=batch) for epochs, batch, _ in members], n_rows)
    n_steps, n_places = int(plan.n_steps.max()), int(plan.batch.max())
    n_epochs = max(1, *(epochs for epochs, *_ in members))
    seeds = torch.tensor([seed for *_, seed in members])
    rows, scales = plan.chosen_rows(seeds, n_steps, n_places, n_epochs)
    for i, (epochs, batch, seed) in enumerate(members):
        orders = Orders(n_rows, seed)
        parts = [part for e in range(epochs) for part in orders.order(e).split(batch)]
        assert len(parts) == int(plan.n_steps[i])
        for step in range(n_steps):
            part = parts[step].tolist() if step < len(parts) else []
            if len(part) == n_rows:  # the learner takes all rows in order
                assert sorted(rows[i, step, :n_rows].tolist()) == sorted(part)
            else:
                assert rows[i, step, : len(part)].tolist() == part
            assert (rows[i, step, len(part) :] == n_rows).all()
            if part:
                assert float(scales[i, step]) == n_rows / len(part)
