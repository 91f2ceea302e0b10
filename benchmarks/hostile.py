"""Hostile changes to inputs: values that nobody expects, and what is nearly right.

Every function takes a generator of Python's, and does the same for the same seed.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

SMALL = [0, 1, -1, 2, 3, 7, -5]
LARGE = [2**31 - 1, 2**31, 2**63 - 1, 2**63, -(2**63), 10**9, 10**12, 10**30]
FLOATS = [0.0, -0.0, 0.5, 1.5, -1.5, float("nan"), float("inf"), -float("inf"), 1e308, 5e-324]
TEXTS = [
    *(
        "",
        " ",
        "a",
        "0",
        "-1",
        "1.0",
        "1e0",
        "NaN",
        "nan",
        "inf",
        "true",
        "None",
        "null",
        "NA",
        "id",
        "label",
    ),
    *("é", "\x1b[31mred", "\u202eabc", "a\nb", "a,b", 'a"b', "../x", "x" * 5000, "{}", "[", "train", "test"),
    *("float32", "int64", "O", "<U300000000", "S2000000000", "adjacency", "mlp", "softmax", "cpu", "cuda:99"),
]


def odd_value(rng: random.Random, *, large: bool = True, depth: int = 0) -> Any:
    """Return a value of any kind."""
    kinds: list[Callable[[], Any]] = [
        lambda: rng.choice(SMALL),
        lambda: rng.choice(LARGE if large else SMALL),
        lambda: rng.choice(FLOATS),
        lambda: rng.choice(TEXTS),
        lambda: rng.choice([True, False, None]),
    ]
    if depth < 2:
        inner = {"large": large, "depth": depth + 1}
        kinds += [
            lambda: [odd_value(rng, **inner) for _ in range(rng.randrange(4))],
            lambda: {rng.choice(TEXTS): odd_value(rng, **inner) for _ in range(rng.randrange(3))},
        ]
    return rng.choice(kinds)()


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in items:
        found += _places(each, (*path, key))
    return found


def mutate_document(document: Any, rng: random.Random, *, large: bool = True) -> Any:
    """Return a copy of nested dictionaries and lists with one to three changes."""
    document = json.loads(json.dumps(document))
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        places = _places(document)
        if not places:
            return document
        *before, last = rng.choice(places)
        owner = document
        for key in before:
            owner = owner[key]
        change = rng.randrange(6)
        if change == 0:
            del owner[last]
        elif change == 1 and isinstance(owner, dict):
            owner[rng.choice([*TEXTS, f"{last}s"])] = owner.pop(last)
        elif change == 2 and isinstance(owner, list):
            owner += owner[last : last + 1] * rng.choice([1, 3])
        elif change == 3:
            other = document
            for key in rng.choice(places):
                other = other[key] if isinstance(other, (dict, list)) else other
            owner[last] = json.loads(json.dumps(other))
        elif change == 4 and isinstance(owner[last], (int, float)) and not isinstance(owner[last], bool):
            owner[last] = rng.choice(
                [*SMALL, *FLOATS, *(LARGE if large else []), owner[last] + 1, -owner[last]]
            )
        else:
            owner[last] = odd_value(rng, large=large)
    return document


def mutate_array(array: np.ndarray, rng: random.Random) -> np.ndarray:
    """Return an array with another shape, type or value."""
    array = np.array(array)
    change = rng.randrange(8)
    if change == 0:
        kind = rng.choice(["i1", "u8", "f2", "f8", ">f4", "c8", "U3", "S3", "?", "M8[s]", "f16"])
        try:
            with np.errstate(all="ignore"):
                return array.astype(kind)
        except (ValueError, TypeError):
            return array.astype("U5")
    if change == 1:
        array = np.atleast_1d(array)
        return rng.choice([array[None], array.ravel(), array.T, array[..., None], array[:0], array[:-1]])
    if change == 2 and array.size:
        return np.concatenate([array.ravel(), array.ravel()[: rng.choice([1, 5])]])
    if change == 3:
        return np.array(odd_scalar(rng))
    array = array.copy()
    for _ in range(rng.choice([1, 1, 3]) if array.size else 0):
        place = rng.randrange(array.size)
        try:
            with np.errstate(all="ignore"):
                array.flat[place] = rng.choice([*SMALL, *LARGE[:6], *FLOATS, array.size, array.size + 1])
        except (ValueError, OverflowError, TypeError):
            continue
    return array


def odd_scalar(rng: random.Random) -> Any:
    """Return what NumPy makes a plain array of."""
    return rng.choice([*SMALL, *LARGE[:3], *FLOATS, "a", ""])


def mutate_text(text: str, rng: random.Random) -> str:
    """Return lines of cells with a few of them changed, repeated, moved or dropped."""
    lines = [line.split(",") for line in text.splitlines()]
    for _ in range(rng.choice([1, 1, 2, 4])):
        row = rng.randrange(len(lines)) if lines else 0
        change = rng.randrange(9)
        if not lines or not lines[row] or change == 0:
            lines.insert(row, [rng.choice(TEXTS)])
        elif change == 1:
            del lines[row]
        elif change == 2:
            lines[row].insert(rng.randrange(len(lines[row]) + 1), rng.choice(TEXTS))
        elif change == 3:
            del lines[row][rng.randrange(len(lines[row]))]
        elif change == 4:
            lines.append(list(lines[row]))
        else:
            cells = [*TEXTS, *map(str, [*SMALL, *LARGE, *FLOATS]), *rng.choice(lines)]
            lines[row][rng.randrange(len(lines[row]))] = rng.choice(cells)
    return rng.choice(["\n", "\n", "\n", "\r\n", "\r"]).join(map(",".join, lines)) + rng.choice(
        ["\n", "", "\0"]
    )


def mutate_bytes(data: bytes, rng: random.Random) -> bytes:
    """Return bytes with some flipped, cut out, put in or written over."""
    raw = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 8])):
        place = rng.randrange(len(raw)) if raw else 0
        change = rng.randrange(6)
        if change <= 1 and raw:
            raw[place] ^= 1 << rng.randrange(8)
        elif change == 2:
            del raw[place : place + rng.choice([1, 4, 100, len(raw)])]
        elif change == 3:
            raw[place:place] = rng.randbytes(rng.choice([1, 4, 50]))
        elif change == 4:
            number = rng.choice([0, 1, 2**31 - 1, 2**32 - 1, 10**9])
            raw[place : place + 4] = number.to_bytes(4, rng.choice(["little", "big"]))
        else:
            other = rng.randrange(len(raw)) if raw else 0
            raw[place : place + 8] = raw[other : other + 8]
    return bytes(raw)


def pick(rng: random.Random, values: Sequence[Any], most: int) -> list[Any]:
    """Return a few of the values."""
    return rng.sample(list(values), rng.randrange(min(most, len(values)) + 1))
