"""How much is computed at once, so that fine-tuning stays within a given number of bytes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gbgnn.errors import ParameterError

_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def parse_bytes(owner: str, name: str, value: int | str) -> int:
    """Return a number of bytes given as an integer, or as text such as ``"500MB"`` or ``"2 GiB"``."""
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", value, re.IGNORECASE)
        if match and match[2].upper() in _UNITS:
            value = int(float(match[1]) * _UNITS[match[2].upper()])
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ParameterError(
            f'{owner}.{name} must be a number of bytes, or text such as "500MB" or "2GiB"; got {value!r}.'
        )
    return value


@dataclass(frozen=True)
class Needs:
    """What the computation takes, in bytes."""

    fixed: int  # parameters, their gradients and what the optimiser remembers
    column: int  # to multiply one column of all nodes by P
    n_columns: int  # columns there are
    terms: int  # the terms of one node
    work: int  # all else that is computed of one node before the next gradient
    copy: int  # to pick one node's terms out of those of all; 0 where nodes come in order
    n_rows: int  # nodes whose terms are wanted
    is_divisible: bool = True  # whether columns may be treated one after the other
    can_hold: bool = True  # whether terms may be held: they stay the same


@dataclass(frozen=True)
class MemoryPlan:
    """Whether the terms of all nodes are held, and how many columns and nodes are treated at once."""

    is_held: bool
    n_columns: int
    n_rows: int


def plan_memory(limit: int, needs: Needs) -> MemoryPlan:
    """Share ``limit`` bytes out.

    Terms that fit are computed once and held. Otherwise those of as many nodes as possible are computed,
    used and forgotten, time and again; the products with P then get a quarter of the room, because narrow
    blocks of columns take hardly longer than wide ones.
    """
    least_columns = 1 if needs.is_divisible else needs.n_columns
    room = limit - needs.fixed
    beside = room - needs.n_rows * needs.terms
    if needs.can_hold and beside >= max(least_columns * needs.column, needs.work + needs.copy):
        n_columns = min(needs.n_columns, max(least_columns, beside // needs.column))
        return MemoryPlan(True, n_columns, min(needs.n_rows, beside // (needs.work + needs.copy)))
    share = min(room // 4, room - needs.terms - needs.work)
    n_columns = min(needs.n_columns, max(least_columns, share // needs.column))
    n_rows = (room - n_columns * needs.column) // (needs.terms + needs.work)
    if n_rows < 1:
        least = needs.fixed + least_columns * needs.column + needs.terms + needs.work
        raise ParameterError(
            f"FineTuner.memory_limit must be at least {least:,} bytes for this graph and model; "
            f"got {limit:,}."
        )
    return MemoryPlan(False, n_columns, min(needs.n_rows, n_rows))
