from __future__ import annotations

from dataclasses import dataclass

import pytest
import scipy.sparse as sp
import torch
from sklearn.linear_model import Ridge

from gbgnn import _threads
from gbgnn.learners import MLP, ConstrainedMLP, Head, Learner, SklearnLearner, WideReLU, base
from gbgnn.learners.base import USES
from gbgnn.propagation import DenseRows, Representation, SparseRows
from gbgnn.rounds import RoundContext
from gbgnn.testing import check_learner, learner_round


class ConstantHead(Head):
    def __init__(self, value: torch.Tensor) -> None:
        super().__init__()
        self.value = value

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return self.value.to(X.dtype).expand(len(X), -1)

    def state(self) -> dict[str, torch.Tensor]:
        return {"value": self.value}

    @classmethod
    def from_state(cls, state: dict[str, torch.Tensor]) -> Head:
        return cls(state["value"])


@dataclass(kw_only=True, eq=False, repr=False)
class Constant(Learner):
    """The example of the family's docstring, for numbers."""

    def check(self) -> None:
        pass

    def fit(self, context: RoundContext) -> Head:
        task = context.weak_task
        return ConstantHead(task.weights @ task.targets.to(task.weights))


@pytest.mark.parametrize("family", [Learner, Head])
def test_families_are_abstract(family: type) -> None:
    with pytest.raises(TypeError, match="abstract"):
        family()


def test_a_learner_of_ones_own_is_a_few_lines() -> None:
    targets = torch.tensor([[1.0, -1.0], [5.0, 3.0]], dtype=torch.float64)
    context = learner_round(torch.eye(4), targets, rows=torch.tensor([2, 0]))
    assert Constant().fit(context).evaluate(context.X).tolist() == [[3.0, 1.0]] * 4
    numbers = torch.randn(12, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    check_learner(Constant(), learner_round(torch.eye(12), numbers).weak_task)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("n_bytes", "n_blocks"), [(1, 100), (7 * 4 * 8, 15), (10**9, 1)])
def test_blocks_and_threads_do_not_change_the_outputs(
    n_bytes: int, n_blocks: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = torch.randn(100, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    head = MLP(epochs=3).fit(learner_round(X, torch.arange(10) % 2, rows=torch.arange(10)))
    whole, forward, seen = head(X), type(head).forward, []

    def watch(head: Head, block: torch.Tensor) -> torch.Tensor:
        seen.append((len(block), torch.is_grad_enabled()))
        return forward(head, block)

    monkeypatch.setattr(type(head), "forward", watch)
    monkeypatch.setattr(base, "BLOCK_BYTES_ON_CPU", n_bytes)
    monkeypatch.setattr(_threads, "LARGE", 1)
    monkeypatch.setattr(_threads, "n_threads", lambda: threads)
    outputs = head.requires_grad_(True).evaluate(DenseRows(X))
    torch.testing.assert_close(outputs, whole)
    assert not outputs.requires_grad
    assert len(seen) == n_blocks
    assert sum(n_rows for n_rows, _ in seen) == 100
    assert not any(tracked for _, tracked in seen)


def test_only_a_head_that_takes_sparse_rows_is_shown_them() -> None:
    dense = torch.tensor([[0.0, 3.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    sparse: Representation = SparseRows.from_scipy(sp.csr_array(dense.numpy()))
    layouts = []

    class Watching(ConstantHead):
        def forward(self, X: torch.Tensor) -> torch.Tensor:
            layouts.append(X.layout)
            return super().forward(X)

    class Sparse(Watching):
        takes_sparse = True

    value = torch.tensor([2.0])
    assert Watching(value).evaluate(sparse).tolist() == Sparse(value).evaluate(sparse).tolist() == [[2]] * 3
    assert layouts == [torch.strided, torch.sparse_csr]
    head = MLP(epochs=2, units=4).fit(learner_round(dense, torch.tensor([0, 1, 1])))
    assert head.takes_sparse
    torch.testing.assert_close(head.evaluate(sparse), head(dense))


def test_learners_and_heads_may_have_nothing_to_say() -> None:
    learner = SklearnLearner(estimator=Ridge())
    context = learner_round(torch.eye(2), torch.ones(2, 1))
    assert learner.hypothesis_space() is None
    head = learner.fit(context)
    assert head.report() is None
    assert head.first_layer is None
    assert not head.takes_sparse
    assert MLP().hypothesis_space() is None
    assert MLP(epochs=0).fit(context).report() is None


def test_every_learner_says_what_it_looks_at() -> None:
    """All of the library's own keep to labelled rows, which is what bounds and certificates may assume."""
    ours = [MLP(), ConstrainedMLP(), WideReLU(), SklearnLearner(estimator=Ridge()), Constant()]
    assert USES == ("labelled", "all rows", "graph")
    assert {learner.uses for learner in ours} == {"labelled"}
    assert [learner.watches_validation for learner in (*ours, MLP(patience=3))] == [False] * 5 + [True]
    assert [learner.is_differentiable for learner in ours] == [True, True, True, False, True]
