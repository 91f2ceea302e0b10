from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gbgnn.errors import GBGNNWarning
from gbgnn.tables import NodeTable, leaks, warn_of_leak

RANDOM = np.random.default_rng(0)
N = 400
NOISE = RANDOM.normal(size=N)
NODES = np.arange(N)
NUMBER = RANDOM.lognormal(size=N)
CLASSES = RANDOM.integers(0, 3, N)
WORDS = np.array(["low", "mid", "high"])[CLASSES]


def gaps(values: Any) -> Any:
    broken = np.array(values, float)
    broken[::9] = np.nan
    return broken


LEAKS = {
    "a number under another name": (NUMBER * 3 + 1, NUMBER),
    "a number turned around": (-np.log(NUMBER), NUMBER),
    "a number with gaps": (gaps(NUMBER), NUMBER),
    "classes as numbers": (CLASSES, CLASSES),
    "classes as intervals": (CLASSES + RANDOM.random(N) / 2, CLASSES),
    "classes as words": (WORDS, CLASSES),
    "words of which two are one class": (np.where(NOISE > 0, WORDS, np.char.add(WORDS, "!")), CLASSES),
    "a flag": (NUMBER > 2, (NUMBER > 2).astype(int)),
    "one of several outputs": (NUMBER, np.column_stack([NOISE[::-1], NUMBER])),
}


@pytest.mark.parametrize(("column", "y"), LEAKS.values(), ids=LEAKS)
def test_a_column_that_gives_the_target_is_named(column: Any, y: Any) -> None:
    table = NodeTable({"noise": NOISE, "leak": column})
    with pytest.warns(GBGNNWarning, match="column 'leak' gives nearly all of the target alone"):
        assert warn_of_leak(table, NODES, y) == ["leak"]


HARMLESS = {
    "noise": (NOISE, NUMBER),
    "a good column": (NUMBER + NOISE / 10, NUMBER),
    "a good column of classes": (CLASSES + NOISE / 4, CLASSES),
    "a name each": ([f"name {i}" for i in range(N)], CLASSES),
    "categories of two rows": ([f"{i // 2}" for i in range(N)], np.repeat(RANDOM.integers(0, 2, N // 2), 2)),
    "mostly missing": (np.where(NODES % 3, np.nan, NUMBER), NUMBER),
    "one class": (NOISE, np.zeros(N, int)),
    "one value": (np.ones(N), CLASSES),
    "a rare class": (NOISE, (NODES == 7).astype(int)),
    "words against numbers": (WORDS, NUMBER),
}


@pytest.mark.parametrize(("column", "y"), HARMLESS.values(), ids=HARMLESS)
def test_other_columns_raise_no_alarm(column: Any, y: Any) -> None:
    assert warn_of_leak(NodeTable(pd.DataFrame({"x": column})), NODES, y) == []


def test_matrices_and_several_columns() -> None:
    X = np.column_stack([NOISE, NUMBER, -NUMBER])
    with pytest.warns(GBGNNWarning, match="columns 'x1', 'x2' each give nearly all of the target"):
        assert warn_of_leak(X, NODES, NUMBER) == ["x1", "x2"]
    with pytest.warns(GBGNNWarning, match="columns 'b', 'c'"):
        assert warn_of_leak(X, NODES[:100], NUMBER[:100], ["a", "b", "c"]) == ["b", "c"]


def test_what_is_looked_at_is_bounded(monkeypatch: Any) -> None:
    assert warn_of_leak(NUMBER[:, None], NODES[:29], NUMBER[:29]) == []  # may be chance
    monkeypatch.setattr(leaks, "MAX_COLUMNS", 1)
    monkeypatch.setattr(leaks, "MAX_ROWS", 50)
    X = np.column_stack([NOISE, NUMBER])
    assert warn_of_leak(X, NODES, NUMBER) == []
    with warnings.catch_warnings(action="ignore"):
        assert warn_of_leak(X[:, ::-1], NODES, NUMBER) == ["x0"]
