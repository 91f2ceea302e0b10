from __future__ import annotations

from typing import Any

import plotly.graph_objects as go
import pytest

from gbgnn.report import figures

from .conftest import HOSTILE

SPECS = {
    "lines": figures.lines(
        [1, 2, 3],
        {HOSTILE[0]: [1.0, None, 0.5], "b": [2, 1, 0]},
        x_title="x",
        y_title="y",
        mark=(2, HOSTILE[1]),
    ),
    "log": figures.lines([1, 2], {"a": [1.0, 0.1]}, x_title="x", y_title="y", log=True, y_range=(0, 1)),
    "intervals": figures.intervals(
        HOSTILE, [0.5, None, 0.7], [0.4, None, None], [0.6, None, None], x_title="x"
    ),
    "bars": figures.bars(HOSTILE, [0.5, -0.2, 0.1], x_title="x", percent=True),
    "heat": figures.heat(HOSTILE, [[1, 0, 0], [2, 3, 0], [0, 0, 1]], [[1, 0, 0], [0.4, 0.6, 0], [0, 0, 1]]),
    "against": figures.against([1.0, 2.0], [1.5, 1.0], x_title="x", y_title="y"),
    "histogram": figures.histogram([1.0, 2.0], x_title="x"),
    "reliability": figures.reliability({HOSTILE[0]: ([0.1, None, 0.9], [0.2, None, 1.0], [3, 0, 4])}),
}


@pytest.mark.parametrize("name", SPECS)
def test_plotly_takes_the_figure(name: str) -> None:
    go.Figure(SPECS[name])  # which checks every name and value


@pytest.mark.parametrize("name", SPECS)
def test_no_text_in_a_figure_is_html(name: str) -> None:
    for text in texts_in(SPECS[name]):
        assert "<" not in text.replace("<extra></extra>", "")


def texts_in(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [text for each in value for text in texts_in(each)] if isinstance(value, (list, tuple)) else []


def test_empty_bins_are_not_drawn() -> None:
    assert SPECS["reliability"]["data"][1]["x"] == [0.1, 0.9]


def test_what_has_no_value_has_no_mark() -> None:
    (marks,) = SPECS["intervals"]["data"]
    assert marks["x"] == [0.5, 0.7]
    assert marks["error_x"]["arrayminus"] == pytest.approx([0.1, 0.0])


def test_long_names_are_shortened() -> None:
    assert figures.plain("a" * 100) == "a" * 39 + "…"
    assert figures.plain("a\n  b") == "a b"
