"""Values as JSON has them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any


def as_plain(value: Any, *, unknown: Callable[[Any], Any] = str) -> Any:
    """Return a value of dictionaries with text keys, lists, numbers, text, booleans and None.

    NumPy's arrays and scalars become lists and numbers, tuples become lists, and any other object what
    ``unknown`` makes of it: its text by default.
    """
    if isinstance(value, Mapping):
        return {str(name): as_plain(each, unknown=unknown) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_plain(each, unknown=unknown) for each in value]
    if hasattr(value, "tolist"):
        return as_plain(value.tolist(), unknown=unknown)
    return value if isinstance(value, (bool, int, float, str, type(None))) else unknown(value)


def to_json(value: Any, *, indent: int | None = None) -> str:
    """Return standard JSON text; what is not finite is null, which standard JSON has no numbers for."""
    return json.dumps(_finite(as_plain(value)), indent=indent, ensure_ascii=False, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
