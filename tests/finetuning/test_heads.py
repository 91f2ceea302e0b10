from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from gbgnn.finetuning.network import FineTunedHeads, HeadStack
from gbgnn.learners import ConstrainedMLP, Head, Learner, WideReLU
from gbgnn.learners.network import MLPHead
from gbgnn.testing import learner_round


def network() -> MLPHead:
    random = torch.Generator().manual_seed(0)
    shapes = [(4, 3), (3, 2)]
    layers = [(torch.randn(a, b, generator=random).double().T, torch.ones(b).double()) for a, b in shapes]
    return MLPHead.from_layers(layers)


class Scaled(Head):
    """A head without a linear layer: one number."""

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


class Exponential(Head):
    """A head of another kind whose rows meet a linear layer first."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.inner = linear.requires_grad_(False)

    @property
    def first_layer(self) -> tuple[str, str]:
        return "inner.weight", "inner.bias"

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return self.inner(X).exp()

    def state(self) -> dict[str, torch.Tensor]:
        return dict(self.state_dict())

    @classmethod
    def from_state(cls, state: dict[str, torch.Tensor]) -> Exponential:
        n_out, n_in = state["inner.weight"].shape
        head = cls(nn.Linear(n_in, n_out, dtype=torch.float64))
        head.load_state_dict(state)
        return head


def exponential() -> Exponential:
    weight = 1e-2 * torch.arange(8.0, dtype=torch.float64).reshape(2, 4)
    return Exponential.from_state({"inner.weight": weight, "inner.bias": torch.ones(2).double()})


def fitted(learner: Learner) -> Head:
    X = torch.randn(12, 4, generator=torch.Generator().manual_seed(2)).double()
    return learner.fit(learner_round(X, X[:, :2] * X[:, 2:]))


HEADS = {
    "network": network(),
    "other": exponential(),
    "constrained": fitted(ConstrainedMLP(hidden_layers=1, units=5, bias=True)),
    "wide": fitted(WideReLU(units=256)),
}


def stack_of(head: Head, centre: torch.Tensor, size: float) -> HeadStack:
    return HeadStack([head], centre[None], torch.tensor([size], dtype=centre.dtype))


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_standardised_coordinates_are_another_view_of_the_same_head(head: Head) -> None:
    X = torch.randn(9, 4, generator=torch.Generator().manual_seed(1)).double() + 50
    stack = stack_of(head, X.mean(dim=0), 0.01)
    torch.testing.assert_close(stack(X[None])[0], head(X), rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(stack.rebuild()[0](X), head(X), rtol=1e-11, atol=1e-11)
    inner = type(head).from_state({name: v[0].detach() for name, v in stack.parameters.items()})
    torch.testing.assert_close(inner((X - X.mean(dim=0)) / 0.01), head(X), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_slopes_are_those_of_standardised_rows(head: Head) -> None:
    X = torch.randn(9, 4, generator=torch.Generator().manual_seed(1)).double()
    centre, size = X.mean(dim=0), 0.3
    stack = stack_of(head, centre, size)
    stack(X[None]).square().sum().backward()
    inner = type(head).from_state({name: v[0].detach().clone() for name, v in stack.parameters.items()})
    inner.requires_grad_()((X - centre) / size).square().sum().backward()
    for name, value in inner.named_parameters():
        torch.testing.assert_close(stack.parameters[name].grad[0], value.grad, rtol=1e-9, atol=1e-9)


def test_moving_a_stack_leaves_the_original_alone() -> None:
    head = network()
    before = {name: value.clone() for name, value in head.state().items()}
    stack = stack_of(head, torch.zeros(4).double(), 2.0)
    with torch.no_grad():
        for value in stack.parameters.values():
            value += 1
    assert all(torch.equal(before[name], value) for name, value in head.state().items())
    (moved,) = stack.rebuild()
    torch.testing.assert_close(moved.state()["layers.0.weight"], before["layers.0.weight"] + 0.5)
    assert not any(value.requires_grad for value in moved.parameters())
    with torch.no_grad():
        stack.parameters["layers.1.bias"] += 1  # and what was rebuilt is no view of what moves on
    torch.testing.assert_close(moved.state()["layers.1.bias"], before["layers.1.bias"] + 1)


def test_heads_that_name_no_first_layer_move_in_their_own_parameters() -> None:
    stack = stack_of(Scaled(torch.tensor(3.0)), torch.tensor([5.0]), 0.1)
    output = stack(torch.tensor([[[2.0]]]))
    output.sum().backward()
    assert output.tolist() == [[[6.0]]]
    assert stack.parameters["factor"].grad.tolist() == [2.0]
    assert float(stack.rebuild()[0].factor) == 3


def test_heads_of_several_kinds_keep_their_rounds() -> None:
    heads = [network(), exponential(), network(), exponential()]
    random = torch.Generator().manual_seed(3)
    X = torch.randn(4, 9, 4, generator=random).double()
    tuned = FineTunedHeads(heads, X.mean(dim=1), X.flatten(1).std(dim=1))
    assert len(tuned.stacks) == 2
    expected = torch.stack([head(rows) for head, rows in zip(heads, X, strict=True)])
    torch.testing.assert_close(tuned(X), expected, rtol=1e-11, atol=1e-11)
    rebuilt = tuned.rebuild()
    assert [type(head) for head in rebuilt] == [type(head) for head in heads]
    again = torch.stack([head(rows) for head, rows in zip(rebuilt, X, strict=True)])
    torch.testing.assert_close(again, expected, rtol=1e-11, atol=1e-11)
