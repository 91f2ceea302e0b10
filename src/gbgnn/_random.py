"""One seed, and from it an independent stream for every place that draws random numbers.

Learners draw by counting: a number is a hash of the seed, of what it is for and of its place in a table. So
it is the same on every device and in every precision, whatever else is drawn and however large the table: a
small network draws the same weights alone and inside a larger one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import permutations
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from gbgnn.errors import ParameterError

Words = NDArray[np.uint32]


class Purpose(IntEnum):
    """What a learner draws numbers for."""

    WEIGHTS = 0
    BIASES = 1
    DROPOUT = 2
    ORDER = 3
    START = 4


@dataclass(frozen=True)
class Seeds:
    """Derives one seed per round and purpose, so that a round never depends on how many came before.

    That is why a fit stopped at round t equals a fit that was asked for t rounds.

    Examples
    --------
    >>> Seeds(0).head(3) == Seeds(0).head(3), Seeds(0).head(3) == Seeds(0).head(4)
    (True, False)
    """

    root: int

    def hop(self, t: int) -> int:
        """Seed of the aggregation of round ``t``."""
        return self._derive(0, t)

    def head(self, t: int, attempt: int = 0) -> int:
        """Seed of the learner of round ``t``; a retry is another ``attempt``."""
        return self._derive(1, t, attempt)

    @classmethod
    def heads(cls, members: Sequence[Seeds], t: int, attempt: int = 0) -> list[int]:
        """Return :meth:`head` of several members; of many in one go, unless a root has more than 32 bits."""
        roots = [own.root for own in members]
        if len(roots) < 16 or max(roots) >= 2**32:
            return [own.head(t, attempt) for own in members]
        return derive_seeds(roots, 1, t, attempt)

    def fine_tuning(self) -> int:
        """Seed of fine-tuning."""
        return self._derive(2)

    def repeat(self, i: int) -> int:
        """Root seed of the ``i``-th repeat of a fit; the first, 0, has this one."""
        return self._derive(3, i) if i else self.root

    def _derive(self, stream: int, t: int = 0, attempt: int = 0) -> int:
        sequence = np.random.SeedSequence(self.root, spawn_key=(stream, t, attempt))
        return int(sequence.generate_state(1, dtype=np.uint64)[0] >> np.uint64(1))


_POOL = 4
"""Words that NumPy's SeedSequence mixes entropy into."""


def derive_seeds(roots: Sequence[int], *path: int) -> list[int]:
    """Return 63 bits of ``SeedSequence(root, spawn_key=path)`` for each root, all below 2**32.

    One by one that takes longer than training small networks. What it computes is part of NumPy's promise
    that streams stay as they are; a test holds this to it.
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


@dataclass(frozen=True)
class RoundSeeds(Sequence[int]):
    """The seeds of ``members`` in round ``t``, derived when they are asked for: most parts draw nothing."""

    members: Sequence[Seeds]
    t: int

    def __len__(self) -> int:
        return len(self.members)

    def __getitem__(self, i: Any) -> Any:
        return self.members[i].hop(self.t)


def generator(seed: int, device: torch.device | str = "cpu") -> torch.Generator:
    """Build a torch generator; it lives on ``device`` because torch requires that of its users."""
    return torch.Generator(device=device).manual_seed(seed)


_MASK = 2**32 - 1
_ROUNDS = ((16, 0x7FEB352D), (15, 0x846CA68B))
_SIGNED_ROUNDS = ((16, 0x7FEB352D), (15, 0x846CA68B - 2**32))
_LAST_SHIFT = 16


def mix(numbers: Words) -> Words:
    """Scramble 32 bits: a finaliser of two products (Wellons' lowbias32) under which no two numbers meet.

    Examples
    --------
    >>> mix(np.array([0, 1, 2], np.uint32)).tolist()
    [0, 1753845952, 3507691905]
    """
    for shift, factor in _ROUNDS:
        numbers = (numbers ^ (numbers >> np.uint32(shift))) * np.uint32(factor)
    return numbers ^ (numbers >> np.uint32(_LAST_SHIFT))


def mix_(numbers: torch.Tensor, scratch: torch.Tensor | None = None) -> torch.Tensor:
    """Scramble the bits of int32 numbers, in place, as :func:`mix` does; they are read as signed.

    ``scratch`` is memory of the same shape to work in.
    """
    scratch = torch.empty_like(numbers) if scratch is None else scratch
    for shift, factor in (*_SIGNED_ROUNDS, (_LAST_SHIFT, 1)):
        torch.bitwise_right_shift(numbers, shift, out=scratch)
        numbers.bitwise_xor_(scratch.bitwise_and_(_MASK >> shift))  # torch fills with the sign
        if factor != 1:
            numbers.mul_(factor)
    return numbers


def as_int32(number: int) -> int:
    """Return the int32 with the same 32 bits."""
    return (number + 2**31) % 2**32 - 2**31


def derive_key(seed: int, *path: int) -> int:
    """Return the key of a stream, an int32: of a seed of up to 64 bits, a purpose, a layer, an epoch."""
    return as_int32(int(derive_keys([seed], *path)[0]))


def derive_keys(seeds: Sequence[int], *path: int | Words) -> Words:
    """Return :func:`derive_key` of many seeds and paths, as 32 bits without a sign; paths are broadcast."""
    whole = np.array(seeds, dtype=np.uint64)
    halves = [(half & np.uint64(_MASK)).astype(np.uint32) for half in (whole, whole >> np.uint64(32))]
    return extend_keys(np.zeros(len(whole), np.uint32), *halves, *path)


def extend_keys(keys: Words, *path: int | Words) -> Words:
    """Return the keys of paths that go on from those of ``keys``."""
    for number in path:
        keys = mix(keys + np.asarray(number, np.uint32))
    return keys


def hash_grid(rows: torch.Tensor, n_columns: int) -> torch.Tensor:
    """Return the hash of every place in some rows of a table, int32, whatever else the table has."""
    columns = torch.arange(n_columns, dtype=torch.int32, device=rows.device)
    # A copy, because mixing is in place.
    return mix_(mix_(rows.to(torch.int32, copy=True))[:, None] + columns)


def draw_bits(table: torch.Tensor, key: int | torch.Tensor) -> torch.Tensor:
    """Return a random int32 for every place of a table of :func:`hash_grid`, from the stream of a key."""
    return mix_(table + key)


def as_uniform(draws: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return draws as multiples of 2^-24 in [0, 1), which every precision holds exactly."""
    return (draws >> 8).to(dtype).add_(2**23).mul_(2**-24)


def uniform(
    n_rows: int, n_columns: int, key: int, dtype: torch.dtype, device: torch.device | str = "cpu"
) -> torch.Tensor:
    """Return a table of numbers in [0, 1) from the stream of a key."""
    return as_uniform(draw_bits(hash_grid(torch.arange(n_rows, device=device), n_columns), key), dtype)


def dropout_threshold(share: float) -> int:
    """Return the int32 below which there are ``share`` of all draws."""
    return min(math.ceil(share * 2**32), _MASK) - 2**31


def root_seed(random_state: Any) -> int:
    """Return the seed that scikit-learn's ``random_state`` stands for: itself, or a draw."""
    if isinstance(random_state, (int, np.integer)) and random_state >= 0:
        return int(random_state)
    try:
        return int(check_random_state(random_state).randint(2**31 - 1))
    except ValueError as error:
        raise ParameterError(
            "GBGNNClassifier.random_state must be None, an integer >= 0 or a RandomState; got "
            f"{random_state!r}."
        ) from error
