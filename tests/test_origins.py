from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gbgnn import Graph, Neighbourhood
from gbgnn.errors import AbsentError
from gbgnn.features import LabelledRows
from gbgnn.features.neighbours import STATISTICS
from gbgnn.origins import Origin, describe_columns
from gbgnn.problem import InputRecipe
from gbgnn.propagation import AugmentedAdjacency

N = 24
RANDOM = np.random.default_rng(0)
TABLE = {
    "age": np.where(np.arange(N) % 5, np.arange(N) * 1.5, np.nan),
    "city": ["Oslo", "Rome", "Lima"] * (N // 3),
    "since": np.datetime64("2020-01-01") + 40 * np.arange(N),
    "year": [2024] * N,
}
RING = np.roll(np.eye(N), 1, axis=0)


def describe(recipe: InputRecipe, graph: Graph, classes: tuple[str, ...] = ()) -> list[tuple[str, Origin]]:
    """Return the names that the inputs have, each with its origin."""
    known = LabelledRows(np.arange(3), np.zeros((3, recipe.n_targets)))
    names = recipe.build(graph, known).names
    assert names is not None
    found = describe_columns(recipe, graph.column_names, classes, len(names))
    return list(zip(names, found, strict=True))


def recipe_for(graph: Graph, **settings: Any) -> InputRecipe:
    return replace(InputRecipe(AugmentedAdjacency()).fitted_on(graph), **settings)


def column_of(name: str, graph: Graph) -> str | None:
    """Return the user's column that a name of the inputs tells, by its spelling."""
    if name.startswith(("target", "labelled_share", "position")):
        return None
    around = re.fullmatch(r"(?:in_|out_)?(.+)_(?:mean|std|min|max|missing)_\d+", name)
    encoded = around[1] if around else name
    return next(column for column in graph.column_names if re.match(rf"{column}($|[=:#])", encoded))


@settings(max_examples=20, deadline=None)
@given(
    hops=st.integers(0, 2),
    statistics=st.lists(st.sampled_from(STATISTICS), max_size=2, unique=True),
    targets=st.integers(0, 2),
    n_targets=st.integers(1, 3),
    positions=st.integers(0, 2),
    takes_gaps=st.booleans(),
    directed=st.booleans(),
)
def test_every_column_comes_from_the_one_that_its_name_tells(
    hops: int,
    statistics: list[str],
    targets: int,
    n_targets: int,
    positions: int,
    takes_gaps: bool,
    directed: bool,
) -> None:
    graph = Graph(RING if directed else RING + RING.T, TABLE)
    around = Neighbourhood(hops=hops, statistics=statistics, targets=targets, positions=positions)
    recipe = recipe_for(graph, neighbourhood=around, n_targets=n_targets, takes_gaps=takes_gaps)
    pairs = describe(recipe, graph)
    for name, origin in pairs:
        assert origin.column == column_of(name, graph)
    assert len({origin.name for _, origin in pairs}) == len(pairs)


def test_columns_of_a_matrix_are_themselves() -> None:
    graph = Graph(RING + RING.T, np.eye(N, 2), feature_names=["a", "b"])
    assert describe_columns(recipe_for(graph), ["a", "b"], (), 2) == [Origin("a", "a"), Origin("b", "b")]


def test_words_are_those_of_a_person() -> None:
    graph = Graph(RING + RING.T, TABLE)
    around = Neighbourhood(hops=2, targets=2, positions=1)
    recipe = recipe_for(graph, neighbourhood=around, n_targets=3, takes_gaps=True)
    words = dict(describe(recipe, graph, ("red", "green", "blue")))
    expected = {
        "age": "age",
        "city": "city",
        "since:month": "since:month",
        "age_mean_1": "mean of neighbours' age",
        "age_mean_2": "mean of age 2 steps away",
        "age=missing_mean_1": "share of neighbours with age=missing",
        "city=Oslo_mean_1": "share of neighbours with city=Oslo",
        "city=Rome_mean_2": "share of nodes 2 steps away with city=Rome",
        "target1_labelled_1": "labels 1 step away: green",
        "target2_labelled_2": "labels 2 steps away: blue",
        "labelled_share_2": "share labelled 2 steps away",
        "position_1": "position 1",
    }
    assert {name: words[name].name for name in expected} == expected
    directed = Graph(RING, TABLE)
    numbers = recipe_for(directed, neighbourhood=replace_statistics(around, "std"), n_targets=1)
    told = {origin.name for _, origin in describe(numbers, directed)}
    assert {
        "standard deviation of in-neighbours' age",
        "standard deviation of age 2 out-steps away",
        "labels 1 step away",
    } <= told


def replace_statistics(around: Neighbourhood, *statistics: str) -> Neighbourhood:
    return Neighbourhood(**around.get_params() | {"statistics": statistics})


def test_another_number_of_columns_is_said() -> None:
    graph = Graph(RING + RING.T, TABLE)
    with pytest.raises(AbsentError, match="learners saw 99 columns, of which 10 are known by name"):
        describe_columns(recipe_for(graph), graph.column_names, (), 99)
