"""NumPy's SeedSequence of many seeds at once, which one by one takes longer than training small networks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]
_POOL = 4
"""Words that entropy is mixed into."""


def derive_seeds(roots: Sequence[int], *path: int) -> list[int]:
    """Return 63 bits of ``SeedSequence(root, spawn_key=path)`` for each root, all below 2**32.

    What that computes is part of NumPy's promise that streams stay as they are; a test holds this to it.

    Examples
    --------
    >>> expected = np.random.SeedSequence(7, spawn_key=(1, 2)).generate_state(1, np.uint64)[0]
    >>> derive_seeds([7], 1, 2) == [int(expected) >> 1]
    True
    """
    words = [np.array(word, np.uint32) for word in (roots, *[[0]] * (_POOL - 1))]
    mixing = _Hash(0x43B0D7E5, 0x931E8875)
    pool = [mixing(word) for word in words]
    for source, target in permutations(range(_POOL), 2):
        pool[target] = _join(pool[target], mixing(pool[source]))
    for step in path:
        pool = [_join(word, mixing(np.array([step], np.uint32))) for word in pool]
    output = _Hash(0x8B51F9DD, 0x58F38DED)
    low, high = (output(word).astype(np.uint64) for word in pool[:2])
    seeds: list[int] = ((low | high << np.uint64(32)) >> np.uint64(1)).tolist()
    return seeds


class _Hash:
    """Scrambles words, in another way each time."""

    def __init__(self, constant: int, factor: int) -> None:
        self._constant, self._factor = constant, factor

    def __call__(self, words: Words) -> Words:
        words = words ^ np.uint32(self._constant)
        self._constant = self._constant * self._factor % 2**32
        words = words * np.uint32(self._constant)
        return words ^ (words >> np.uint32(16))


def _join(words: Words, others: Words) -> Words:
    joined: Words = np.uint32(0xCA01F9DD) * words - np.uint32(0x4973F715) * others
    return joined ^ (joined >> np.uint32(16))
