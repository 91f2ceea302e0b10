from __future__ import annotations

import pytest
import torch

from gbgnn.learners import MLP, Head, Learner, WeakTask, base


@pytest.mark.parametrize("family", [Learner, Head])
def test_families_are_abstract(family: type) -> None:
    with pytest.raises(TypeError, match="abstract"):
        family()


def test_blocks_do_not_change_the_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    X = torch.randn(100, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    task = WeakTask(torch.arange(10), torch.arange(10) % 2, torch.full((10,), 0.1), 2)
    head = MLP(epochs=3).fit(X, task, seed=0)
    whole = head.evaluate(X)
    monkeypatch.setattr(base, "BLOCK_BYTES", 7 * 4 * 8)
    torch.testing.assert_close(head.evaluate(X), whole)
    assert not whole.requires_grad


def test_task_knows_classes_from_numbers() -> None:
    rows, weights = torch.tensor([0]), torch.tensor([1.0])
    assert WeakTask(rows, torch.tensor([[0.5]]), weights, 1).is_regression
    assert not WeakTask(rows, torch.tensor([1]), weights, 2).is_regression
