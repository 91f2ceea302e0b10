"""Parts of several models, the members of a population: what they share, and how they become one part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import torch
from sklearn.base import BaseEstimator, clone

P = TypeVar("P", bound=BaseEstimator)


def free_settings(part: Any) -> tuple[str, ...]:
    """Return the settings that members of a population may differ in.

    A part names them in a tuple ``may_differ``; without one, they are its numbers with a fraction, such as
    rates.

    Examples
    --------
    >>> from gbgnn import Samme
    >>> free_settings(Samme())
    ('error_floor', 'learning_rate')
    """
    named: tuple[str, ...] | None = getattr(part, "may_differ", None)
    if named is not None:
        return named
    if is_dataclass(part):  # a rate of 1 is an integer that means a fraction
        return tuple(field.name for field in fields(part) if field.type in (float, "float"))
    return tuple(name for name, value in part.get_params(deep=False).items() if isinstance(value, float))


def shared_settings(part: Any) -> dict[str, Any]:
    """Return the settings that parts of one class must agree in to be trained together.

    Examples
    --------
    >>> from gbgnn import FunctionalGradient
    >>> shared_settings(FunctionalGradient(min_cosine=0.1))
    {'loss': 'auto', 'target': 'gradient', 'retries': 3, 'on_failure': 'stop'}
    """
    settings, free = vars(part) if is_dataclass(part) else part.get_params(deep=False), free_settings(part)
    return {name: value for name, value in settings.items() if name not in free}


def stack(parts: Sequence[P], device: torch.device | str = "cpu") -> P:
    """Return one part that stands for all: numbers in which they differ become tensors, a number for each.

    Examples
    --------
    >>> from gbgnn import Samme
    >>> stack([Samme(learning_rate=1.0), Samme(learning_rate=0.5)]).learning_rate.tolist()
    [1.0, 0.5]
    """
    if len(parts) == 1:
        return parts[0]
    result: P = clone(parts[0])
    for name in free_settings(result):
        column = [getattr(part, name) for part in parts]
        if any(value != column[0] for value in column):
            setattr(result, name, torch.tensor(column, dtype=torch.float64, device=device))
    return result


def for_rows(value: float | torch.Tensor, like: torch.Tensor) -> Any:
    """Return a number, or one for each member, in a shape that multiplies tables (members, rows, columns).

    Examples
    --------
    >>> for_rows(torch.tensor([1.0, 2.0]), torch.empty(2, 5, 3)).shape
    torch.Size([2, 1, 1])
    """
    if not isinstance(value, torch.Tensor):
        return value
    return value.to(like.dtype).reshape(*value.shape, *[1] * (like.ndim - value.ndim))


def map_tensors(function: Callable[..., torch.Tensor], value: Any, *others: Any) -> Any:
    """Return a value with a function applied to every tensor in it, and in others of the same form.

    Examples
    --------
    >>> map_tensors(lambda each: each[:1], (torch.tensor([1, 2]), None))
    (tensor([1]), None)
    """
    if isinstance(value, torch.Tensor):
        return function(value, *others)
    if isinstance(value, tuple):
        return tuple(map_tensors(function, *each) for each in zip(value, *others, strict=True))
    if isinstance(value, dict):
        return {k: map_tensors(function, each, *(other[k] for other in others)) for k, each in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return type(value)(
            **{
                k: map_tensors(function, each, *(getattr(other, k) for other in others))
                for k, each in vars(value).items()
            }
        )
    return value
