"""Values as JSON has them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any


def as_plain(value: Any, *, unknown: Callable[[Any], Any] = str) -> Any:
    """Return a value of dictionaries with text keys, lists, numbers, text, booleans and None.

    Parameters
    ----------
    value
        NumPy's arrays and scalars become lists and numbers, tuples become lists.
    unknown
        What to make of any other object; its text by default.

    Examples
    --------
    >>> import numpy as np
    >>> as_plain({"units": np.int64(8), "moves": ("etas",)})
    {'units': 8, 'moves': ['etas']}
    """
    if isinstance(value, Mapping):
        return {str(name): as_plain(each, unknown=unknown) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_plain(each, unknown=unknown) for each in value]
    if hasattr(value, "tolist"):
        return as_plain(value.tolist(), unknown=unknown)
    return value if isinstance(value, (bool, int, float, str, type(None))) else unknown(value)


def to_json(value: Any, *, indent: int | None = None) -> str:
    """Return standard JSON text; what is not finite is null, which standard JSON has no numbers for.

    Examples
    --------
    >>> to_json({"loss": float("nan"), "rounds": (1, 2)})
    '{"loss": null, "rounds": [1, 2]}'
    """
    return json.dumps(_finite(as_plain(value)), indent=indent, ensure_ascii=False, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
