"""How numbers are written on a page."""

from __future__ import annotations

import math
from typing import Any

_PARTS = {"train": "training", "val": "validation", "": "no part"}


def percent(share: float | None, digits: int = 1) -> str:
    """Return a share in per cent; a dash where there is none."""
    if share is None or not math.isfinite(share):
        return "-"
    return f"{100 * share:.{digits}f} %"


def number(value: Any, form: str = "") -> str:
    """Return a number, large ones with commas; a dash where there is none.

    Examples
    --------
    >>> number(20640), number(123456.7), number(0.51234), number(None), number(0.5, ".3f")
    ('20,640', '123,457', '0.5123', '-', '0.500')
    """
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "-"
    if form:
        return format(value, form)
    return f"{value:,.0f}" if isinstance(value, int) or 1e4 <= abs(value) < 1e15 else f"{value:.4g}"


def counted(n: int, noun: str, plural: str | None = None) -> str:
    """Return a count with its noun."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def begin(sentence: str) -> str:
    """Return a sentence with a large letter first."""
    return sentence[:1].upper() + sentence[1:]


def of_part(name: str) -> str:
    """Return what a part of the split is called before "nodes"; that of nodes in none has no name."""
    return _PARTS.get(name, name)


def listed(words: list[str]) -> str:
    """Return words with commas, the last with "and"."""
    return ", ".join(words[:-1]) + f" and {words[-1]}" if len(words) > 1 else "".join(words)
