"""The kernels run on a GPU alone; what can be said without one is that nothing else needs Triton."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from gbgnn._optimizers import Coefficients, Moments
from gbgnn._random import Purpose, derive_keys, dropout_threshold, extend_keys
from gbgnn.learners import kernels

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device")


def test_module_is_imported_without_triton() -> None:
    assert callable(kernels.step)
    assert callable(kernels.dropout)
    assert callable(kernels.dropout_gradient)


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_steps_are_those_of_the_formula(dtype: torch.dtype) -> None:
    random = torch.Generator(device="cuda").manual_seed(0)
    new = {"generator": random, "dtype": dtype, "device": "cuda"}
    names = ["adam", "rmsprop", "sgd", "adam"]
    c = Coefficients.build(
        names,
        [0.1, 0.02, 0.3, 0.1],
        decay=[0.1, 0.0, 0.01, 0.0],
        momentum=[0.0, 0.5, 0.1, 0.0],
        device="cuda",
    )
    n_steps = torch.tensor([5, 5, 5, 2], device="cuda")
    schedules = tuple(table.to(dtype) for table in c.schedule(n_steps, 5))
    start = torch.randn(4, 3000, **new)
    mine, other = start.clone(), start.clone()
    averages, moments = (torch.zeros_like(start), torch.zeros_like(start)), Moments(start)
    for step in range(5):
        gradients, now = torch.randn(4, 3000, **new), torch.tensor([step], device="cuda")
        kernels.step(mine, gradients, averages, replace(c, table=c.table.to(dtype)).pack(), schedules, now, 4)
        rate, root = (table[:, step, None] for table in schedules)
        moments.step(other, gradients.clone(), replace(c, table=c.table.to(dtype)), rate, root)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    torch.testing.assert_close(mine, other, rtol=tolerance, atol=tolerance)


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("rows_first", [True, False])
@pytest.mark.parametrize("is_batched", [True, False])
def test_dropped_units_are_those_of_a_network_alone(plainly, rows_first: bool, is_batched: bool) -> None:
    seeds, epochs = [5, 2**62 + 1, 9], 4
    n_rows, n_units, shares = 20, 30, (0.5, 0.3, 0.0)
    n_places = 6 if is_batched else n_rows
    random = torch.Generator(device="cuda").manual_seed(0)
    values = torch.randn(3, n_places, n_units, generator=random, device="cuda")
    hidden = values.transpose(0, 1).contiguous().transpose(0, 1) if rows_first else values.clone()
    steps, layers = np.arange(epochs, dtype=np.uint32)[:, None], np.arange(2, dtype=np.uint32)
    found = extend_keys(derive_keys(seeds)[:, None, None], Purpose.DROPOUT, layers, steps)
    keys = torch.from_numpy(found.view(np.int32)).cuda()
    cuts = torch.tensor([dropout_threshold(share) for share in shares], dtype=torch.int32, device="cuda")
    kept = torch.tensor([1 / (1 - share) for share in shares], device="cuda")
    chosen = torch.stack([torch.randperm(n_rows)[:n_places] for _ in range(3 * epochs)])
    chosen = chosen.view(3, epochs, n_places)
    now = torch.tensor([2], device="cuda")
    kernels.dropout(hidden, chosen.cuda() if is_batched else None, keys, cuts, kept, now, depth=1)
    for i, share in enumerate(shares):
        rows = chosen[i, 2] if is_batched else torch.arange(n_rows)
        mask = plainly.draw_mask(share, (n_rows, n_units), seeds[i], layer=1, epoch=2)
        torch.testing.assert_close(hidden[i], values[i].relu() * mask[rows].to(values))


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("rows_first", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_errors_pass_units_that_are_on_and_kept(dtype: torch.dtype, rows_first: bool) -> None:
    random = torch.Generator(device="cuda").manual_seed(0)
    errors, hidden = torch.randn(2, 5, 130, 9, generator=random, dtype=dtype, device="cuda")
    hidden = hidden.relu()
    if rows_first:
        errors, hidden = (each.transpose(0, 1).contiguous().transpose(0, 1) for each in (errors, hidden))
    kept = torch.rand(5, 1, 1, generator=random, dtype=dtype, device="cuda") + 1
    expected = torch.where(hidden > 0, errors * kept, 0.0)
    kernels.dropout_gradient(errors, hidden, kept)
    assert torch.equal(errors, expected)
