from __future__ import annotations

import pytest
import torch
from sklearn.linear_model import Ridge

from gbgnn.learners import MLP, Head, Learner, SklearnLearner, WeakTask, base


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


def test_learners_and_heads_may_have_nothing_to_say() -> None:
    learner = SklearnLearner(estimator=Ridge())
    task = WeakTask(torch.arange(2), torch.ones(2, 1), torch.full((2,), 0.5), 1)
    assert learner.hypothesis_space() is None
    head = learner.fit(torch.eye(2), task, seed=0)
    assert head.report() is None
    assert head.first_layer is None
    assert MLP().hypothesis_space() is None
    assert MLP(epochs=0).fit(torch.eye(2), task, seed=0).report() is None


def test_task_knows_classes_from_numbers() -> None:
    rows, weights = torch.tensor([0]), torch.tensor([1.0])
    assert WeakTask(rows, torch.tensor([[0.5]]), weights, 1).is_regression
    assert not WeakTask(rows, torch.tensor([1]), weights, 2).is_regression
