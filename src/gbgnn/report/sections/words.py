"""How numbers are written on a page."""

from __future__ import annotations

import math
from typing import Any

from gbgnn.report.subject import PART_NAMES


def percent(share: float | None, digits: int = 1) -> str:
    """Return a share in per cent; a dash where there is none."""
    if share is None or not math.isfinite(share):
        return "-"
    return f"{100 * share:.{digits}f} %"


def number(value: Any, form: str = ".4g") -> str:
    """Return a number, counts with commas; a dash where there is none."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "-"
    return f"{value:,}" if isinstance(value, int) else format(value, form)


def counted(n: int, noun: str, plural: str | None = None) -> str:
    """Return a count with its noun."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def begin(sentence: str) -> str:
    """Return a sentence with a large letter first."""
    return sentence[:1].upper() + sentence[1:]


def of_part(name: str) -> str:
    """Return what a part of the split is called before "nodes"."""
    return PART_NAMES.get(name, name)


def listed(words: list[str]) -> str:
    """Return words with commas, the last with "and"."""
    return ", ".join(words[:-1]) + f" and {words[-1]}" if len(words) > 1 else "".join(words)
