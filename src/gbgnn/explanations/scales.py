"""Names of scales: how far away what a model uses comes from."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gbgnn.origins import Scale

AVERAGE = "average features"
"""What is said of a node by its place alone, if all nodes had average features."""


START = "before any round"
"""What is said before any round, of every node the same."""

OF_NO_NODE = (AVERAGE, START)
"""What is said whatever the features are, so that it decides nothing."""


_HOPS = re.compile(r"\d+ hops?")


def name_scale(scale: Scale) -> str:
    """Return a scale in words.

    Examples
    --------
    >>> [name_scale(each) for each in (0, 1, 2, "labels nearby")]
    ['own columns', '1 hop', '2 hops', 'labels nearby']
    """
    if isinstance(scale, str):
        return scale
    return "own columns" if scale == 0 else f"{scale} hop{'s' * (scale > 1)}"


def order_names(names: Iterable[str]) -> list[str]:
    """Return names of scales, each once, distances first and from near to far.

    Examples
    --------
    >>> order_names(["1 hop", "labels nearby", "10 hops", "2 hops", "own columns"])
    ['own columns', '1 hop', '2 hops', '10 hops', 'labels nearby']
    """
    known = list(dict.fromkeys(names))
    distances = [name for name in known if name == name_scale(0) or _HOPS.fullmatch(name)]
    distances.sort(key=lambda name: 0 if name == name_scale(0) else int(name.split()[0]))
    return [*distances, *(name for name in known if name not in distances)]


def order_scales(scales: Iterable[Scale]) -> list[Scale]:
    """Return distances first, then other scales as they come, and last what is said of no node in particular.

    Examples
    --------
    >>> order_scales(["labels nearby", 2, AVERAGE, "graph network", 0])
    [0, 2, 'labels nearby', 'graph network', 'average features']
    """
    known = list(dict.fromkeys(scales))
    distances = sorted(each for each in known if isinstance(each, int))
    words = [each for each in known if isinstance(each, str) and each not in OF_NO_NODE]
    return [*distances, *words, *(each for each in OF_NO_NODE if each in known)]
