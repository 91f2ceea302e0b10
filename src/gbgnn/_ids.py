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


def hash_ids(ids: NDArray[Any]) -> NDArray[np.uint64]:
    """Return 64 bits for each of some whole numbers or texts: equal ids have equal ones, in any width."""
    if ids.dtype.kind == "U":
        plain = np.ascontiguousarray(ids, ids.dtype.newbyteorder("="))
        signs = plain.view(np.uint32).reshape(len(ids), -1)
        keys = np.zeros(len(ids), np.uint64)
        for place, factor in enumerate(_mix(np.arange(1, signs.shape[1] + 1, dtype=np.uint64))):
            keys += signs[:, place] * (factor | np.uint64(1))
    else:
        keys = ids.astype(np.uint64)
    return _mix(keys)


def _mix(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return numbers with their bits spread, no two of them the same if none of the given ones are."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        keys = (keys ^ (keys >> np.uint64(shift))) * np.uint64(factor)
    return keys ^ (keys >> np.uint64(31))


def _hashed(ids: NDArray[Any]) -> Iterator[tuple[NDArray[np.uint64], NDArray[Any]]]:
    """Yield what is made of ids by the hash, with the ids, block by block."""
    for start, stop in split_blocks(ids):
        block = ids[start:stop]
        yield hash_ids(block), block
        release(ids)
