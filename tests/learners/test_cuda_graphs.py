from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gbgnn.learners.cuda_graphs import GraphRunner, StepRunner, graph_sizes, phases


def test_calling_takes_every_members_steps() -> None:
    seen: list[tuple[int, int]] = []
    StepRunner(lambda *step: seen.append(step)).run([4, 4, 2, 0], [7, 5, 7, 5])
    assert seen == [(3, 7), (3, 5), (2, 7), (2, 5)]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device")
def test_replaying_does_what_calling_does() -> None:
    values = torch.zeros(6, device="cuda")

    def step(n_members: int, n_rows: int) -> None:
        values[:n_members].add_(n_rows)

    runner = GraphRunner(step, capacity=6, n_rows=1)
    for _ in range(3):
        values.zero_()
        runner.run([40, 40, 20, 20, 9, 1], [1] * 40)
        # Those who are done may come along, where there is no graph without them.
        assert values[:2].tolist() == [40, 40]
        assert (values[2:].cpu() >= torch.tensor([20, 20, 9, 1])).all()


@given(st.lists(st.integers(0, 30), min_size=1, max_size=12))
def test_phases_give_everyone_their_steps(n_steps: list[int]) -> None:
    n_steps = sorted(n_steps, reverse=True)
    taken = [0] * len(n_steps)
    for size, count in phases(n_steps):
        for i in range(size):
            taken[i] += count
    assert taken == n_steps


@given(st.lists(st.integers(0, 30), min_size=1, max_size=40))
def test_phases_of_given_sizes_leave_nobody_behind(n_steps: list[int]) -> None:
    n_steps = sorted(n_steps, reverse=True)
    sizes, done = graph_sizes(len(n_steps)), 0
    assert sizes[-1] == len(n_steps)
    for size, count in phases(n_steps, sizes):
        assert size in sizes
        needed = sum(steps > done for steps in n_steps)
        assert needed <= size <= max(1, 1.5 * needed + 1)
        done += count
    assert done == n_steps[0]
