from __future__ import annotations

import pytest
import torch

from gbgnn.learners.cuda_graphs import GraphRunner, StepRunner


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
