"""Small Triton kernels: the optimisers' step, dropout and its gradient, each in one pass over memory.

For a GPU with Triton only. What they compute is what :class:`~gbgnn._optimizers.Moments` and
:class:`~gbgnn.learners.batched.BatchedMLP` compute; tests hold them to that where there is a GPU.
"""
# No annotations from the future: Triton reads those of its kernels.

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch

_BLOCK = 1024

if find_spec("triton") is not None:  # else nobody calls what is below
    triton: Any = import_module("triton")
    tl: Any = import_module("triton.language")

    @triton.jit
    def _mix(number):  # type: ignore[no-untyped-def]
        number ^= number >> 16
        number *= 0x7FEB352D
        number ^= number >> 15
        number *= 0x846CA68B
        number ^= number >> 16
        return number

    @triton.jit  # type: ignore[untyped-decorator]
    def _step_kernel(  # type: ignore[no-untyped-def]
        values,
        gradients,
        first,
        second,
        coefficients,
        rates,
        roots,
        now,
        n_values,
        n_steps,
        BLOCK: tl.constexpr,
    ):
        member, step = tl.program_id(1), tl.load(now)
        rate = tl.load(rates + member * n_steps + step)
        if rate != 0:  # else this member is done
            root = tl.load(roots + member * n_steps + step)
            decay = tl.load(coefficients + member * 6)
            keep = tl.load(coefficients + member * 6 + 1)
            take = tl.load(coefficients + member * 6 + 2)
            learn = tl.load(coefficients + member * 6 + 3)
            floor = tl.load(coefficients + member * 6 + 4)
            is_adam = tl.load(coefficients + member * 6 + 5) > 0
            column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            at = member.to(tl.int64) * n_values + column
            is_there = column < n_values
            value = tl.load(values + at, mask=is_there, other=0.0)
            gradient = tl.load(gradients + at, mask=is_there, other=0.0) + decay * value
            square = tl.load(second + at, mask=is_there, other=0.0)
            square += learn * (gradient * gradient - square)
            divisor = root * tl.sqrt(square) + floor
            average = keep * tl.load(first + at, mask=is_there, other=0.0)
            average += take * tl.where(is_adam, gradient, gradient / divisor)
            tl.store(values + at, value - rate * tl.where(is_adam, average / divisor, average), mask=is_there)
            tl.store(first + at, average, mask=is_there)
            tl.store(second + at, square, mask=is_there)

    @triton.jit  # type: ignore[untyped-decorator]
    def _dropout_kernel(  # type: ignore[no-untyped-def]
        hidden,
        chosen,
        keys,
        thresholds,
        kept,
        now,
        n_all,
        n_members,
        n_places,
        n_units,
        n_steps,
        n_layers,
        n_chosen,
        depth,
        IS_BATCHED: tl.constexpr,
        ROWS_FIRST: tl.constexpr,
        BLOCK: tl.constexpr,
    ):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        is_there = at < n_all
        unit, rest = at % n_units, at // n_units
        if ROWS_FIRST:
            member, place = rest % n_members, rest // n_members
        else:
            member, place = rest // n_places, rest % n_places
        step = member * n_steps + tl.load(now)
        row = place
        if IS_BATCHED:
            row = tl.load(chosen + step * n_chosen + place, mask=is_there, other=0)
        key = tl.load(keys + step * n_layers + depth, mask=is_there, other=0).to(tl.uint32, bitcast=True)
        number = _mix(_mix(_mix(row.to(tl.uint32)) + unit.to(tl.uint32)) + key)
        is_kept = number.to(tl.int32, bitcast=True) >= tl.load(thresholds + member, mask=is_there, other=0)
        value = tl.load(hidden + at, mask=is_there, other=0.0)
        share = tl.load(kept + member, mask=is_there, other=0.0)
        # Products, so that what is not a number stays so.
        value = tl.where(value <= 0, 0.0, value) * tl.where(is_kept, share, 0.0)
        tl.store(hidden + at, value, mask=is_there)

    @triton.jit  # type: ignore[untyped-decorator]
    def _gradient_kernel(  # type: ignore[no-untyped-def]
        errors,
        hidden,
        kept,
        n_all,
        n_members,
        n_places,
        n_units,
        ROWS_FIRST: tl.constexpr,
        BLOCK: tl.constexpr,
    ):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        is_there = at < n_all
        rest = at // n_units
        member = rest % n_members if ROWS_FIRST else rest // n_places
        unit = tl.load(hidden + at, mask=is_there, other=0.0)
        error = tl.load(errors + at, mask=is_there, other=0.0)
        share = tl.load(kept + member, mask=is_there, other=0.0)
        tl.store(errors + at, tl.where(unit <= 0, 0.0, error * share), mask=is_there)


def step(
    values: torch.Tensor,
    gradients: torch.Tensor,
    moments: tuple[torch.Tensor, torch.Tensor],
    coefficients: torch.Tensor,
    schedules: tuple[torch.Tensor, torch.Tensor],
    now: torch.Tensor,
    n_members: int,
) -> None:
    """Move the values, shape (members, n_values), of the first ``n_members``, in place.

    Coefficients are those of :meth:`~gbgnn._optimizers.Coefficients.pack`, schedules its rates and roots,
    shape (members, n_steps), and ``now`` is the number of the step.
    """
    n_values = values.shape[1]
    grid = (triton.cdiv(n_values, _BLOCK), n_members)
    arrays = (values, gradients, *moments, coefficients, *schedules)
    _step_kernel[grid](*arrays, now, n_values, schedules[0].shape[1], BLOCK=_BLOCK)


def dropout(
    hidden: torch.Tensor,
    chosen: torch.Tensor | None,
    keys: torch.Tensor,
    thresholds: torch.Tensor,
    kept: torch.Tensor,
    now: torch.Tensor,
    depth: int,
) -> None:
    """Apply ReLU and dropout to hidden units, shape (members, places, units), in place.

    In memory they are dense, members or places first. ``chosen`` are the rows of every step, shape (members,
    n_steps, places or more), None for all rows in order; ``keys`` are of shape (members, n_steps, n_layers).
    From ``thresholds`` on a unit is kept, and multiplied by ``kept``. ``now`` is the number of the step.
    """
    assert hidden.numel() < 2**31, "places are counted in 32 bits"
    arrays = (hidden, keys if chosen is None else chosen, keys, thresholds, kept, now)
    n_chosen = 0 if chosen is None else chosen.shape[2]
    _dropout_kernel[(triton.cdiv(hidden.numel(), _BLOCK),)](
        *arrays,
        hidden.numel(),
        *hidden.shape,
        *keys.shape[1:],
        n_chosen,
        depth,
        IS_BATCHED=chosen is not None,
        ROWS_FIRST=_has_rows_first(hidden),
        BLOCK=_BLOCK,
    )


def dropout_gradient(errors: torch.Tensor, hidden: torch.Tensor, kept: torch.Tensor) -> None:
    """Take errors of hidden units back through dropout and ReLU, in place; all arguments as of dropout."""
    options = {"ROWS_FIRST": _has_rows_first(hidden), "BLOCK": _BLOCK}
    grid = (triton.cdiv(hidden.numel(), _BLOCK),)
    _gradient_kernel[grid](errors, hidden, kept, hidden.numel(), *hidden.shape, **options)


def _has_rows_first(hidden: torch.Tensor) -> bool:
    return hidden.shape[0] > 1 and hidden.stride(0) < hidden.stride(1)
