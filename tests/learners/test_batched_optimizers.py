from __future__ import annotations

import pytest
import torch

from gbgnn.learners import MLP
from gbgnn.population.movers import AllAtOnce, Mover, OneByOne, has_triton, mover_of
from gbgnn.population.optimizer import Coefficients

LEARNERS = [
    MLP(optimizer="adam", learning_rate=0.1, weight_decay=0.1),
    MLP(optimizer="rmsprop", learning_rate=0.02, momentum=0.5, weight_decay=0.01),
    MLP(optimizer="sgd", learning_rate=0.3, momentum=0.1, weight_decay=0.01),
]
COEFFICIENTS = Coefficients.of(
    [each.optimizer for each in LEARNERS],
    torch.tensor([each.learning_rate for each in LEARNERS], dtype=torch.float64),
    decay=torch.tensor([each.weight_decay for each in LEARNERS], dtype=torch.float64),
    momentum=torch.tensor([each.momentum for each in LEARNERS], dtype=torch.float64),
)
N_STEPS = torch.tensor([4, 3, 1])


def moved_by(kind: str) -> list[torch.Tensor]:
    """Parameters after two trainings, of which only the second counts."""
    pairs = [(torch.zeros(4, n, dtype=torch.float64), torch.zeros(4, n, dtype=torch.float64)) for n in (6, 3)]
    every = frozenset(("adam", "rmsprop", "sgd"))
    mover: Mover = OneByOne(pairs) if kind == "one by one" else AllAtOnce(pairs, every, n_steps=5)
    for training in range(2):
        random = torch.Generator().manual_seed(training)
        for values, _ in pairs:
            values.copy_(torch.randn(values.shape, generator=random))
        mover.load(LEARNERS, COEFFICIENTS, N_STEPS)
        for step in range(4):
            for _, slopes in pairs:
                slopes.copy_(torch.randn(slopes.shape, generator=random))
            mover.step(int((step < N_STEPS).sum()), torch.tensor([step]))
    return [values for values, _ in pairs]


def test_all_at_once_equals_one_by_one() -> None:
    for mine, other in zip(moved_by("one by one"), moved_by("all at once"), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-12, atol=1e-12)


def test_members_that_are_done_may_come_along_and_stay() -> None:
    pair = torch.ones(3, 2, dtype=torch.float64), torch.ones(3, 2, dtype=torch.float64)
    mover = AllAtOnce([pair], frozenset(("adam", "rmsprop", "sgd")), n_steps=4)
    mover.load(LEARNERS, COEFFICIENTS, N_STEPS)
    seen = []
    for step in range(4):
        pair[1].fill_(0.5)
        mover.step(3, torch.tensor([step]))
        seen.append(pair[0].clone())
    assert torch.equal(seen[0][2], seen[3][2])
    assert torch.equal(seen[2][1], seen[3][1])
    assert not torch.equal(seen[2][0], seen[3][0])


def test_learners_own_optimizers_move_on_a_cpu() -> None:
    pair = torch.ones(3, 2), torch.ones(3, 2)
    assert isinstance(mover_of([pair], frozenset(("adam",)), 3), OneByOne)
    elsewhere = tuple(each.to("meta") for each in pair)
    assert isinstance(mover_of([elsewhere], frozenset(("adam",)), 3), AllAtOnce)


@pytest.mark.parametrize("is_there", [True, False])
def test_kernels_need_a_gpu_and_triton(monkeypatch: pytest.MonkeyPatch, is_there: bool) -> None:
    monkeypatch.setattr("gbgnn.population.movers.find_spec", lambda name: object() if is_there else None)
    assert has_triton(torch.device("cuda")) == is_there
    assert not has_triton(torch.device("cpu"))
