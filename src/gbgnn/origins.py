"""Origins of the columns that learners see: in words, and which of the user's columns each is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gbgnn.errors import AbsentError
from gbgnn.features import Neighbourhood
from gbgnn.problem import InputRecipe

_STATISTICS = {
    "mean": "mean",
    "std": "standard deviation",
    "min": "minimum",
    "max": "maximum",
    "missing": "missing share",
    "sum": "degree-scaled mean",
}
_UNDIRECTED, _DIRECTED = ("",), ("in-", "out-")

LABELS_NEARBY, POSITION = "labels nearby", "position in the graph"
"""Where columns come from that are of no other node's columns."""

Scale = int | str
"""How many hops away is what is seen; in words where that is no distance."""


class Origin(NamedTuple):
    """What a column is, in words, and the user's column that it is made of: None for labels and positions."""

    name: str
    column: str | None
    is_indicator: bool = False  # 1 where a node has a value, such as city=Oslo, so that a mean is a share
    scale: Scale = 0


def describe_columns(
    recipe: InputRecipe, columns: Sequence[str], classes: Sequence[str], n_seen: int
) -> list[Origin]:
    """Return the origins of the ``n_seen`` columns of a representation.

    Parameters
    ----------
    recipe
        How a graph became features.
    columns
        The user's columns.
    classes
        Names of classes or labels; empty for numbers.
    n_seen
        How many columns there are. Neighbours of a graph with directions have two columns for each one.

    Examples
    --------
    >>> from gbgnn.propagation import AugmentedAdjacency
    >>> around = Neighbourhood(hops=1, targets=1, positions=1)
    >>> wide = InputRecipe(AugmentedAdjacency(), neighbourhood=around, n_targets=1)
    >>> [each.name for each in describe_columns(wide, ["age"], (), 5)]
    ['age', "mean of neighbours' age", 'labels 1 step away', 'share labelled 1 step away', 'position 1']
    """
    encoded = describe_own(recipe, columns)
    if recipe.neighbourhood is None:
        found = encoded
    else:
        own = encoded
        if recipe.encoder is not None and recipe.takes_gaps:
            own = [Origin(name, each.name) for each in recipe.encoder.encoders_ for name in each.raw_names()]
        beside = _describe_labels(recipe.neighbourhood, recipe.n_targets, classes)
        positions = range(1, recipe.neighbourhood.positions + 1)
        beside += [Origin(f"position {i}", None, scale=POSITION) for i in positions]
        around = _describe_neighbours(recipe.neighbourhood, encoded, _UNDIRECTED)
        if len(own) + len(around) + len(beside) < n_seen:
            around = _describe_neighbours(recipe.neighbourhood, encoded, _DIRECTED)
        found = [*own, *around, *beside]
    if len(found) != n_seen:
        raise AbsentError(f"learners saw {n_seen} columns, of which {len(found)} are known by name.")
    return found


def describe_own(recipe: InputRecipe, columns: Sequence[str]) -> list[Origin]:
    """Return the origins of what a node has of its own, without gaps."""
    if recipe.encoder is None:
        return [Origin(name, name) for name in columns]
    return [
        Origin(name, each.name, name.startswith(f"{each.name}="))
        for each in recipe.encoder.encoders_
        for name in each.names()
    ]


def _describe_neighbours(
    neighbourhood: Neighbourhood, encoded: Sequence[Origin], directions: Sequence[str]
) -> list[Origin]:
    """Return statistics of the neighbours' columns, in the order of :meth:`Neighbourhood.widen`."""
    return [
        Origin(word_statistic(statistic, each, hop, direction), each.column, scale=hop)
        for direction in directions
        for hop in range(1, neighbourhood.hops + 1)
        for statistic in neighbourhood.statistics
        for each in encoded
    ]


def word_statistic(statistic: str, of: Origin, hop: int, direction: str = "") -> str:
    """Return a statistic of a column of the nodes some steps away, in words.

    Examples
    --------
    >>> word_statistic("max", Origin("age", "age"), 2, "in-")
    'maximum of age 2 in-steps away'
    """
    away = f"{hop} {direction}steps away"
    if of.is_indicator and statistic == "mean":
        return f"share of {f'{direction}neighbours' if hop == 1 else f'nodes {away}'} with {of.name}"
    what = f"{direction}neighbours' {of.name}" if hop == 1 else f"{of.name} {away}"
    return f"{_STATISTICS[statistic]} of {what}"


def _describe_labels(neighbourhood: Neighbourhood, n_targets: int, classes: Sequence[str]) -> list[Origin]:
    """Return what labelled nodes nearby are, in the order of :meth:`NeighbourTargets.names`."""
    named = list(classes) if len(classes) == n_targets else [f"output {i}" for i in range(n_targets)]
    endings = [""] if n_targets == 1 else [f": {name}" for name in named]
    found = []
    for k in range(1, neighbourhood.targets + 1):
        away = f"{k} step{'s' * (k > 1)} away"
        names = [*(f"labels {away}{ending}" for ending in endings), f"share labelled {away}"]
        found += [Origin(name, None, scale=LABELS_NEARBY) for name in names]
    return found
