from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gbgnn._optimizers import OPTIMIZERS, Coefficients, Moments, Stepper

CLASSES = {"adam": torch.optim.Adam, "rmsprop": torch.optim.RMSprop, "sgd": torch.optim.SGD}

Member = tuple[str, float, float, float, int]
MEMBER = st.tuples(
    st.sampled_from(OPTIMIZERS),
    st.sampled_from([0.3, 0.01]),  # rate
    st.sampled_from([0.0, 0.1]),  # decay
    st.sampled_from([0.0, 0.5]),  # momentum
    st.integers(0, 6),  # steps
)


def coefficients_of(members: list[Member]) -> Coefficients:
    names, rates, decay, momentum, _ = zip(*members, strict=True)
    return Coefficients.build(names, rates, decay=decay, momentum=momentum)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("momentum", [0.0, 0.4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_steps_equal_those_of_torchs_classes(name: str, momentum: float, dtype: torch.dtype) -> None:
    random = torch.Generator().manual_seed(0)
    start = [torch.randn(*shape, generator=random, dtype=dtype) for shape in ((30, 2), (4,))]
    ours = [p.clone() for p in start]
    theirs = [torch.nn.Parameter(p.clone()) for p in start]
    options = {"momentum": momentum} if name != "adam" else {}
    optimizer = CLASSES[name](theirs, lr=0.05, weight_decay=0.1, **options)
    stepper = Stepper(name, ours, 0.05, weight_decay=0.1, momentum=momentum)
    for _ in range(20):
        gradients = [torch.randn(p.shape, generator=random, dtype=dtype) for p in start]
        gradients[0][:5] = 0
        for parameter, gradient in zip(theirs, gradients, strict=True):
            parameter.grad = gradient.clone()
        optimizer.step()
        stepper.step(gradients)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other.detach(), rtol=tolerance, atol=tolerance)


def test_no_compiler_is_imported_for_a_fit() -> None:
    code = """
import sys
from gbgnn import GBGNNClassifier, datasets
data = datasets.load("karate")
GBGNNClassifier(n_rounds=2, aggregation="kta").fit(data.train, data.y[data.train], graph=data.graph)
assert "torch._dynamo" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_gradients_may_lie_in_memory_in_any_order(name: str) -> None:
    gradient = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    plain, transposed = torch.ones(3, 5), torch.ones(3, 5)
    Stepper(name, [plain], 0.1).step([gradient.T.contiguous()])
    Stepper(name, [transposed], 0.1).step([gradient.T])
    assert torch.equal(plain, transposed)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@settings(max_examples=60)
@given(members=st.lists(MEMBER, min_size=1, max_size=5))
def test_by_one_formula_every_member_moves_as_by_torchs_class(
    dtype: torch.dtype, members: list[Member]
) -> None:
    m, random = len(members), torch.Generator().manual_seed(0)
    start = torch.randn(m, 7, generator=random, dtype=dtype)
    gradients = torch.randn(6, m, 7, generator=random, dtype=dtype)
    gradients[:, :, 0] = 0  # a parameter that gets no gradient
    together, moments, c = start.clone(), Moments(start), coefficients_of(members)
    n_steps = torch.tensor([steps for *_, steps in members])
    rates, roots = (table.to(dtype) for table in c.schedule(n_steps, 6))
    rounded = replace(c, table=c.table.to(dtype))
    for k in range(6):
        now = slice(k, k + 1)
        moments.step(together, gradients[k].clone(), rounded, rates[:, now], roots[:, now])
    tolerance = 1e-12 if dtype == torch.float64 else 1e-5
    for i, (name, rate, decay, momentum, steps) in enumerate(members):
        alone = torch.nn.Parameter(start[i].clone())
        options = {"momentum": momentum} if name != "adam" else {}
        optimizer = CLASSES[name]([alone], lr=rate, weight_decay=decay, **options)
        for k in range(steps):
            alone.grad = gradients[k, i].clone()
            optimizer.step()
        torch.testing.assert_close(together[i], alone.detach(), rtol=tolerance, atol=tolerance)


def test_first_members_can_move_alone() -> None:
    c = coefficients_of([(name, 0.1, 0.0, 0.0, 3) for name in ("adam", "sgd", "rmsprop")])
    start = torch.ones(3, 2, dtype=torch.float64)
    moments, moved = Moments(start), start.clone()
    rates, roots = (table[:2, :1] for table in c.schedule(torch.full((3,), 3), 1))
    moments.step(moved[:2], torch.ones(2, 2).double(), Coefficients(c.table[:2], c.kinds), rates, roots)
    assert (moved[:2] < 1).all()
    assert torch.equal(moved[2], start[2])
    assert not moments.second[2].any()


def test_reset_begins_anew() -> None:
    moments = Moments(torch.ones(1, 2))
    moments.first.fill_(1)
    moments.second.fill_(1)
    moments.reset()
    assert not moments.first.any()
    assert not moments.second.any()


def test_numbers_of_the_formula_are_packed_for_the_kernel() -> None:
    members = [("adam", 0.3, 0.1, 0.5, 3), ("sgd", 0.01, 0.2, 0.5, 3)]
    packed = coefficients_of(members).pack().float()
    assert packed.dtype == torch.float32
    assert packed.shape == (2, 6)
    assert packed.is_contiguous()
    assert packed[0].tolist() == pytest.approx([0.1, 0.9, 0.1, 0.001, 1e-8, 1])
    assert packed[1].tolist() == pytest.approx([0.2, 0.5, 1, 0.01, 1, 0])


def test_without_decay_and_momentum_there_is_none() -> None:
    c = Coefficients.build(["sgd", "adam"], [0.5, 0.1])
    decay, keep, *_, rate = c.columns
    assert decay[:, 0].tolist() == [0, 0]
    assert keep[:, 0].tolist() == [0, 0.9]
    assert rate[:, 0].tolist() == [0.5, 0.1]
    assert c.kinds == {"sgd", "adam"}


def test_rates_end_with_a_members_steps() -> None:
    c = coefficients_of([("sgd", 0.5, 0, 0, 2), ("sgd", 0.5, 0, 0, 0)])
    rates, _ = c.schedule(torch.tensor([2, 0]), 3)
    assert rates.tolist() == [[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]
