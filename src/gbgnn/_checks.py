"""Range checks for settings, all with one sentence: what it is, what it must be, what came."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

from gbgnn.errors import ParameterError, suggest


def check_number(
    owner: str,
    name: str,
    value: Any,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    open_low: bool = False,
    open_high: bool = False,
) -> None:
    """Raise unless ``value`` is a real number between ``low`` and ``high``."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    open_low, open_high = open_low or low == -math.inf, open_high or high == math.inf
    below = number and (value <= low if open_low else value < low)
    above = number and (value >= high if open_high else value > high)
    if not number or math.isnan(value) or below or above:
        left, right = "(" if open_low else "[", ")" if open_high else "]"
        raise ParameterError(f"{owner}.{name} must be in {left}{low:g}, {high:g}{right}; got {value!r}.")


def check_integer(
    owner: str, name: str, value: Any, low: int, high: int | None = None, *, optional: bool = False
) -> None:
    """Raise unless ``value`` is an integer from ``low`` to ``high``, or None where that is allowed."""
    if optional and value is None:
        return
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or value < low or (high is not None and value > high):
        span = f"an integer >= {low}" if high is None else f"an integer from {low} to {high}"
        none = ", or None" if optional else ""
        raise ParameterError(f"{owner}.{name} must be {span}{none}; got {value!r}.")


def check_choice(owner: str, name: str, value: Any, choices: Iterable[str]) -> None:
    """Raise unless ``value`` is one of ``choices``, with the nearest one as a hint."""
    known = list(choices)
    if value not in known:
        hint = suggest(value, known) if isinstance(value, str) else ""
        raise ParameterError(f"{owner}.{name} must be one of {', '.join(known)}; got {value!r}.{hint}")


_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0}
_DURATION = re.compile(r"(?=.)" + "".join(rf"(?:(?P<{unit}>\d+(?:\.\d+)?){unit})?" for unit in _UNITS))


def as_seconds(owner: str, name: str, value: Any) -> float:
    """Return a duration in seconds: a number of them, or text such as ``"90"``, ``"10m"`` or ``"1h30m"``.

    Examples
    --------
    >>> as_seconds("GBGNNClassifier", "time_limit", "1h30m")
    5400.0
    """
    seconds = value
    if isinstance(value, str):
        parts = _DURATION.fullmatch(value.strip().lower().replace(" ", ""))
        if parts is not None:
            seconds = sum(float(count) * _UNITS[unit] for unit, count in parts.groupdict("0").items())
        elif re.fullmatch(r"\d+(\.\d+)?", value.strip()):
            seconds = float(value)
    is_number = isinstance(seconds, Real) and not isinstance(seconds, bool)
    if not is_number or not 0 < seconds < math.inf:
        raise ParameterError(
            f'{owner}.{name} must be a number of seconds above 0, or text such as "90s", "10m" or "1h30m"; '
            f"got {value!r}."
        )
    return float(seconds)


_SIZES = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SIZES |= {f"{prefix}IB": 2**power for prefix, power in (("K", 10), ("M", 20), ("G", 30), ("T", 40))}


def as_bytes(owner: str, name: str, value: Any) -> int:
    """Return a number of bytes given as an integer, or as text such as ``"500MB"`` or ``"2 GiB"``.

    Examples
    --------
    >>> as_bytes("GBGNNClassifier", "memory_limit", "4GB")
    4000000000
    """
    found = value
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", value, re.IGNORECASE)
        if match and match[2].upper() in _SIZES:
            found = int(float(match[1]) * _SIZES[match[2].upper()])
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise ParameterError(
            f'{owner}.{name} must be a number of bytes, or text such as "500MB" or "2GiB"; got {value!r}.'
        )
    return found
