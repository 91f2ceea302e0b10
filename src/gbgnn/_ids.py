"""Whether ids repeat, found out without a second copy of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbgnn._arrays import is_rising, release, split_blocks
from gbgnn.errors import GraphError

_AT_ONCE = 1 << 23
"""Ids that are compared at a time; the others wait for a pass of their own."""


def are_distinct(ids: NDArray[Any]) -> bool:
    """Whether no id of a flat array is there twice.

    Numbers, or what is made of text by a hash, are sorted, some million at a time; text itself is looked at
    only where the hashes of two are the same.

    Examples
    --------
    >>> are_distinct(np.array(["ann", "bob", "cat"])), are_distinct(np.array([3, 1, 3]))
    (True, False)
    """
    kind = ids.dtype.kind
    if len(ids) < 2 or (kind in "iu" and is_rising(ids)):
        return True  # counted upwards, as most are: no need to sort
    if kind not in "iuU" or not ids.dtype.itemsize:
        try:
            return len(set(ids.tolist()) if kind == "O" else np.unique(ids)) == len(ids)
        except TypeError as error:
            raise GraphError(f"node_ids must be numbers or text: {error}.") from error
    n_passes = len(ids) // _AT_ONCE + 1
    for number in range(n_passes):
        keys = np.sort(np.concatenate([key[key % n_passes == number] for key, _ in _hashed(ids)]))
        repeated = keys[1:][keys[1:] == keys[:-1]]
        if len(repeated):
            alike = np.concatenate([block[np.isin(key, repeated)] for key, block in _hashed(ids)])
            if len(np.unique(alike)) < len(alike):
                return False
    return True


def _hashed(ids: NDArray[Any]) -> Iterator[tuple[NDArray[np.uint64], NDArray[Any]]]:
    """Yield 64 bits for each id, equal for equal ids, with the ids, block by block."""
    n_signs = ids.dtype.itemsize // 4 if ids.dtype.kind == "U" else 1
    factors = np.random.default_rng(0).integers(1 << 63, size=n_signs, dtype=np.uint64) * 2 + 1
    for start, stop in split_blocks(ids):
        block = np.ascontiguousarray(ids[start:stop])
        release(ids)
        if block.dtype.kind == "U":
            signs = block.astype(block.dtype.newbyteorder("=")).view(np.uint32).reshape(len(block), n_signs)
            keys = np.zeros(len(block), np.uint64)
            for place, factor in enumerate(factors):
                keys += signs[:, place] * factor
        else:
            keys = block.astype(np.uint64)
        keys = (keys ^ (keys >> np.uint64(29))) * factors[0]
        yield keys ^ (keys >> np.uint64(32)), block
