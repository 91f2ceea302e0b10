from __future__ import annotations

import pytest
import torch

from gbgnn.learners.batched_optimizers import (
    AllAtOnce,
    BatchedOptimizer,
    OneByOne,
    choose_optimizer,
    load_kernels,
)
from gbgnn.learners.schedule import Schedule, TrainingSettings

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
    optimizer: BatchedOptimizer = OneByOne(pairs)
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
    pair = torch.ones(3, 2), torch.ones(3, 2)
    assert isinstance(choose_optimizer([pair], frozenset(("adam",)), 3), OneByOne)
    elsewhere = tuple(each.to("meta") for each in pair)
    assert isinstance(choose_optimizer([elsewhere], frozenset(("adam",)), 3), AllAtOnce)


@pytest.mark.parametrize("is_there", [True, False])
def test_kernels_need_a_gpu_and_triton(monkeypatch: pytest.MonkeyPatch, is_there: bool) -> None:
    found = object() if is_there else None
    monkeypatch.setattr("gbgnn.learners.batched_optimizers.find_spec", lambda name: found)
    assert (load_kernels(torch.device("cuda")) is not None) == is_there
    assert load_kernels(torch.device("cpu")) is None
