"""Passes over large arrays, block by block and on all cores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from gbgnn._threads import LARGE, map_threads

T = TypeVar("T")

# Entries looked at in one step: what a step makes on the way stays in a core's own cache.
_BLOCK = 1 << 18
# Fewer steps than this are done before a second thread has started.
_FEW_BLOCKS = 8


def is_any(test: Callable[[int, int], NDArray[np.bool_]], n: int) -> bool:
    """Return whether ``test(start, stop)`` is true anywhere in 0 to ``n``."""
    return any(over_blocks(lambda start, stop: bool(test(start, stop).any()), n))


def is_equal(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Return whether two flat arrays hold the same numbers."""
    return len(one) == len(other) and not is_any(lambda a, b: one[a:b] != other[a:b], len(one))


def over_blocks(work: Callable[[int, int], T], n: int, *, width: int = 1) -> list[T]:
    """Return ``work(start, stop)`` for consecutive stretches of ``n`` rows of so many numbers.

    Large work is spread over as many threads as torch may use; NumPy lets them run at the same time.
    """
    steps = split_blocks(n, width)
    return map_threads(lambda step: work(*step), steps, LARGE if len(steps) >= _FEW_BLOCKS else 0)


def split_blocks(n: int, width: int = 1) -> list[tuple[int, int]]:
    """Return where the blocks of ``n`` rows of ``width`` numbers start and stop."""
    size = max(1, _BLOCK // max(width, 1))
    return [(start, min(start + size, n)) for start in range(0, n, size)]


def row_width(array: NDArray[Any]) -> int:
    """Return how many numbers a row of an array holds."""
    return array.size // max(len(array), 1)


def convert(array: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """Return a copy in another dtype, made on all cores."""
    given = np.asarray(array)
    result = np.empty_like(given, dtype=dtype)

    def copy(start: int, stop: int) -> None:
        with np.errstate(over="ignore", invalid="ignore"):  # what becomes infinite is refused later
            np.copyto(result[start:stop], given[start:stop], casting="unsafe")

    over_blocks(copy, len(given), width=row_width(given))
    return result


def count_nonfinite(values: NDArray[Any]) -> int:
    """Return how many values are NaN or infinite, without a temporary of their size."""
    plain = np.asarray(values)

    def count(start: int, stop: int) -> int:
        block = plain[start:stop]
        return int(block.size - np.count_nonzero(np.isfinite(block)))

    return sum(over_blocks(count, len(plain), width=row_width(plain)))
