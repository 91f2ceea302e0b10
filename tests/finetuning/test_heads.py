from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from gbgnn.errors import ParameterError
from gbgnn.finetuning.heads import TunedHead, check_differentiable
from gbgnn.learners import Head
from gbgnn.learners.network import MLPHead


def network() -> MLPHead:
    random = torch.Generator().manual_seed(0)
    shapes = [(4, 3), (3, 2)]
    layers = [(torch.randn(a, b, generator=random).double(), torch.ones(b).double()) for a, b in shapes]
    return MLPHead.from_layers(layers)


class Scaled(Head):
    """A head of another kind: one number."""

    def __init__(self, factor: torch.Tensor) -> None:
        super().__init__()
        self.factor = nn.Parameter(factor, requires_grad=False)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return self.factor * X

    def state(self) -> dict[str, torch.Tensor]:
        return {"factor": self.factor}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Scaled:
        return cls(state["factor"])


def test_standardised_coordinates_are_another_view_of_the_same_head() -> None:
    head = network()
    X = torch.randn(9, 4, generator=torch.Generator().manual_seed(1)).double() + 50
    tuned = TunedHead(head, X.mean(dim=0), 0.01)
    torch.testing.assert_close(tuned(X), head(X), rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(tuned.rebuild()(X), head(X), rtol=1e-11, atol=1e-11)
    inner = MLPHead.from_state({name: v.detach() for name, v in tuned.parameters.items()})
    torch.testing.assert_close(inner((X - X.mean(dim=0)) / 0.01), head(X), rtol=1e-9, atol=1e-9)


def test_moving_a_tuned_head_leaves_the_original_alone() -> None:
    head = network()
    before = {name: value.clone() for name, value in head.state().items()}
    tuned = TunedHead(head, torch.zeros(4).double(), 2.0)
    with torch.no_grad():
        for value in tuned.parameters.values():
            value += 1
    assert all(torch.equal(before[name], value) for name, value in head.state().items())
    moved = tuned.rebuild()
    torch.testing.assert_close(moved.state()["layers.0.weight"], before["layers.0.weight"] + 0.5)
    assert not any(value.requires_grad for value in moved.parameters())
    with torch.no_grad():
        tuned.parameters["layers.1.bias"] += 1  # and what was rebuilt is no view of what moves on
    torch.testing.assert_close(moved.state()["layers.1.bias"], before["layers.1.bias"] + 1)


def test_heads_of_other_kinds_move_in_their_own_parameters() -> None:
    tuned = TunedHead(Scaled(torch.tensor(3.0)), torch.tensor([5.0]), 0.1)
    output = tuned(torch.tensor([[2.0]]))
    output.sum().backward()
    assert output.tolist() == [[6.0]]
    assert float(tuned.parameters["factor"].grad) == 2
    assert float(tuned.rebuild().factor) == 3


def test_head_without_parameters_is_refused() -> None:
    class Nothing(Scaled):
        def __init__(self) -> None:
            Head.__init__(self)

    check_differentiable(network(), 1)
    with pytest.raises(ParameterError, match=r"round 3 \(Nothing\) has no parameters that a gradient could"):
        check_differentiable(Nothing(), 3)
